"""Strategies of hypothesis for arguments of a JSON Schema, valid and invalid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, cast

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from capset_testing.capability_suite.schema_fit import Data, JsonSchema, resolve_ref

DataPath = tuple[str | int, ...]
"""The path to a part of JSON data: keys and indexes."""

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
ANY_JSON: Final[SearchStrategy[Data]] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)
_MAX_DEPTH: Final = 4


def valid_data(schema: JsonSchema, root: JsonSchema, depth: int = 0) -> SearchStrategy[Data]:
    """Return a strategy for data that may fit the schema. Formats, and lengths beside a pattern, are ignored."""
    schema = resolve_ref(schema, root)
    if "const" in schema or "enum" in schema:
        values = cast("list[Data]", schema.get("enum") or [schema["const"]])
        return st.sampled_from(values)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return st.one_of([valid_data(option, root, depth) for option in options])
    if "allOf" in schema:
        return valid_data(schema["allOf"][0], root, depth)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return st.one_of([valid_data({**schema, "type": kind}, root, depth) for kind in cast("list[str]", kinds)])
    make = _MAKERS.get(str(kinds))
    return ANY_JSON if make is None else make(schema, root, depth)


def _text(schema: JsonSchema, root: JsonSchema, depth: int) -> SearchStrategy[str]:
    if "pattern" in schema:
        return st.from_regex(str(schema["pattern"]), fullmatch=False)
    minimum = schema.get("minLength", 0)
    letters = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])
    return st.text(letters, min_size=minimum, max_size=min(schema.get("maxLength", minimum + 20), minimum + 20))


def _integer(schema: JsonSchema, root: JsonSchema, depth: int) -> SearchStrategy[int]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    low = low if above is None else above + 1
    return st.integers(low, high if below is None else below - 1)


def _number(schema: JsonSchema, root: JsonSchema, depth: int) -> SearchStrategy[float]:
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    low, high = schema.get("minimum", above), schema.get("maximum", below)
    return st.floats(low, high, allow_nan=False, allow_infinity=False).filter(
        lambda number: number not in (above, below)
    )


def _array(schema: JsonSchema, root: JsonSchema, depth: int) -> SearchStrategy[list[Data]]:
    minimum = schema.get("minItems", 0)
    maximum = minimum if depth >= _MAX_DEPTH else min(schema.get("maxItems", minimum + 3), minimum + 3)
    if fixed := schema.get("prefixItems"):
        return st.tuples(*(valid_data(element, root, depth + 1) for element in fixed)).map(list)
    return st.lists(valid_data(schema.get("items", {}), root, depth + 1), min_size=minimum, max_size=maximum)


def _object(schema: JsonSchema, root: JsonSchema, depth: int) -> SearchStrategy[dict[str, Data]]:
    fields = cast("Mapping[str, JsonSchema]", schema.get("properties", {}))
    needed = set(schema.get("required", ()))
    members = {
        name: valid_data(inner, root, depth + 1)
        for name, inner in fields.items()
        if depth < _MAX_DEPTH or name in needed
    }
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in members.items() if name in needed},
        optional={name: strategy for name, strategy in members.items() if name not in needed},
    )


_MAKERS: Final[Mapping[str, Callable[[JsonSchema, JsonSchema, int], SearchStrategy[Data]]]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": lambda schema, root, depth: st.booleans(),
    "null": lambda schema, root, depth: st.none(),
    "array": _array,
    "object": _object,
}


@st.composite
def mutated_data(
    draw: Callable[[SearchStrategy[Any]], Any], strategy: SearchStrategy[dict[str, Data]]
) -> dict[str, Data]:
    """Draw data with one random change: another value, a nearly valid one, a missing one, or an extra one."""
    data = {"": deepcopy(draw(strategy))}
    path = draw(st.sampled_from(list(_paths(data))))
    *parents, last = path
    container: Any = data
    for key in parents:
        container = container[key]
    current = container[last]
    match draw(st.sampled_from(["other", "near", "gone", "more"])):
        case "gone" if parents:
            del container[last]
        case "more" if isinstance(current, dict):
            current[draw(_TEXT.filter(lambda name: name not in current))] = draw(ANY_JSON)
        case "near" if parents:
            container[last] = draw(st.sampled_from(_nearly_valid(current)))
        case _ if parents:
            container[last] = draw(ANY_JSON)
        case _:
            current[draw(_TEXT)] = draw(ANY_JSON)
    return data[""]


def _paths(data: Data, parents: DataPath = ()) -> Iterator[DataPath]:
    children: list[tuple[str | int, Data]] = []
    if isinstance(data, dict):
        children = [*cast("dict[str | int, Data]", data).items()]
    elif isinstance(data, list):
        children = [*enumerate(cast("list[Data]", data))]
    for key, inner in children:
        yield (*parents, key)
        yield from _paths(inner, (*parents, key))


def _nearly_valid(value: Data) -> list[Data]:
    """Return values that a lenient validator would accept in place of ``value``."""
    near: list[Data] = [json.dumps(value), [value], {"value": value}, None]
    match value:
        case bool():
            near += [int(value), str(value)]
        case int() | float():
            near += [str(value), value + 0.5, bool(value)]
        case str():
            near += [[*value], value.encode().hex(), len(value)]
        case list():
            near += [dict.fromkeys(map(str, range(len(cast("list[Data]", value)))))]
        case _:
            near += [0, "", False]
    return near

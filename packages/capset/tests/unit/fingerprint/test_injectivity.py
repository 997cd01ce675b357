from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capset.fingerprint.canonical import NotCanonical, as_json, canonical, canonical_by_walk, encoded, read
from tests.helpers.fingerprint.documents import EXACT, for_reference

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
edges = st.sampled_from([0, 1, EXACT, EXACT + 1, EXACT + 2, 10 * EXACT, 10**16, 2**63, 10**20])
integers = st.integers() | st.builds(
    lambda edge, by, sign: (edge + by) * sign, edges, st.integers(-2, 2), st.sampled_from([1, -1])
)
digits = integers.map(str) | st.sampled_from(
    ["+9007199254740993", "09007199254740993", "9007199254740993 ", "٩٠٠٧١٩٩٢٥٤٧٤٠٩٩٣", ""]
)
floats = st.floats(allow_nan=False, allow_infinity=False) | integers.map(float)
tags = st.sampled_from(["$int", "$$int", "$$$int", "int", "$Int", "$int ", "$integer", "\\$int", "$"])
scalars = st.none() | st.booleans() | integers | floats | texts | digits


def inside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return what may hold some data, among it all that looks like the form of an integer."""
    tagged = st.builds(lambda tag, value: {tag: value}, tags, inner | digits)
    beside = st.builds(lambda tag, value, key: {tag: value, key: 1}, tags, digits, texts)
    return st.lists(inner, max_size=4) | st.dictionaries(texts | tags, inner, max_size=4) | tagged | beside


data = st.recursive(scalars, inside, max_leaves=12)


def typed(value: Any) -> Any:
    """Return JSON data as a value that is equal for the same data only: to Python, ``True`` is 1."""
    match value:
        case bool() | None | str():
            return type(value).__name__, value
        case int() | float():
            return "number", value
        case list() | tuple():
            return "array", tuple(map(typed, value))
        case _:
            return "object", frozenset((key, typed(member)) for key, member in value.items())


@pytest.mark.spec("F1", "F12")
@settings(deadline=None, max_examples=300)
@given(data)
@example({"$int": str(EXACT + 1)})
@example([{"$int": {"$int": str(EXACT + 1)}}, {"$$int": str(-EXACT - 1)}])
def test_a_form_is_read_as_what_was_written_and_so_no_two_data_have_one(value: Any) -> None:
    form = canonical(value)
    assert typed(read(form)) == typed(value)
    assert canonical(read(form)) == canonical_by_walk(value) == rfc8785.dumps(for_reference(value)) == form
    assert encoded(value) in (None, form)


@pytest.mark.spec("F1")
@settings(deadline=None, max_examples=300)
@given(data)
def test_what_looks_like_the_form_of_data_has_another_form(value: Any) -> None:
    # A plain parser does not know of integers in a form of their own; it sees objects.
    def number(digits: str) -> float:
        return float(digits) if len(digits) > 15 else int(digits)

    look_alike = json.loads(canonical(value), parse_int=number)
    assert (canonical(look_alike) == canonical(value)) is (typed(look_alike) == typed(value))


@pytest.mark.spec("F1")
@pytest.mark.parametrize("number", [EXACT + 1, -EXACT - 1, 10**4299])
def test_an_integer_and_its_look_alikes_are_told_apart(number: int) -> None:
    text = str(number)
    looks: list[Any] = [number, {"$int": text}, {"$$int": text}, {"$int": number}, {"$int": {"$int": text}}]
    assert canonical(looks[0]).decode() == f'{{"$int":"{number}"}}'
    assert canonical(looks[1]).decode() == f'{{"$$int":"{number}"}}'
    assert len(set(map(canonical, looks))) == len(looks)
    assert [read(canonical(look)) for look in looks] == looks


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "value", [{"$int": str(EXACT)}, {"$int": "x"}, {"$int": 1}, {"$int": str(EXACT + 1), "a": 1}], ids=str
)
def test_other_objects_keep_their_form(value: dict[str, Any]) -> None:
    for document in (value, [value], {"a": value}):
        assert canonical(document) == json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.spec("F1")
def test_a_form_becomes_json_that_every_parser_of_numbers_reads() -> None:
    value = {"a": [2**70, {"$int": str(2**70)}, 1e20, 0.5, "é"]}
    assert json.loads(as_json(canonical(value))) == value


@pytest.mark.spec("F1")
def test_what_is_no_canonical_text_is_a_value_error() -> None:
    for text in ("{", "[" * 100_000):
        with pytest.raises(ValueError, match=r"."):
            read(text)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": ["b", "\ud800"]}, "$.a[1]"),
        ([{"b": {"\udfff": 1}}], '$[0].b."\\udfff"'),
        ({"a b": {"": "\ud800"}}, '$."a b".""'),
        ({"\ud800": 1, "\U0001f600": 2}, '$."\\ud800"'),
        ("\ud800", "$"),
        ({"a": [0, 10**4300]}, "$.a[1]"),
    ],
    ids=["item", "key", "odd keys", "key beside another", "root", "digits"],
)
def test_the_path_leads_to_what_has_no_form(value: Any, path: str) -> None:
    for document, at in ((value, path), ([[], value], f"$[1]{path[1:]}")):
        with pytest.raises(NotCanonical) as refused:
            canonical(document)
        assert refused.value.path == at
        assert str(refused.value).startswith(f"{at}: ")
        str(refused.value).encode()


@pytest.mark.spec("F1")
def test_the_path_leads_into_a_cycle_and_down_to_what_is_too_deep() -> None:
    cycle: dict[str, Any] = {"a": [1, {}]}
    cycle["a"][1]["b"] = cycle["a"]
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    for value, path in ((cycle, "$.a[1].b"), ({"x": deep}, f"$.x{'[0]' * 19} …")):
        with pytest.raises(NotCanonical) as refused:
            canonical(value)
        assert refused.value.path == path

"""Forms made of JSON Schema, and the JSON data that comes back from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from capset.errors import Field, InvalidArguments
from capset_server.console.forms import Form

Kind = Literal["text", "long", "number", "integer", "boolean", "choice", "texts", "json", "group"]
"""``texts`` is a list of texts, one a line; ``json`` is what no other kind fits; ``group`` has fields of its own."""
_MAX_DEPTH: Final = 3
_LONG: Final = 200
"""A text that may have more characters gets several lines."""
JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. ``name`` is its path, as ``arguments/address/city``; ``value`` is as the form shows it."""

    name: str
    label: str
    kind: Kind
    help: str = ""
    is_required: bool = False
    value: str = ""
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    fields: tuple[FormField, ...] = ()
    error: str = ""
    schema: JsonSchema = field(default_factory=dict[str, Any], repr=False)


def fields_of(
    schema: JsonSchema,
    values: Mapping[str, Any] | None = None,  # JSON data
    *,
    name: str = "arguments",
    errors: Sequence[Field] = (),
    form: Form | None = None,
) -> tuple[FormField, ...]:
    """Return the fields for an object of a schema, filled with ``values``, or as ``form`` was sent.

    ``errors`` are those that REST has found; their paths may begin with ``name`` or with a property.
    """
    said = {_plain(one.path, name): one.expected for one in errors}
    return tuple(_fields(schema, schema, values or {}, (name,), said, form))


def leaves_of(fields: Sequence[FormField]) -> Iterator[FormField]:
    """Yield the fields that hold a value, those in groups too."""
    for one in fields:
        yield from leaves_of(one.fields) if one.kind == "group" else (one,)


def values_of(schema: JsonSchema, form: Form, *, name: str = "arguments") -> dict[str, Any]:  # JSON data
    """Return the object that a form describes; a field that was left empty is left out, unless it is a needed text.

    Raises ``InvalidArguments``, naming each field with something else than its kind takes.
    """
    problems: list[Field] = []
    found = _values(fields_of(schema, name=name), form, problems)
    if problems:
        raise InvalidArguments("Invalid form: " + "; ".join(map(str, problems)), fields=problems)
    return found


def names_in(schema: JsonSchema, before: str = "") -> Iterator[str]:
    """Yield the names of the fields of a schema, as errors of REST have them: ``address.city``."""
    for name, inner in schema.get("properties", {}).items():
        if "properties" not in inner:
            yield before + name
        yield from names_in(inner, f"{before}{name}.")


def at_fields(errors: Sequence[Field], names: Set[str]) -> tuple[list[Field], list[Field]]:
    """Return the first error of each field, even those of a part of its value, and the errors that are at no field."""
    found: dict[str, Field] = {}
    others: list[Field] = []
    for one in errors:
        parts = one.path.split(".")
        about = next((name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in names), None)
        if about is None:
            others.append(one)
        else:
            found.setdefault(about, Field(about, one.expected, one.did_you_mean))
    return [*found.values()], others


@dataclass(frozen=True, slots=True)
class Argument:
    """One property of an object, for people to read; ``type`` is in the words of JSON Schema."""

    name: str
    type: str
    is_required: bool
    description: str
    default: str | None


def arguments(schema: JsonSchema) -> list[Argument]:
    """Return the properties of a schema of an object."""
    found: list[Argument] = []
    for name, raw in schema.get("properties", {}).items():
        own, told = _resolved(schema, raw), _resolved({}, raw)
        said = str(told.get("description") or own.get("description") or "")
        default = json.dumps(own["default"], ensure_ascii=False) if "default" in own else None
        found.append(Argument(name, _type_of(schema, own), name in schema.get("required", ()), said, default))
    return found


def _type_of(whole: JsonSchema, schema: JsonSchema) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"])
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(_type_of(whole, _resolved(whole, one)) for one in options)
    match schema.get("type"):
        case "array":
            items = _resolved(whole, schema.get("items", {})).get("type")
            return f"array of {items}" if isinstance(items, str) else "array"
        case list():
            return " | ".join(map(str, cast("list[Any]", schema["type"])))
        case str() as one:
            return one
        case _:
            return "any"


def _fields(
    whole: JsonSchema,
    schema: JsonSchema,
    values: Mapping[str, Any],
    path: tuple[str, ...],
    said: Mapping[str, str],
    form: Form | None,
) -> Iterator[FormField]:
    required = schema.get("required", ())
    for key, raw in schema.get("properties", {}).items():
        own, here = _resolved(whole, raw), (*path, key)
        told = _resolved({}, raw)
        kind, is_set = _kind(whole, own, len(here)), key in values
        value, name = values.get(key), "/".join(map(_escaped, here))
        nested: tuple[FormField, ...] = ()
        if kind == "group":
            inner = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
            nested = tuple(_fields(whole, own, inner, here, said, form))
        if kind == "text" and isinstance(value, str) and "\n" in value:
            kind = "long"
        shown = form[name] if form is not None and name in form else _shown(kind, value) if is_set else ""
        yield FormField(
            name=name,
            label=str(told.get("title") or key.replace("_", " ").capitalize()),
            kind=kind,
            help=str(told.get("description") or own.get("description") or ""),
            is_required=key in required,
            value=shown,
            default=_shown(kind, own["default"]) if own.get("default") is not None else "",
            choices=tuple((_shown("choice", one), str(one)) for one in own.get("enum", ())),
            fields=nested,
            error=said.get("/".join(here[1:]), ""),
            schema=own,
        )


def _kind(whole: JsonSchema, schema: JsonSchema, depth: int) -> Kind:
    if "enum" in schema:
        return "choice"
    match schema.get("type"):
        case "string":
            return "long" if schema.get("maxLength", 0) > _LONG or schema.get("format") == "textarea" else "text"
        case "integer" | "number" | "boolean" as simple:
            return simple
        case "array" if _takes_text(_resolved(whole, schema.get("items", {}))):
            return "texts"
        case "object" if schema.get("properties") and depth <= _MAX_DEPTH:
            return "group"
        case _:
            return "json"


def _takes_text(items: JsonSchema) -> bool:
    """Return whether the items of a list are texts, or may be: a line cannot stand for an object, but JSON can."""
    kinds = [_object(one).get("type") for one in items.get("anyOf", (items,))]
    return "string" in kinds and all(kind in ("string", "object") for kind in kinds)


def _resolved(whole: JsonSchema, schema: Any) -> JsonSchema:
    """Return a schema without a reference to the document's own definitions, and without ``null`` beside one type."""
    found = _object(schema)
    for _ in range(8):
        if isinstance(reference := found.get("$ref"), str) and reference.startswith("#/$defs/"):
            target = _object(whole.get("$defs", {}).get(reference.removeprefix("#/$defs/")))
            found = {**target, **{key: value for key, value in found.items() if key != "$ref"}}
            continue
        options = [one for one in map(_object, found.get("anyOf", ())) if one.get("type") != "null"]
        if len(options) == 1:
            found = {**{key: value for key, value in found.items() if key != "anyOf"}, **options[0]}
            continue
        break
    return found


def _object(schema: Any) -> JsonSchema:
    """Return a schema as an object; of ``true`` and ``false``, which a schema may be too, one that says nothing."""
    return cast("JsonSchema", schema) if isinstance(schema, Mapping) else {}


def _shown(kind: Kind, value: Any) -> str:  # JSON data
    if kind in ("text", "long") and isinstance(value, str):
        return value
    if kind == "texts" and isinstance(value, list):
        lines = "\n".join(map(str, cast("list[Any]", value)))
        return lines if _parsed("texts", lines) == value else json.dumps(value, ensure_ascii=False)
    if kind == "group":
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None)


def _values(fields: Sequence[FormField], form: Form, problems: list[Field]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields:
        key = _unescaped(one.name.rpartition("/")[2])
        if one.kind == "group":
            inner = _values(one.fields, form, problems)
            if inner or one.is_required:
                found[key] = inner
            continue
        if one.name not in form:
            continue
        text = form[one.name].replace("\r\n", "\n")
        if not text.strip() and not (one.is_required and one.kind in ("text", "long", "texts")):
            continue
        try:
            found[key] = _parsed(one.kind, text)
        except ValueError as error:
            problems.append(Field(one.name.partition("/")[2], str(error)))
    return found


def _parsed(kind: Kind, text: str) -> Any:  # JSON data
    if kind in ("text", "long"):
        return text
    if kind == "texts":
        if text.startswith("["):  # what no line can say is written as JSON
            with suppress(ValueError, RecursionError):
                return json.loads(text, parse_constant=_refuse_constant)
        return [line for line in text.split("\n") if line.strip()]
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ValueError(_EXPECTED.get(kind, "JSON is expected")) from None
    if kind in ("number", "integer") and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(_EXPECTED[kind])
    return value


_EXPECTED: Final[Mapping[Kind, str]] = {
    "number": "a number is expected",
    "integer": "a whole number is expected",
    "boolean": "true or false is expected",
    "choice": "one of the choices is expected",
}


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(key: str) -> str:
    return key.replace("~1", "/").replace("~0", "~")


def _plain(path: str, name: str) -> str:
    """Return the path of an error without the name of the whole, with slashes between its parts."""
    parts = path.replace("[", ".").replace("]", "").split(".")
    return "/".join(parts[1:] if parts[0] == name else parts)

"""Forms built from JSON Schema, and the JSON data parsed from submitted forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from capset.errors import Field, InvalidArguments
from capset_server.console.forms import Form

Kind = Literal["text", "long", "number", "integer", "boolean", "choice", "texts", "json", "group"]
"""``texts`` is a list of texts, one per line; ``json`` is for all other types; ``group`` has nested fields."""
_MAX_DEPTH: Final = 3
_LONG: Final = 200
"""A text field that allows more characters than this has several lines."""
JsonSchema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. ``name`` is its path, such as ``arguments/address/city``; ``value`` is the text shown."""

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
    """Return the fields for an object schema, filled from the submitted ``form`` or else from ``values``.

    ``errors`` are those from REST; their paths may begin with ``name`` or with a property.
    """
    messages = {_plain(error.path, name): error.expected for error in errors}
    return tuple(_fields(schema, schema, values or {}, (name,), messages, form))


def leaves_of(fields: Sequence[FormField]) -> Iterator[FormField]:
    """Yield the fields that hold a value, including those in groups."""
    for form_field in fields:
        yield from leaves_of(form_field.fields) if form_field.kind == "group" else (form_field,)


def values_of(schema: JsonSchema, form: Form, *, name: str = "arguments") -> dict[str, Any]:  # JSON data
    """Return the object that a submitted form describes, without empty fields other than required texts.

    Raises ``InvalidArguments``, which names each field whose value is not of its kind.
    """
    problems: list[Field] = []
    values = _values(fields_of(schema, name=name), form, problems)
    if problems:
        raise InvalidArguments("Invalid form: " + "; ".join(map(str, problems)), fields=problems)
    return values


def names_in(schema: JsonSchema, before: str = "") -> Iterator[str]:
    """Yield the names of a schema's fields, in the form that REST errors use: ``address.city``."""
    for name, inner in schema.get("properties", {}).items():
        if "properties" not in inner:
            yield before + name
        yield from names_in(inner, f"{before}{name}.")


def at_fields(errors: Sequence[Field], names: Set[str]) -> tuple[list[Field], list[Field]]:
    """Return the first error of each field, or of a part of its value, and the errors that belong to no field."""
    by_name: dict[str, Field] = {}
    others: list[Field] = []
    for error in errors:
        parts = error.path.split(".")
        about = next((name for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in names), None)
        if about is None:
            others.append(error)
        else:
            by_name.setdefault(about, Field(about, error.expected, error.did_you_mean))
    return [*by_name.values()], others


@dataclass(frozen=True, slots=True)
class Argument:
    """One property of an object, for display; ``type`` uses the terms of JSON Schema."""

    name: str
    type: str
    is_required: bool
    description: str
    default: str | None


def arguments(schema: JsonSchema) -> list[Argument]:
    """Return the properties of an object schema."""
    properties: list[Argument] = []
    for name, raw in schema.get("properties", {}).items():
        resolved, labels = _resolved(schema, raw), _resolved({}, raw)
        description = str(labels.get("description") or resolved.get("description") or "")
        default = json.dumps(resolved["default"], ensure_ascii=False) if "default" in resolved else None
        properties.append(
            Argument(name, _type_of(schema, resolved), name in schema.get("required", ()), description, default)
        )
    return properties


def _type_of(document: JsonSchema, schema: JsonSchema) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in schema["enum"])
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(_type_of(document, _resolved(document, option)) for option in options)
    match schema.get("type"):
        case "array":
            items = _resolved(document, schema.get("items", {})).get("type")
            return f"array of {items}" if isinstance(items, str) else "array"
        case list():
            return " | ".join(map(str, cast("list[Any]", schema["type"])))
        case str() as one:
            return one
        case _:
            return "any"


def _fields(
    document: JsonSchema,
    schema: JsonSchema,
    values: Mapping[str, Any],
    path: tuple[str, ...],
    messages: Mapping[str, str],
    form: Form | None,
) -> Iterator[FormField]:
    required = schema.get("required", ())
    for key, raw in schema.get("properties", {}).items():
        resolved, inner_path = _resolved(document, raw), (*path, key)
        labels = _resolved({}, raw)
        kind, is_set = _kind(document, resolved, len(inner_path)), key in values
        value, name = values.get(key), "/".join(map(_escaped, inner_path))
        nested: tuple[FormField, ...] = ()
        if kind == "group":
            inner = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
            nested = tuple(_fields(document, resolved, inner, inner_path, messages, form))
        if kind == "text" and isinstance(value, str) and "\n" in value:
            kind = "long"
        text = form[name] if form is not None and name in form else _shown(kind, value) if is_set else ""
        yield FormField(
            name=name,
            label=str(labels.get("title") or key.replace("_", " ").capitalize()),
            kind=kind,
            help=str(labels.get("description") or resolved.get("description") or ""),
            is_required=key in required,
            value=text,
            default=_shown(kind, resolved["default"]) if resolved.get("default") is not None else "",
            choices=tuple((_shown("choice", choice), str(choice)) for choice in resolved.get("enum", ())),
            fields=nested,
            error=messages.get("/".join(inner_path[1:]), ""),
            schema=resolved,
        )


def _kind(document: JsonSchema, schema: JsonSchema, depth: int) -> Kind:
    if "enum" in schema:
        return "choice"
    match schema.get("type"):
        case "string":
            return "long" if schema.get("maxLength", 0) > _LONG or schema.get("format") == "textarea" else "text"
        case "integer" | "number" | "boolean" as simple:
            return simple
        case "array" if _takes_text(_resolved(document, schema.get("items", {}))):
            return "texts"
        case "object" if schema.get("properties") and depth <= _MAX_DEPTH:
            return "group"
        case _:
            return "json"


def _takes_text(items: JsonSchema) -> bool:
    """Return whether the items of a list are texts, or texts and objects: the objects are entered as JSON."""
    kinds = [_object(option).get("type") for option in items.get("anyOf", (items,))]
    return "string" in kinds and all(kind in ("string", "object") for kind in kinds)


def _resolved(document: JsonSchema, schema: Any) -> JsonSchema:
    """Resolve a schema's references to ``$defs``, and drop ``null`` from a union with one other type."""
    resolved = _object(schema)
    for _ in range(8):
        if isinstance(reference := resolved.get("$ref"), str) and reference.startswith("#/$defs/"):
            target = _object(document.get("$defs", {}).get(reference.removeprefix("#/$defs/")))
            resolved = {**target, **{key: value for key, value in resolved.items() if key != "$ref"}}
            continue
        options = [option for option in map(_object, resolved.get("anyOf", ())) if option.get("type") != "null"]
        if len(options) == 1:
            resolved = {**{key: value for key, value in resolved.items() if key != "anyOf"}, **options[0]}
            continue
        break
    return resolved


def _object(schema: Any) -> JsonSchema:
    """Return a schema as an object; the boolean schemas ``true`` and ``false`` become an empty one."""
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
    values: dict[str, Any] = {}
    for form_field in fields:
        key = _unescaped(form_field.name.rpartition("/")[2])
        if form_field.kind == "group":
            inner = _values(form_field.fields, form, problems)
            if inner or form_field.is_required:
                values[key] = inner
            continue
        if form_field.name not in form:
            continue
        text = form[form_field.name].replace("\r\n", "\n")
        if not text.strip() and not (form_field.is_required and form_field.kind in ("text", "long", "texts")):
            continue
        try:
            values[key] = _parsed(form_field.kind, text)
        except ValueError as error:
            problems.append(Field(form_field.name.partition("/")[2], str(error)))
    return values


def _parsed(kind: Kind, text: str) -> Any:  # JSON data
    if kind in ("text", "long"):
        return text
    if kind == "texts":
        if text.startswith("["):  # values that lines cannot represent are written as JSON
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
    """Return the path of an error, without a leading ``name`` and with slashes between its parts."""
    parts = path.replace("[", ".").replace("]", "").split(".")
    return "/".join(parts[1:] if parts[0] == name else parts)

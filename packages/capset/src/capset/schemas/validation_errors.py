"""Validation errors, reported with their paths in the input but without its values (spec 4, G12)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, NetmaskValueError
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from capset.errors import Field, closest

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError as Invalid


MAX_REPORTED: Final = 100
"""The maximum number of errors reported, so that thousands of wrong fields do not result in a huge response."""
MISSING_FIELD: Final = "required, but missing"
UNKNOWN_FIELD: Final = "no such parameter"

FieldProblem: TypeAlias = tuple[Sequence[int | str], str]
"""A path in the input, and what was expected there."""

_SAFE_MESSAGES: Final[Mapping[str, str]] = {
    "base64_decode": "Input should be valid base64",
    "byte_size_unit": "Input should be a number of bytes with a known unit",
    "bytes_invalid_encoding": "Data should be valid {encoding}",
    "datetime_object_invalid": "Input should be a valid datetime",
    "get_attribute_error": "Input should have attributes that can be read",
    "import_error": "Input should be a valid python path",
    "iteration_error": "Input should be iterable",
    "mapping_type": "Input should be a valid mapping",
    "timezone_offset": "Timezone offset of {tz_expected} required",
    "union_tag_invalid": "Input should have as tag, by {discriminator}, one of: {expected_tags}",
    "uuid_parsing": "Input should be a valid UUID",
    "zoneinfo_str": "Input should be a valid timezone",
}
"""Replacements for pydantic messages that contain input, or text of an exception that may quote it."""
_EMAIL: Final = "value is not a valid email address"
"""The start of pydantic's message, before the quoted address; its error type is that of any ``ValueError``."""

_EXCEPTION_TYPES: Final = frozenset({"assertion_error", "value_error"})
"""Error types of exceptions. Built-in ones, such as that of ``int("x")``, quote their input."""

_TYPES: Final = {
    "array": "an array",
    "boolean": "a boolean",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_LIMIT_PHRASES: Final = {
    "AdditionalItems": ("at most", "item"),
    "MaxItems": ("at most", "item"),
    "MaxLength": ("at most", "character"),
    "MaxProperties": ("at most", "field"),
    "MinItems": ("at least", "item"),
    "MinLength": ("at least", "character"),
    "MinProperties": ("at least", "field"),
}
_MESSAGES: Final = {
    "Constant": "Input should be {expected_value}",
    "Contains": "Input should have an item of the kind that its schema asks for",
    "ContentEncoding": "Input should be encoded as {content_encoding}",
    "ContentMediaType": "Input should be text of the type {content_media_type}",
    "ExclusiveMaximum": "Input should be less than {limit}",
    "ExclusiveMinimum": "Input should be greater than {limit}",
    "FalseSchema": "nothing is allowed here",
    "Format": "Input should be of the format {format}",
    "Maximum": "Input should be at most {limit}",
    "Minimum": "Input should be at least {limit}",
    "MultipleOf": "Input should be a multiple of {multiple_of}",
    "Not": "Input should not be what its schema excludes",
    "OneOfMultipleValid": "Input should fit only one of several schemas, but fits more",
    "Pattern": "Input should match the pattern {pattern}",
    "UnevaluatedItems": "Input should have no more items than its schema describes",
    "UniqueItems": "Input should have no item twice",
    "additionalProperties": "Input should have no fields",
    "maxContains": "Input should have fewer items of the kind that its schema counts",
    "minContains": "Input should have more items of the kind that its schema counts",
}
"""Messages by the kind of error, or by keyword if that is more precise; braces hold the keyword's value."""


class SchemaMismatch(ValueError):
    """Raised for a value that does not fit a JSON Schema; ``fields`` are the paths and reasons, without any value."""

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__("; ".join(map(str, fields)))
        self.fields = list(fields)


VALIDATION_ERRORS: Final = (ValidationError, SchemaMismatch)
"""The errors that schemas raise: pydantic's for types, capset's for JSON Schema. ``validation_fields`` accepts both."""


def validation_fields(error: ValidationError | SchemaMismatch, names: Sequence[str], received: Any) -> list[Field]:
    """List every field that does not fit, without echoing any value.

    Messages of a tool's own validators are kept, unless they quote the refused text. ``names`` are the top-level names,
    ``received`` is the validated input, of any type. A field that fits none of several types is listed once, with
    everything that was expected. Beyond 100 errors, only their number is given.
    """
    if isinstance(error, SchemaMismatch):
        return list(error.fields)
    return pydantic_fields(error.errors(include_url=False), names, received)


def pydantic_fields(problems: Sequence[ErrorDetails], names: Sequence[str], received: Any) -> list[Field]:
    """Do the same as ``validation_fields`` for the details of a pydantic error."""
    messages: list[FieldProblem] = []
    for problem in problems[:MAX_REPORTED]:
        place = _place(problem["loc"], received, is_named=problem["type"] in ("missing", "extra_forbidden"))
        match problem["type"]:
            case "missing":
                words = MISSING_FIELD
            case "extra_forbidden" | "unexpected_keyword_argument":
                words = UNKNOWN_FIELD
            case _:
                words = _safe_message(problem)
        messages.append((place, words))
    return to_fields(messages, len(problems), names)


def to_fields(messages: Iterable[FieldProblem], count: int, names: Sequence[str]) -> list[Field]:
    """Return at most 100 of ``count`` problems as fields: one for each path, and one for the rest."""
    expected: dict[str, list[str]] = {}
    suggestions: dict[str, str | None] = {}
    for place, words in messages:
        path = dotted_path(place)
        if words == UNKNOWN_FIELD:
            suggestions[path] = closest(str(place[-1]), names) if len(place) == 1 else None
        expected.setdefault(path, [])
        if words not in expected[path]:
            expected[path].append(words)
    fields = [Field(path, " or ".join(words), suggestions.get(path)) for path, words in expected.items()]
    remaining = count - MAX_REPORTED
    return [*fields, Field("…", f"{remaining} more do not fit")] if remaining > 0 else fields


def dotted_path(place: Sequence[int | str]) -> str:
    """Return a location in the input as a dotted path."""
    return ".".join(map(str, place)) or "(arguments)"


def _safe_message(problem: ErrorDetails) -> str:
    message, received, context = problem["msg"], problem["input"], problem.get("ctx", {})
    if message.startswith(_EMAIL):
        return _EMAIL
    if template := _SAFE_MESSAGES.get(problem["type"]):
        return template.format_map(context)
    if isinstance(context.get("error"), AddressValueError | NetmaskValueError):
        return "Input should be a valid IP address"
    if (
        problem["type"] in _EXCEPTION_TYPES
        and isinstance(received, str)
        # Very short input may occur in any message.
        and (repr(received) in message or (len(received) >= 4 and received in message))
    ):
        return "Input does not fit"
    return message


def _place(location: Sequence[int | str], received: Any, *, is_named: bool) -> list[int | str]:
    """Return the parts of an error's location that exist in the input.

    pydantic puts the names of a union's types between them, which the caller does not know.
    """
    place: list[int | str] = []
    current = received
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if isinstance(current, Mapping) and part in current:
            current = cast("Mapping[Any, Any]", current)[part]
        elif isinstance(part, int) and isinstance(current, list | tuple) and part < len(cast("list[Any]", current)):
            current = cast("list[Any]", current)[part]
        elif not (is_named and last) and not (position == 0 and isinstance(part, str)):
            continue
        place.append(part)
    return place


def json_schema_fields(errors: Iterable[Invalid], names: Sequence[str]) -> list[Field]:
    """List the fields that do not fit, as ``validation_fields`` does; ``names`` are the top-level names."""
    messages = (entry for error in errors for entry in _field_errors(error))
    first = list(islice(messages, MAX_REPORTED))
    return to_fields(first, len(first) + sum(1 for _ in messages), names)


def _field_errors(error: Invalid) -> Iterator[FieldProblem]:
    from jsonschema_rs import ValidationErrorKind as Kind

    place = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(name):
            yield (*place, name), MISSING_FIELD
        case Kind.AdditionalProperties(names) | Kind.UnevaluatedProperties(names):
            for name in names:
                yield (*place, name), UNKNOWN_FIELD
        case Kind.FalseSchema() if place and isinstance(place[-1], str):
            yield place, UNKNOWN_FIELD
        case Kind.AnyOf(context) | Kind.OneOfNotValid(context):
            inner = [entry for errors in context for error in errors for entry in _field_errors(error)]
            yield from inner or [(place, "Input should fit one of several schemas")]
        case Kind.PropertyNames(inner):
            # A name is part of the path, not a value.
            words = dict.fromkeys(words for _, words in _field_errors(inner))
            yield (*place, str(inner.instance)), "its name does not fit: " + " or ".join(words)
        case _:
            yield place, _error_text(error)


def _error_text(error: Invalid) -> str:
    kind, keyword = type(error.kind).__name__, str(error.schema_path[-1]) if error.schema_path else ""
    values = error.kind.as_dict()
    if kind == "Type":
        return "Input should be " + " or ".join(
            _TYPES.get(name, name) for name in sorted(cast("list[str]", values["types"]))
        )
    if kind == "Enum":
        return "Input should be one of: " + _quoted(values["options"])[1:-1]
    if limit_phrase := _LIMIT_PHRASES.get(kind):
        limit = values["limit"]
        bound, noun = limit_phrase
        return f"Input should have {bound} {limit} {noun}{'' if limit == 1 else 's'}"
    words = _MESSAGES.get(keyword) or _MESSAGES.get(kind, "Input does not fit")
    return words.format_map({name: _quoted(value) for name, value in values.items()}) if "{" in words else words


def _quoted(value: Any) -> str:  # a keyword's value, of any JSON type
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:200]}…"

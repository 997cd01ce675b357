"""JSON Schema errors, in words based on the keywords: the validator's messages quote the value (spec 4, G12)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from capset.errors import Field
from capset.schemas.validation_errors import MAX_LISTED, MISSING_FIELD, UNKNOWN_FIELD, Told, listed

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MAX_QUOTED: Final = 200
_TYPES: Final = {
    "array": "an array",
    "boolean": "a boolean",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_COUNTED: Final = {
    "AdditionalItems": ("at most", "item"),
    "MaxItems": ("at most", "item"),
    "MaxLength": ("at most", "character"),
    "MaxProperties": ("at most", "field"),
    "MinItems": ("at least", "item"),
    "MinLength": ("at least", "character"),
    "MinProperties": ("at least", "field"),
}
_PLAIN: Final = {
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
    "OneOfMultipleValid": "Input should fit one of several schemas only, and fits more",
    "Pattern": "Input should match the pattern {pattern}",
    "UnevaluatedItems": "Input should have no more items than its schema describes",
    "UniqueItems": "Input should have no item twice",
    "additionalProperties": "Input should have no fields",
    "maxContains": "Input should have fewer items of the kind that its schema counts",
    "minContains": "Input should have more items of the kind that its schema counts",
}
"""By the kind of an error, or by the keyword if that is more precise; in braces, the keyword's own value."""


def fields_of(errors: Iterable[ValidationError], known: Sequence[str]) -> list[Field]:
    """List the fields that do not fit, as ``validation_fields`` does; ``known`` are the names of the top level."""
    told = (one for error in errors for one in _told(error))
    first = list(islice(told, MAX_LISTED))
    return listed(first, len(first) + sum(1 for _ in told), known)


def _told(error: ValidationError) -> Iterator[Told]:
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
            inner = [one for errors in context for error in errors for one in _told(error)]
            yield from inner or [(place, "Input should fit one of several schemas")]
        case Kind.PropertyNames(inner):
            # A name is part of the path, not a value.
            words = dict.fromkeys(words for _, words in _told(inner))
            yield (*place, str(inner.instance)), "its name does not fit: " + " or ".join(words)
        case _:
            yield place, _words(error)


def _words(error: ValidationError) -> str:
    kind, keyword = type(error.kind).__name__, str(error.schema_path[-1]) if error.schema_path else ""
    values = error.kind.as_dict()
    if kind == "Type":
        return "Input should be " + " or ".join(
            _TYPES.get(one, one) for one in sorted(cast("list[str]", values["types"]))
        )
    if kind == "Enum":
        return "Input should be one of: " + _quoted(values["options"])[1:-1]
    if counted := _COUNTED.get(kind):
        limit = values["limit"]
        most, noun = counted
        return f"Input should have {most} {limit} {noun}{'' if limit == 1 else 's'}"
    words = _PLAIN.get(keyword) or _PLAIN.get(kind, "Input does not fit")
    return words.format_map({name: _quoted(value) for name, value in values.items()}) if "{" in words else words


def _quoted(value: Any) -> str:  # a keyword's value, of any JSON type
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"

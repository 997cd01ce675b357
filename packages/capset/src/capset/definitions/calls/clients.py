"""Questions to the person behind the client of a call, and their answers (spec 7, M12)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, Literal, Protocol, cast

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from capset.definitions.names import checked_text
from capset.errors import DefinitionError
from capset.schemas.schema import Schema, schema_of

_TEXT_KEYWORDS: Final = frozenset({"minLength", "maxLength", "format", "enum", "enumNames", "oneOf"})
_NUMBER_KEYWORDS: Final = frozenset({"minimum", "maximum"})
_LIST_KEYWORDS: Final = frozenset({"minItems", "maxItems"})
_COMMON_KEYWORDS: Final = frozenset({"type", "title", "description", "default"})
_FIELD_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    "string": _COMMON_KEYWORDS | _TEXT_KEYWORDS,
    "integer": _COMMON_KEYWORDS | _NUMBER_KEYWORDS,
    "number": _COMMON_KEYWORDS | _NUMBER_KEYWORDS,
    "boolean": _COMMON_KEYWORDS,
    "array": _COMMON_KEYWORDS | _LIST_KEYWORDS,
}
"""The JSON Schema keywords that a form keeps for each type of field."""
_FORMATS: Final = ("date", "date-time", "email", "uri")

M = TypeVar("M", bound=BaseModel, default=BaseModel)


@dataclass(frozen=True, slots=True)
class ClientAnswer(Generic[M]):
    """A person's answer: ``accept`` with ``data``, ``decline``, or ``cancel`` if the form was closed."""

    action: Literal["accept", "decline", "cancel"]
    data: M | None = None


@dataclass(frozen=True, slots=True)
class ClientQuestion(Generic[M]):
    """A question. ``key`` identifies it within its call; ``form`` is the JSON Schema of a flat form for ``model``."""

    key: str
    message: str
    model: type[M]
    form: Mapping[str, Any]

    def read(self, content: Mapping[str, Any]) -> M:
        """Parse a filled-in form into the model. Raises pydantic's ``ValidationError`` if it is invalid."""
        return cast("M", _schema(self.model).check_json(json.dumps(content)))

    def accepts(self, content: Mapping[str, Any] | None) -> bool:
        """Whether a filled-in form is valid."""
        try:
            self.read(content or {})
        except ValidationError:
            return False
        return True


class CallClient(Protocol):
    """The client of a call, as its handler sees it; provided by the interface of the call, or by a host.

    ``capabilities`` are what it declares to support, in MCP's terms: ``{"elicitation": {}}`` for forms.
    """

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Its capabilities, by name."""
        ...

    async def ask(self, question: ClientQuestion[M], /) -> ClientAnswer[M]:
        """Return the answer to a question. Raises ``ClientInputRequired`` if the call must be repeated with it."""
        ...


def question_of(key: str, message: str, model: type[M]) -> ClientQuestion[M]:
    """Make a question. Raises ``DefinitionError`` for an invalid key, or a model that cannot be a form."""
    if not 1 <= len(checked_text("the key of a question", key)) <= 100:
        raise DefinitionError(f"the key of a question must be text of 1–100 characters; got {key!r:.80}")
    if not (isinstance(model, type) and issubclass(model, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise DefinitionError(f"a question needs a pydantic model of its form; got {model!r:.80}")
    return ClientQuestion(key, checked_text(f"the question {key!r}", message), model, _form(model))


@lru_cache(1_000)
def _schema(model: type[BaseModel]) -> Schema:
    return schema_of(f"the form {model.__name__}", model, "validation")


@lru_cache(1_000)
def _form(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON Schema of a form: an object of texts, numbers, booleans and choices, without references."""
    _schema(model).refuse_secrets(f"the form {model.__name__}")
    schema = _schema(model).json_schema
    defs: Mapping[str, Any] = schema.get("$defs", {})
    fields: Mapping[str, Any] = schema.get("properties", {})
    properties = {
        name: _field(f"the form {model.__name__}, field {name!r}", field, defs) for name, field in fields.items()
    }
    form: dict[str, Any] = {"type": "object", "properties": properties}
    if schema.get("required"):
        form["required"] = list(schema["required"])
    return form


def _field(owner: str, field: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    schema = _resolved(field, defs)
    keywords = _FIELD_KEYWORDS.get(str(schema.get("type")))
    items: dict[str, Any] | None = _resolved(schema["items"], defs) if "items" in schema else None
    is_list = items is not None and not {"enum", "oneOf"}.isdisjoint(items)
    if keywords is None or (schema["type"] == "array") != is_list:
        raise DefinitionError(
            f"{owner}: a form has texts, numbers, booleans, choices of texts, and lists of such choices",
            hint="use flat fields, without models inside the model",
        )
    form_field = {word: value for word, value in schema.items() if word in keywords}
    if form_field.get("format", "date") not in _FORMATS:
        del form_field["format"]
    if form_field.get("default", "") is None:
        del form_field["default"]
    if items is not None:
        titled = items.get("oneOf")
        form_field["items"] = {"anyOf": titled} if titled else {"type": "string", "enum": items["enum"]}
    names = {**(items or {}), **schema}.get("enumNames")
    if names is not None and len(names) != len(schema.get("enum", ())):
        raise DefinitionError(f"{owner}: enumNames must have a name for each choice of one text, in the same order")
    return form_field


def _resolved(field: Mapping[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a field with its reference resolved, ``null`` removed, and a constant as a choice."""
    schema = dict(field)
    if "$ref" in schema:
        schema = {**defs[str(schema.pop("$ref")).rpartition("/")[2]], **schema}
    options = [_resolved(option, defs) for option in schema.pop("anyOf", ()) if option.get("type") != "null"]
    if options:
        schema = {**(options[0] if len(options) == 1 else _choice(options)), **schema}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    return schema


def _choice(options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a choice between options, with titles if any option has one.

    A constant has its own title; if an option has several values, each is its own title. The schema has no type if an
    option is not a choice of texts.
    """
    titles: dict[str, str | None] = {}
    for option in options:
        if option.get("type") != "string" or {"enum", "oneOf"}.isdisjoint(option):
            return {}
        titles |= {constant["const"]: constant["title"] for constant in option.get("oneOf", ())}
        values: list[str] = option.get("enum", [])
        titles |= dict.fromkeys(values, option.get("title") if len(values) == 1 else None)
    if not any(titles.values()):
        return {"type": "string", "enum": list(titles)}
    return {
        "type": "string",
        "oneOf": [{"const": choice, "title": title or choice} for choice, title in titles.items()],
    }

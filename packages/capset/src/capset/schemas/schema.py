"""Schemas of types: a compiled validator with its JSON Schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, Self, cast

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue
from pydantic_core import PydanticOmit, SchemaError, from_json
from typing_extensions import TypedDict

from capset.errors import DefinitionError
from capset.schemas.generators import ResultJsonSchema, UntitledJsonSchema
from capset.schemas.own_code import json_form_of, runs_own_code
from capset.schemas.plain_data import has_long_text, to_json_data
from capset.schemas.validation_errors import SchemaMismatch, json_schema_fields

if TYPE_CHECKING:
    from jsonschema_rs import Validator

    from capset.schemas.model_schemas import ModelSchema

_SCALAR_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null"})
_NO_SCHEMAS: Final = frozenset({"default", "const", "enum", "examples", "discriminator", "dependentRequired"})
"""The keywords whose values are data, even if they look like schemas."""
MAPS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""The keywords whose values map arbitrary names to schemas."""


_FINITE: Final = frozenset({str, int, bool, type(None), bytes})

_DIGEST: Final = ("x-digest", "sha256")
SESSION_FILE: Final = ("x-session-file", True)
"""The keyword, and its value, that mark a string as the path of a session file."""
SECRETS_WITHIN: Final = "x-secrets-within"
"""The keyword of an argument with nested secrets: records mask all of it, and approvers see all but the secrets."""


def digested() -> dict[str, JsonValue]:
    """Return the marker for a string argument whose SHA-256 is recorded beside it, even if the string is truncated.

    Pass it as ``Field(json_schema_extra=digested())``. In the record, the digest of ``code`` is ``code#sha256``. The
    digest is not keyed: use it for texts such as code, which others must be able to find in the record, but not for
    guessable values. If the host masks a part of the text, the digest is that of the masked text.
    """
    return dict([_DIGEST])


def session_file() -> dict[str, JsonValue]:
    """Return the marker for a string argument that is the path of a session file, whose content the tool uses.

    Pass it as ``Field(json_schema_extra=session_file())``. An approval of a call then covers the content of the file:
    approvers see its size and SHA-256 and can read it, and if the file changes, a new approval is needed.
    """
    return dict([SESSION_FILE])


_VALUES: Final = frozenset({"enum", "const"})
_PATTERNS: Final = frozenset({"pattern", "patternProperties"})


class _Rules(TypedDict, total=False):
    strict: bool
    extra: Literal["forbid"]


class Schema:
    """The schema of one type, which validates and serialises values and provides a JSON Schema.

    ``check(value)`` validates a Python value strictly, ``check_json(text)`` JSON text in strict JSON mode; both raise
    pydantic's ``ValidationError``. ``json_schema`` has every ``required`` sorted and must not be changed. In
    ``hash_input``, the form that hashes cover, every ``enum`` is sorted as well. ``write_only`` names the fields that
    are secrets by type, ``digested`` those marked by ``digested()``; ``takes_files`` is whether anything in it is
    marked by ``session_file()``. If ``may_be_infinite``, valid JSON may still contain NaN or an infinity. ``json_form``
    says how JSON data differs from a value. ``annotation`` is the type itself. It and the adapter's type parameter are
    ``Any``, because a schema is built from an annotation at run time.
    """

    __slots__ = (
        "_by_alias",
        "_core_schema",
        "_has_numbers",
        "_model_schema",
        "_own_code",
        "_to_json",
        "_to_python",
        "annotation",
        "check",
        "check_json",
        "digested",
        "hash_input",
        "is_exact",
        "json_form",
        "json_schema",
        "may_be_infinite",
        "only_scalars",
        "takes_files",
        "write_only",
    )

    check: Callable[[Any], Any]
    check_json: Callable[[bytes | str], Any]

    def __init__(
        self, adapter: TypeAdapter[Any], json_schema: JsonSchemaValue, *, closed: bool, annotation: Any = object
    ) -> None:
        rules: _Rules = {"strict": True, "extra": "forbid"} if closed else {"strict": True}
        self.annotation = annotation
        self._by_alias: bool | None = None
        self._core_schema = adapter.core_schema
        self._model_schema: ModelSchema | None = None
        self._own_code: bool | None = None
        self._to_json = adapter.serializer.to_json
        self._to_python = adapter.serializer.to_python
        self.check = partial(adapter.validator.validate_python, **rules)
        self.check_json = partial(adapter.validator.validate_json, **rules)
        self.json_schema = json_schema
        self.json_form = json_form_of(adapter.core_schema)
        self.hash_input = sorted_enums(json_schema)
        self.is_exact = json_schema.get("type") in ("integer", "boolean", "null") and _VALUES.isdisjoint(json_schema)
        takes_anything = any(not subschema for subschema in schemas_in(json_schema))
        self._has_numbers = takes_anything or any(
            subschema.get("type") == "number" for subschema in schemas_in(json_schema)
        )
        self.may_be_infinite = takes_anything
        fields: dict[str, Any] = json_schema.get("properties", {})
        self.only_scalars = all(map(_is_scalar, fields.values()))
        self.write_only = frozenset(name for name, inner in fields.items() if _is_write_only(inner))
        self.digested = frozenset(name for name, inner in fields.items() if _DIGEST in inner.items())
        self.takes_files = has_marked_files(json_schema)

    @property
    def has_own_code(self) -> bool:
        """Whether it may call the host's own validators, serialisers or default factories."""
        if self._own_code is None:
            self._own_code = runs_own_code(self._core_schema)
        return self._own_code

    def jsonable(self, value: Any) -> Any:
        """Return ``value`` as plain JSON data.

        Raises ``ValueError`` (such as ``PydanticSerializationError``) if JSON cannot represent it. That includes NaN
        and infinities, which pydantic would write as null.
        """
        if self._has_numbers and not is_finite(value):
            raise ValueError("JSON has no NaN and no infinities")
        if has_long_text(value):
            return to_json_data(self._to_python(value, mode="json", by_alias=self._by_alias, warnings="error"))
        return from_json(self._to_json(value, by_alias=self._by_alias, warnings="error"), allow_inf_nan=False)

    def text(self, value: Any) -> str:
        """Return ``value`` as JSON text for ``check_json``, with aliases and without computed fields.

        Raises ``ValueError`` as ``jsonable`` does.
        """
        if self._has_numbers and not is_finite(value):
            raise ValueError("JSON has no NaN and no infinities")
        return self._to_json(value, by_alias=True, round_trip=True, warnings="error").decode()

    def check_stored(self, text: bytes | str) -> Any:
        """Validate stored JSON text like ``check_json``, but also accept fields by their names instead of aliases."""
        return cast("Any", self.check_json)(text, by_alias=True, by_name=True)

    def refuse_secrets(self, label: str) -> None:
        """Raise ``DefinitionError`` if a value can hold a secret by its type, since that would be stored masked."""
        if any(subschema.get("writeOnly", False) for subschema in schemas_in(self.json_schema)):
            raise DefinitionError(f"{label} must hold no secret: it is stored and shown; use secrets= and ctx.secret()")

    @property
    def names(self) -> list[str]:
        """The names of an object's fields, in the order of their declaration."""
        return list(self.json_schema.get("properties", {}))

    @property
    def for_models(self) -> ModelSchema:
        """The schema of arguments in the form that model providers accept."""
        if self._model_schema is None:
            from capset.schemas.model_schemas import model_schema

            self._model_schema = model_schema(self.json_schema)
        return self._model_schema


class ResultSchema(Schema):
    """The schema of results of one type. Results that do not fit ``json_schema`` are not sent.

    Values are serialised by alias, regardless of the config of their models.
    """

    __slots__ = ("_is_proven", "_published", "_validator")

    def __init__(
        self, adapter: TypeAdapter[Any], json_schema: JsonSchemaValue, *, is_proven: bool, annotation: Any
    ) -> None:
        super().__init__(adapter, json_schema, closed=False, annotation=annotation)
        self._by_alias = True
        self._is_proven = is_proven
        self._published = json_schema
        self._validator: Validator | None = None
        self.is_exact = self.is_exact and is_proven

    def jsonable(self, value: Any) -> Any:
        """Return ``value`` as plain JSON data that fits the published schema.

        Raises ``ValueError`` if JSON cannot represent it, and ``SchemaMismatch``, a ``ValueError``, if it does not fit.
        """
        data = super().jsonable(value)
        if not self._is_proven:
            validator = self._validator or self.compile()
            if not validator.is_valid(data):
                raise SchemaMismatch(json_schema_fields(validator.iter_errors(data), self.names))
        return data

    def with_published(self, published: JsonSchemaValue) -> Self:
        """Return a copy of this schema whose JSON data must fit ``published`` instead."""
        copied = copy(self)
        copied._published, copied._validator = published, None
        copied._is_proven = copied.is_exact = False
        return copied

    def compile(self) -> Validator:
        """Return the validator of the published schema. Raises ``ValueError`` if it is not a valid JSON Schema."""
        import jsonschema_rs as rs

        try:
            self._validator = rs.validator_for(self._published, offline=True)
        except (rs.ReferencingError, rs.ValidationError) as error:
            raise ValueError(str(error).splitlines()[0]) from None
        return self._validator


def schema_of(label: str, annotation: Any, mode: JsonSchemaMode) -> Schema:
    """Compile the schema of a type annotation: in mode ``validation`` for inputs, otherwise for outputs.

    Schemas of inputs are closed: unknown fields are refused at every depth, unless a model's config says otherwise.
    Raises ``DefinitionError``, starting with ``label``, if the type has no schema.
    """
    generator = ResultJsonSchema() if mode == "serialization" else UntitledJsonSchema()
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        json_schema = generator.generate(adapter.core_schema, mode)
        # Values that are not JSON (a default of NaN, a lone surrogate) cannot be hashed: report them here, by name.
        json.dumps(json_schema, ensure_ascii=False, allow_nan=False).encode()
    except PydanticUserError as error:
        raise DefinitionError(f"{label}: {error.message.splitlines()[0]}") from error
    except SchemaError as error:
        raise DefinitionError(f"{label}: {str(error).splitlines()[-1]}") from error
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise DefinitionError(f"{label}: {error}") from error
    except PydanticOmit:
        raise DefinitionError(f"{label}: its type has no schema (SkipJsonSchema)") from None
    tidy = _tidy(json_schema, getattr(annotation, "__name__", None))
    if isinstance(generator, ResultJsonSchema):
        schema = ResultSchema(adapter, tidy, is_proven=generator.is_proven, annotation=annotation)
        if generator.is_authored or not all(map(_PATTERNS.isdisjoint, schemas_in(tidy))):
            try:
                schema.compile()
            except ValueError as error:
                raise DefinitionError(
                    f"{label}: its published schema is not a valid JSON Schema: {error}",
                    hint="write patterns as in ECMAScript, with ^ and $ for \\A and \\Z",
                ) from None
        return schema
    is_open = any(subschema.get("additionalProperties", False) is not False for subschema in _objects_in(tidy))
    is_closed = close_objects(tidy)
    # A schema is closed as a whole, so a model that is explicitly open cannot be exempted.
    if is_closed and is_open:
        raise DefinitionError(f"{label}: beside a model with extra='allow', every other model must state its own extra")
    return Schema(adapter, tidy, closed=is_closed, annotation=annotation)


def close_objects(schema: JsonSchemaValue) -> bool:
    """Close every object that lists its properties and does not mention others; return whether there was one."""
    silent = [subschema for subschema in _objects_in(schema) if "additionalProperties" not in subschema]
    for subschema in silent:
        subschema["additionalProperties"] = False
    return bool(silent)


def _objects_in(schema: JsonSchemaValue) -> list[dict[str, Any]]:
    return [subschema for subschema in schemas_in(schema) if "properties" in subschema]


def schema_of_fields(name: str, fields: Mapping[str, Any]) -> Schema:
    """Compile the schema of an object with these annotated fields and no others.

    A field whose annotation has a default (``Annotated[int, Field(default=5)]``) is optional and filled in; one that is
    ``NotRequired`` stays absent. Raises ``DefinitionError``, naming the field, if one has no schema or its default does
    not fit.
    """
    arguments = cast("Any", TypedDict)(name, {field: _qualified(note) for field, note in fields.items()})
    arguments.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True)
    try:
        schema = schema_of(f"tool {name!r}", arguments, "validation")
    except DefinitionError:
        for field, annotation in fields.items():
            schema_of(f"tool {name!r}, parameter {field!r}", annotation, "validation")
        raise
    _check_defaults(name, schema)
    return schema


def _qualified(annotation: Any) -> Any:
    """Return the annotation of a ``TypedDict`` field, which is required unless it has a default.

    ``Required[…]`` is not used: it is implied, and Python caches it by annotation, where ``int | str`` equals
    ``str | int``. ``NotRequired[…]`` is safe, since each default is a separate object, which equals no other.
    """
    has_default = any(
        getattr(note, "is_required", None) is not None and not note.is_required()
        for note in getattr(annotation, "__metadata__", ())
    )
    return NotRequired[annotation] if has_default else annotation


def _check_defaults(name: str, schema: Schema) -> None:
    """Refuse a default that would fail every call that relies on it."""
    try:
        schema.check({})
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            field, *inner = problem["loc"]
            if inner or problem["type"] != "missing":
                raise DefinitionError(
                    f"tool {name!r}, parameter {field!r}: its default does not fit: {problem['msg']}"
                ) from None


def is_finite(value: Any) -> bool:  # of any type that a schema can have
    """Whether a value contains neither NaN nor an infinity."""
    kind = cast("type[object]", type(value))
    if kind in _FINITE:
        return True
    if kind is float:
        return math.isfinite(value)
    match value:
        case Mapping():
            return all(map(is_finite, cast("Mapping[Any, Any]", value).values()))
        case list() | tuple() | set() | frozenset():
            return all(map(is_finite, cast("list[Any]", value)))
        case float():
            return math.isfinite(value)
        case BaseModel():
            return all(map(is_finite, vars(value).values()))
        case _:
            if not is_dataclass(value):
                return True
            return all(is_finite(getattr(value, field.name)) for field in fields(value))


def _is_write_only(schema: Mapping[str, Any]) -> bool:
    """Whether a field is, or may be, a secret by its type, such as ``SecretStr``."""
    return any(option.get("writeOnly", False) for option in schema.get("anyOf", [schema]))


def _is_scalar(schema: Mapping[str, Any]) -> bool:
    options = schema.get("anyOf", [schema])
    return all(option.get("type") in _SCALAR_TYPES for option in options)


def _tidy(schema: Any, name: str | None = None) -> Any:
    """Sort every ``required``, and remove titles that only repeat the name of the class."""
    if isinstance(schema, list):
        return [_tidy(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    tidy: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        match key:
            case "title" if name is not None and _is_name(str(value), name):
                continue
            case "required":
                tidy[key] = sorted(value)
            case "properties":
                tidy[key] = {field: _tidy(inner) for field, inner in value.items()}
            case "$defs":
                tidy[key] = {definition: _tidy(inner, definition) for definition, inner in value.items()}
            case _:
                tidy[key] = value if key in _NO_SCHEMAS else _tidy(value)
    return tidy


def sorted_enums(schema: Any) -> Any:
    """Return a schema with the values of each ``enum`` sorted by their JSON text, since hashes do not cover the order.

    The order is not reliable: in Python, ``Literal["a", "b"]`` and ``Literal["b", "a"]`` are equal, so of two types
    that contain them, the first one created in a process is used for both.
    """
    if not any("enum" in subschema for subschema in schemas_in(schema)):
        return schema
    copied = deepcopy(schema)
    for subschema in schemas_in(copied):
        if isinstance(subschema.get("enum"), list):
            subschema["enum"] = sorted(subschema["enum"], key=_json_text)
    return copied


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _is_name(title: str, name: str) -> bool:
    plain_title, plain_name = (re.sub(r"[^\w.-]", "_", text) for text in (title, name))
    # A definition's name may be prefixed with its module.
    return plain_name == plain_title or plain_name.endswith(f"__{plain_title}")


def has_marked_files(json_schema: object) -> bool:
    """Whether anything in a JSON Schema, or in a part of one, is marked by ``session_file()``."""
    if isinstance(json_schema, list):
        return any(map(has_marked_files, cast("list[object]", json_schema)))
    if not isinstance(json_schema, dict):
        return False
    members = cast("dict[str, object]", json_schema)
    return SESSION_FILE in members.items() or any(map(has_marked_files, members.values()))


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a JSON Schema and every schema inside it. Names of fields are not mistaken for keywords.

    The values of unknown keywords count as schemas, too, since references may lead to them.
    """
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema)
        yield members
        for key, value in members.items():
            if key in MAPS_OF_SCHEMAS or key == "dependencies":
                for inner in cast("dict[str, Any]", value).values() if isinstance(value, dict) else ():
                    yield from schemas_in(inner)
            elif key not in _NO_SCHEMAS:
                yield from schemas_in(value)
    elif isinstance(schema, list):
        for item in cast("list[Any]", schema):
            yield from schemas_in(item)

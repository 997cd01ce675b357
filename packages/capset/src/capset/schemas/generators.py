"""JSON Schema of pydantic types, for inputs and for outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from copy import deepcopy
from functools import cache, partial
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import to_json
from pydantic_core.core_schema import IsSubclassSchema, TaggedUnionSchema, WithDefaultSchema


class CopiedDefault:
    """A default that is hashable but mutable: pydantic itself would share one object between all values."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self) -> Any:
        """Return a copy of the default."""
        return deepcopy(self.value)


class UntitledJsonSchema(GenerateJsonSchema):
    """A generator of JSON Schema without the titles that pydantic derives from names (spec 2, F3)."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # pydantic's own union of core schemas is private
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """Describe a default. Sets are sorted, since their own order differs between processes."""
        if isinstance(factory := schema.get("default_factory"), CopiedDefault):
            schema = {**schema, "default": factory.value}
        default = schema.get("default")
        items: Any = cast("Set[Any]", default) if isinstance(default, Set) else [_any_adapter().dump_python(default)]
        if any(map(_holds_set, items)):
            raise ValueError("a default must not contain a nested set: its order differs between processes")
        if isinstance(default, Set):
            schema = {**schema, "default": sorted(items, key=to_json)}
        return super().default_schema(schema)

    def is_subclass_schema(self, schema: IsSubclassSchema) -> JsonSchemaValue:
        """Refuse a class as a value: JSON has none, and pydantic would publish a schema that accepts anything."""
        raise ValueError(f"JSON has no classes, such as {schema['cls'].__name__}; use a Literal or an Enum of names")

    def emit_warning(self, kind: str, detail: str) -> None:
        """Refuse anything that would be missing from the schema, such as a default that is not JSON data."""
        if kind not in self.ignored_warning_kinds:
            raise ValueError(detail)


_PROVEN: Final = frozenset(
    {"any", "none", "bool", "int", "float", "str", "list", "dict", "nullable", "typed-dict", "typed-dict-field"}
)
"""The kinds of core schemas whose values, once validated, are serialised as their JSON Schema says."""
_UNSURE: Final = frozenset({"serialization", "pattern", "multiple_of", "computed_fields"})
_OBJECTS: Final = frozenset({"model", "dataclass", "typed-dict"})
_FIELDS: Final = frozenset({"model-fields", "dataclass-args", "typed-dict"})
_STATED: Final = frozenset({"pydantic_js_functions", "pydantic_js_annotation_functions"})
_NOTES: Final = frozenset({"title", "description", "examples", "deprecated"})


class ResultJsonSchema(UntitledJsonSchema):
    """A generator of JSON Schema for results as sent: as JSON, with serialisation aliases.

    If ``is_proven``, a valid value always has JSON data that fits. If ``is_authored``, a part of the schema was written
    by hand. Raises ``ValueError`` for types whose results cannot be described.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_proven = True
        self.is_authored = False

    @property
    def mode(self) -> JsonSchemaMode:
        """Always ``serialization``, even if a model's config has the mode for inputs."""
        return "serialization"

    def generate_inner(self, schema: Any) -> JsonSchemaValue:  # pydantic's own union of core schemas is private
        """Return the schema of one part of a type, after checking how its values are serialised."""
        kind, metadata = schema["type"], cast("Mapping[str, Any]", schema.get("metadata", {}))
        is_stated = kind not in _OBJECTS and not _STATED.isdisjoint(metadata)
        has_words = not _NOTES.issuperset(metadata.get("pydantic_js_updates", ())) or "pydantic_js_extra" in metadata
        serialization = schema.get("serialization", {})
        if kind in _OBJECTS:
            has_words |= _has_custom_schema(schema)
            if not serialization:
                _check_names(schema)
        self.is_authored |= is_stated or has_words
        is_open = schema.get("extra_behavior") == "allow"
        self.is_proven &= kind in _PROVEN and not (is_open or self.is_authored) and not any(map(schema.get, _UNSURE))
        is_function = serialization.get("type") in ("function-plain", "function-wrap")
        if is_function and "return_schema" not in serialization and not is_stated:
            _refuse_undeclared(serialization["function"])
        json_schema = super().generate_inner(schema)
        names = json_schema.get("propertyNames", {})
        if "$ref" in names and not _are_strings(self.resolve_ref_schema(names)):
            del json_schema["propertyNames"]
        return json_schema

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        """Return ``anyOf`` if a function picks the option, since JSON data may lack what the function reads.

        The discriminator field is named only if it is serialised under that name.
        """
        json_schema = super().tagged_union_schema(schema)
        if callable(schema["discriminator"]):
            json_schema["anyOf"] = json_schema.pop("oneOf")
        elif "discriminator" in json_schema and not self._all_have_property(
            json_schema["discriminator"]["propertyName"], json_schema["oneOf"]
        ):
            del json_schema["discriminator"]
        return json_schema

    def _all_have_property(self, name: str, options: list[JsonSchemaValue]) -> bool:
        try:
            return all(name in self.resolve_ref_schema(option).get("properties", {}) for option in options)
        except RuntimeError:  # an option is not finished yet, since it contains the union
            return True

    def field_is_required(self, field: Any, total: bool) -> bool:  # pydantic's own union of fields
        """Whether a field is always present; ``init_only`` fields never are."""
        return not field.get("init_only", False) and super().field_is_required(field, total)


def _check_names(schema: Mapping[str, Any]) -> None:
    """Refuse a class that serialises two fields under one name, or fields under names that its schema lacks."""
    names: dict[str, str] = {}
    for name, alias in _serialised_names(schema):
        if alias in names:
            raise ValueError(
                f"{_class(schema)}: its fields {names[alias]!r} and {name!r} are both serialised as {alias!r}; "
                "give one of them another alias"
            )
        names[alias] = name
        if name != alias and _config(schema).get("serialize_by_alias") is False:
            raise ValueError(
                f"{_class(schema)} has serialize_by_alias=False, but results are serialised by alias, as their "
                f"schema says; remove it, or the alias {alias!r} of {name!r}"
            )


def _serialised_names(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the name of every serialised field, and the name it is serialised under."""
    while schema["type"] not in _FIELDS:
        if schema.get("root_model") or not isinstance(schema.get("schema"), dict):
            return
        schema = schema["schema"]  # validators may wrap the fields
    fields: Any = schema["fields"]  # by name, except for a dataclass
    if isinstance(fields, list):
        fields = {entry["name"]: entry for entry in cast("list[dict[str, Any]]", fields)}
    for name, field in cast("dict[str, Any]", fields).items():
        if not field.get("serialization_exclude") and not field.get("init_only"):
            yield name, field.get("serialization_alias", name)
    for field in schema.get("computed_fields", ()):
        yield field["property_name"], field.get("alias", field["property_name"])


def _are_strings(schema: JsonSchemaValue) -> bool:
    """Whether all values of an enum or a constant are strings, as the names in a JSON object always are."""
    return all(isinstance(choice, str) for choice in schema.get("enum", [schema.get("const", "")]))


def _has_custom_schema(schema: Mapping[str, Any]) -> bool:
    """Whether a class customises its JSON Schema."""
    classes = getattr(schema.get("cls"), "__mro__", ())
    custom_classes = (cls for cls in classes if not cls.__module__.startswith("pydantic."))
    return "json_schema_extra" in _config(schema) or any(
        "__get_pydantic_json_schema__" in vars(cls) for cls in custom_classes
    )


def _config(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pydantic config of a class."""
    return getattr(schema.get("cls"), "model_config", None) or getattr(schema.get("cls"), "__pydantic_config__", {})


def _class(schema: Mapping[str, Any]) -> str:
    return getattr(schema.get("cls"), "__name__", "a type")


def _refuse_undeclared(function: Callable[..., Any]) -> None:
    """Refuse a serializer without a return type, for which pydantic would publish the type of its input."""
    while isinstance(function, partial):
        function = cast("Callable[..., Any]", function.func)
    if str(getattr(function, "__module__", "")).partition(".")[0] != "pydantic":
        name = getattr(function, "__qualname__", type(function).__name__)
        raise ValueError(
            f"its serializer {name} does not say what it returns; annotate it, as in -> str, or write "
            "PlainSerializer(…, return_type=str)"
        )


@cache
def _any_adapter() -> TypeAdapter[Any]:
    """Return the adapter for any value. Created on first use, since that would slow down the import."""
    return TypeAdapter(Any)


def _holds_set(value: Any) -> bool:
    match value:
        case Set():
            return True
        case Mapping():
            return any(map(_holds_set, cast("Mapping[Any, Any]", value).values()))
        case list() | tuple() | deque():
            return any(map(_holds_set, cast("list[Any]", value)))
        case _:
            return False

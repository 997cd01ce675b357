"""Schemas given as JSON Schema instead of Python types, with optional filling in of defaults (spec 3, K4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

from capset.errors import DefinitionError, Field
from capset.schemas.json_schema_graph import BASE, Data, SchemaNode, UnsoundSchema, build_graph
from capset.schemas.own_code import EXACT
from capset.schemas.schema import MAPS_OF_SCHEMAS, SECRETS_WITHIN, Schema, has_marked_files, sorted_enums
from capset.schemas.strict_json import copy_json, parse_json
from capset.schemas.unchecked_patterns import regex_options, unlinear_patterns, without_patterns
from capset.schemas.validation_errors import SchemaMismatch, json_schema_fields

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError as Invalid
    from jsonschema_rs import Validator

_Applicable: TypeAlias = tuple[Iterable[SchemaNode], Any, bool, bool]


class SchemaWalk:
    """One walk over a value and the schemas that apply to it.

    ``value`` is plain JSON data of moderate depth. With ``fills``, defaults are filled into ``value`` itself. In a
    choice, a default is filled in only if a single option is possible: options of another type, or with another
    constant in a field, are ruled out. No default is filled in through ``if``, ``patternProperties`` or dynamic
    references. ``is_listable`` is false if listing all mismatches would take too long, for example for choices between
    recursive types, each of which is tried at every level. ``is_checkable`` is false if even deciding whether the value
    fits might take too long.
    """

    def __init__(self, root: SchemaNode, value: Any, *, fills: bool) -> None:
        self.is_listable = self.is_checkable = True
        # The limits on the number of schemas that apply to a value grow with the number of values inside it.
        extra = 20 * _size(value)
        visits = likely = 0
        waiting = [(root, value, fills, True)]
        while waiting:
            node, part, fills, is_likely = waiting.pop()
            visits += 1
            likely += is_likely
            if likely > 300_000 + extra:
                self.is_listable = self.is_checkable = False
                return
            if visits > 10_000 + extra:
                self.is_listable = False
            for nodes, member, filling, likely_too in _applicable(node, part, fills):
                is_member_likely = is_likely and likely_too
                if is_member_likely or self.is_listable:
                    waiting.extend((inner, member, filling, is_member_likely) for inner in nodes)


def _applicable(node: SchemaNode, value: Any, fills: bool) -> Iterator[_Applicable]:
    """Yield schemas with the value that they apply to, whether they fill in defaults there, and are likely to match."""
    yield node.always, value, fills, True
    for options in node.choices:
        likely: list[SchemaNode] = []
        unlikely: list[SchemaNode] = []
        for option in options:
            (likely if may_match(option, value) else unlikely).append(option)
        yield likely, value, fills and len(likely) == 1, True
        yield unlikely, value, False, False
    yield node.tests, value, False, True
    if isinstance(value, dict):
        yield from _applicable_to_fields(node, cast("dict[str, Any]", value), fills)
    elif isinstance(value, list):
        yield from _applicable_to_items(node, cast("list[Any]", value), fills)


def _applicable_to_fields(node: SchemaNode, value: dict[str, Any], fills: bool) -> Iterator[_Applicable]:
    if fills:
        for name, default in node.defaults.items():
            if name not in value:
                value[name] = deepcopy(default)
    for name, member in value.items():
        field_node = node.fields.get(name)
        if field_node is not None:
            yield [field_node], member, fills, True
        elif node.additional is not None:
            yield [node.additional], member, fills and not node.patterns, True
        yield [*node.patterns, *node.members], member, False, True


def _applicable_to_items(node: SchemaNode, value: list[Any], fills: bool) -> Iterator[_Applicable]:
    for at, item in enumerate(value):
        if at < len(node.prefix):
            yield [node.prefix[at]], item, fills, True
        elif node.items is not None:
            yield [node.items], item, fills, True
        yield node.members, item, False, True


def may_match(node: SchemaNode, value: Any) -> bool:
    """Whether a value may fit, judging only by its type, constants and enums, which distinguish options."""
    types = node.schema.get("type")
    if types is not None and _types_of(value).isdisjoint([types] if isinstance(types, str) else types):
        return False
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        # Only the common names: either side may have far more fields than the other.
        for name in node.fields.keys() & members.keys():
            if not _is_among(members[name], node.fields[name].schema):
                return False
    return all(may_match(subschema, value) for subschema in node.always)


def _is_among(value: Any, schema: dict[str, Any]) -> bool:
    return schema.get("const", value) == value and value in schema.get("enum", (value,))


def _types_of(value: Any) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int() | float():
            return frozenset({"integer", "number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _size(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        count += 1
        current = waiting.pop()
        if isinstance(current, dict):
            waiting.extend(cast("dict[str, Any]", current).values())
        elif isinstance(current, list):
            waiting.extend(cast("list[Any]", current))
    return count


MAX_SCHEMA_LEVELS: Final = 64
MAX_SCHEMA_BYTES: Final = 1 << 20
SCHEMA_KEYWORDS: Final = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "propertyNames", "contains", "contentSchema"),
        *("items", "prefixItems", "additionalItems", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties"),
    }
)
"""The keywords whose values are a schema or a list of them."""


class JsonSchema(Schema):
    """A compiled JSON Schema that validates JSON data: dict, list, str, int, float, bool and None, or JSON text.

    ``check`` and ``check_json`` return a copy, with the defaults of absent fields filled in if the schema was compiled
    with ``fills_defaults``; they raise ``SchemaMismatch``. An object without ``additionalProperties`` is open, as in
    JSON Schema. ``json_schema`` is the given schema with every ``required`` sorted. ``unchecked_patterns`` are the
    patterns that values are not checked against. ``is_exact`` and ``only_scalars`` are false and ``annotation`` is
    ``object``, since nothing can be assumed about a value.
    """

    __slots__ = ("_fills_defaults", "_names", "_validator", "root", "unchecked_patterns")

    def __init__(
        self,
        document: Data,
        root: SchemaNode,
        validator: Validator,
        *,
        fills_defaults: bool,
        unchecked_patterns: Iterable[str],
    ) -> None:
        # The parent's initialiser is not called, since it creates a schema from a type.
        self._fills_defaults = fills_defaults
        self._model_schema = None
        self.root = root  # the schema as a graph, for walks
        self._validator = validator
        self.unchecked_patterns = tuple(sorted(unchecked_patterns))
        fields = _fields(root)
        self._names = list(fields)
        self.annotation = object
        self.json_form = EXACT
        self.check = self._check
        self.check_json = self._check_json
        self.json_schema = document
        self.hash_input = sorted_enums(document)
        self.is_exact = self.only_scalars = self.may_be_infinite = False
        self.digested = frozenset[str]()  # a marker of capset, which a plain JSON Schema does not have
        self.takes_files = has_marked_files(document)
        cache: dict[SchemaNode, bool] = {}
        self.write_only = frozenset(
            name for name, inner in fields.items() if any(_hides(node, cache) for node in inner)
        )

    def jsonable(self, value: Any) -> Any:
        """Return a copy of ``value``. Raises ``SchemaMismatch``, a ``ValueError``, if it is not plain JSON data."""
        return copy_json(value)

    def text(self, value: Any) -> str:
        """Return ``value`` as JSON text for ``check_json``. Raises ``SchemaMismatch`` as ``jsonable`` does."""
        return json.dumps(copy_json(value), ensure_ascii=False, separators=(",", ":"))

    def check_stored(self, text: bytes | str) -> Any:
        """Validate JSON text exactly as ``check_json`` does, since fields have no aliases."""
        return self._check_json(text)

    @property
    def names(self) -> list[str]:
        """The names of an object's fields, including those behind references."""
        return list(self._names)

    def _check(self, value: Any) -> Any:
        return self._validate(copy_json(value))

    def _check_json(self, text: bytes | str) -> Any:
        return self._validate(parse_json(text))

    def _validate(self, value: Any) -> Any:
        walk = SchemaWalk(self.root, value, fills=self._fills_defaults)
        if not walk.is_checkable:
            raise _input_error("Input should be nested less deeply: checking it against its schema would take too long")
        if self._validator.is_valid(value):
            return value
        if not walk.is_listable:
            raise _input_error("Input does not fit; listing what was expected would take too long")
        raise SchemaMismatch(json_schema_fields(self._validator.iter_errors(value), self._names))


def compile_json_schema(
    label: str,
    json_schema: Mapping[str, Any] | bool,  # any JSON, as the keywords' values are
    *,
    fills_defaults: bool = False,
    is_strict: bool = False,
) -> JsonSchema:
    """Compile a JSON Schema, which may come from a third party.

    By default, ``default`` and ``format`` are annotations, as in the standard: defaults are not filled in, and formats
    not checked. Patterns are not checked either if they do not run in linear time (look-around, back-references, large
    repetitions) or are not regular expressions: see ``unchecked_patterns``.

    Args:
        label: the start of error messages.
        json_schema: an object or a bool, of 2020-12 unless its ``$schema`` names another dialect.
        fills_defaults: fill in the defaults of absent fields; refuse a top-level default that does not fit.
        is_strict: check formats, and refuse patterns that cannot be checked.

    Raises ``DefinitionError``, starting with ``label``, if the schema is not JSON data or not valid in its dialect, if
    it refers to anything outside the document, or if it exceeds 64 levels or 1 MiB.
    """
    document = _document(label, json_schema)
    validator, root, patterns = _compiled(label, document, is_strict=is_strict)
    schema = JsonSchema(document, root, validator, fills_defaults=fills_defaults, unchecked_patterns=patterns)
    if fills_defaults:
        _check_defaults(label, schema, root)
    return schema


def compile_own_schema(label: str, json_schema: Mapping[str, Any] | bool) -> JsonSchema:
    """Compile a JSON Schema of the host application, with defaults, formats and patterns all in effect.

    Raises ``DefinitionError`` as ``compile_json_schema`` does.
    """
    return compile_json_schema(label, json_schema, fills_defaults=True, is_strict=True)


def graph_of(schema: Schema) -> SchemaNode:
    """Return the graph of any schema. Raises ``DefinitionError`` if it is too large to be walked."""
    if isinstance(schema, JsonSchema):
        return schema.root
    import jsonschema_rs as rs

    document = schema.json_schema
    try:
        return build_graph(document, rs.Registry([(BASE, document)], retriever=_retrieve_nothing).resolver(BASE))
    except (rs.ReferencingError, ValueError) as error:  # an UnsoundSchema is a ValueError
        raise DefinitionError(f"the schema of these arguments cannot be walked: {error}") from None


def _document(label: str, json_schema: Mapping[str, Any] | bool) -> Data:
    if isinstance(json_schema, bool):
        return {} if json_schema else {"not": {}}
    if not isinstance(json_schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers pass untrusted data
        raise DefinitionError(f"{label}: a JSON Schema was expected, as a mapping; got {type(json_schema).__name__}")
    try:
        document = cast("Data", copy_json(dict(json_schema), max_levels=MAX_SCHEMA_LEVELS))
    except SchemaMismatch as misfit:
        _refuse_fields(label, misfit.fields)
    size = len(json.dumps(document, ensure_ascii=False).encode())
    if size > MAX_SCHEMA_BYTES:
        raise DefinitionError(
            f"{label}: its JSON Schema should have at most {MAX_SCHEMA_BYTES:,} bytes; it has {size:,}"
        )
    return document


def _compiled(label: str, document: Data, *, is_strict: bool) -> tuple[Validator, SchemaNode, frozenset[str]]:
    """Return the validator of a document, its graph, and the patterns that are not checked."""
    import jsonschema_rs as rs

    patterns = frozenset[str]()
    try:
        # This comes first: any other check against the meta-schema would fetch it from its $schema URL.
        try:
            validator = _validator(document, checks_formats=is_strict)
        except rs.ValidationError as error:
            if is_strict or not _is_about_pattern(error):
                raise
            patterns = unlinear_patterns(document)
            validator = _validator(without_patterns(document, patterns), checks_formats=False)
        _sort_required(document)
        resolver = rs.Registry([(BASE, document)], retriever=_retrieve_nothing).resolver(BASE)
        return validator, build_graph(document, resolver), patterns
    except UnsoundSchema as error:
        raise DefinitionError(f"{label}: its JSON Schema cannot be used: {error}") from None
    except rs.ValidationError as error:
        if _is_about_pattern(error):
            path = ".".join(map(str, error.instance_path))
            raise DefinitionError(
                f"{label}: its JSON Schema at {path}: a regular expression was expected that takes linear time",
                hint="write it without look-around and back-references, and with smaller repetitions",
            ) from None
        if isinstance(error.kind, rs.ValidationErrorKind.Referencing):
            _refuse_reference(label, error)
        _refuse_fields(label, json_schema_fields([error], ()))
    except (rs.ReferencingError, ValueError) as error:
        _refuse_reference(label, error)


def _validator(document: Data, *, checks_formats: bool) -> Validator:
    import jsonschema_rs as rs

    return rs.validator_for(document, validate_formats=checks_formats, pattern_options=regex_options(), offline=True)


def _is_about_pattern(error: Invalid) -> bool:
    import jsonschema_rs as rs

    return isinstance(error.kind, rs.ValidationErrorKind.Format) and error.kind.format == "regex"


def _retrieve_nothing(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


def _refuse_reference(label: str, error: Exception) -> NoReturn:
    reference = re.search(r"'[^']*'", str(error))
    raise DefinitionError(
        f"{label}: its JSON Schema refers to {reference[0] if reference else 'something'}, which is not inside it",
        hint="nothing is fetched: put the target under $defs, and refer to it by #/$defs/…",
    ) from None


def _refuse_fields(label: str, fields: list[Field]) -> NoReturn:
    problems = "; ".join(map(str, fields)).replace("(arguments)", "its top")
    raise DefinitionError(f"{label}: not a valid JSON Schema: {problems}", fields=fields) from None


def _check_defaults(label: str, schema: Schema, root: SchemaNode) -> None:
    """Refuse a default that would fail every call that relies on it."""
    defaults = {name for node in _applied(root) for name in node.defaults}
    try:
        schema.check({})
    except SchemaMismatch as misfit:
        for field in misfit.fields:
            if any(field.path == name or field.path.startswith(f"{name}.") for name in defaults):
                raise DefinitionError(f"{label}: a default of its JSON Schema does not fit: {field}") from None


def _applied(node: SchemaNode) -> Iterator[SchemaNode]:
    """Yield a node and, recursively, all that always apply with it."""
    yield node
    for inner in node.always:
        yield from _applied(inner)


def _fields(root: SchemaNode) -> dict[str, list[SchemaNode]]:
    fields: dict[str, list[SchemaNode]] = {}
    for node in _applied(root):
        for name, inner in node.fields.items():
            fields.setdefault(name, []).append(inner)
    return fields


def _hides(node: SchemaNode, cache: dict[SchemaNode, bool]) -> bool:
    """Whether a field, by its schema, is or may be or contains a secret; ``cache`` caches the results."""
    if node not in cache:
        is_secret = node.schema.get("writeOnly", False) is True or node.schema.get(SECRETS_WITHIN, False) is True
        cache[node] = is_secret or any(_hides(inner, cache) for inner in node.in_place)
    return cache[node]


def _sort_required(schema: Any) -> None:
    if isinstance(schema, list):
        for item in cast("list[Any]", schema):
            _sort_required(item)
    elif isinstance(schema, dict):
        for key, value in cast("Data", schema).items():
            if key == "required" and isinstance(value, list):
                cast("list[str]", value).sort()
            elif key in MAPS_OF_SCHEMAS and isinstance(value, dict):
                for inner in cast("Data", value).values():
                    _sort_required(inner)
            elif key in SCHEMA_KEYWORDS:
                _sort_required(value)


def _input_error(expected: str) -> SchemaMismatch:
    return SchemaMismatch([Field("(arguments)", expected)])

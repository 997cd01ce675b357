"""Schemas that come as JSON Schema and not as Python types (DESIGN §6; spec 3, K4).

The dialect is draft 2020-12 unless ``$schema`` names another. Nothing is ever fetched, and no regular expression can
take longer than linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from capset.definitions.foreign_filling import Walk
from capset.definitions.foreign_nodes import BASE, Data, Node, Unsound, graph
from capset.definitions.foreign_words import fields_of
from capset.definitions.misfits import SchemaMisfit
from capset.definitions.schemas import MAPS_OF_SCHEMAS, Schema, sorted_enums
from capset.definitions.strict_json import copied, parsed
from capset.errors import DefinitionError, Field

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MAX_SCHEMA_LEVELS: Final = 64
MAX_SCHEMA_BYTES: Final = 1 << 20
_MAX_REGEX_BYTES: Final = 1 << 20
_SCHEMAS: Final = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "propertyNames", "contains", "contentSchema"),
        *("items", "prefixItems", "additionalItems", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties"),
    }
)


class ForeignSchema(Schema):
    """A JSON Schema, ready to validate JSON data: as Python's dict, list, str, int, float, bool and None, or as text.

    ``check`` and ``check_json`` return a copy of their own with the defaults of absent fields filled in, and raise
    ``SchemaMisfit``. What has no ``additionalProperties`` is open, as JSON Schema says. ``json_schema`` is as it came
    but for ``required``, which is sorted. ``is_exact`` and ``only_scalars`` are false and ``annotation`` is ``object``:
    nothing of a value can be taken for granted.
    """

    __slots__ = ("_names", "_root", "_validator")

    def __init__(self, document: Data, root: Node, validator: Validator) -> None:
        # Not the parent's: it makes a schema of a type.
        self._root = root
        self._validator = validator
        fields = _fields(root)
        self._names = list(fields)
        self.annotation = object
        self.check = self._check
        self.check_json = self._check_json
        self.json_schema = document
        self.hash_input = sorted_enums(document)
        self.is_exact = self.only_scalars = self.may_be_infinite = False
        self.digested = frozenset[str]()  # a mark of capset's own, which a foreign schema does not know
        known: dict[Node, bool] = {}
        self.write_only = frozenset(
            name for name, inner in fields.items() if any(_hides(node, known) for node in inner)
        )

    def jsonable(self, value: Any) -> Any:
        """Return ``value`` as plain JSON data of its own. Raises ``SchemaMisfit``, a ``ValueError``, if it is none."""
        return copied(value)

    def text(self, value: Any) -> str:
        """Return ``value`` as JSON text to be read by ``check_json``. Raises as ``jsonable`` does."""
        return json.dumps(copied(value), ensure_ascii=False, separators=(",", ":"))

    @property
    def names(self) -> list[str]:
        """The names of an object's fields, those of what the schema refers to included."""
        return list(self._names)

    def _check(self, value: Any) -> Any:
        return self._fitting(copied(value))

    def _check_json(self, text: bytes | str) -> Any:
        return self._fitting(parsed(text))

    def _fitting(self, value: Any) -> Any:
        walk = Walk(self._root, value)
        if not walk.is_checkable:
            raise _whole("Input should be nested less deeply: to try what its schema allows would take too long")
        if self._validator.is_valid(value):
            return value
        if not walk.is_listable:
            raise _whole("Input does not fit; to list what was expected would take too long")
        raise SchemaMisfit(fields_of(self._validator.iter_errors(value), self._names))


def foreign_schema(what: str, json_schema: Mapping[str, Any]) -> ForeignSchema:
    """Make a schema of a JSON Schema; ``Any`` because its keywords' values are of every JSON type.

    Raises ``DefinitionError``, beginning with ``what``: if it is no JSON Schema of its dialect, or no JSON data; if a
    reference leads outside the document; if it has a pattern that needs more than linear time (look-around,
    back-references); if a default of the top level does not fit; above 64 levels and 1 MiB.
    """
    document = _document(what, json_schema)
    validator, root = _compiled(what, document)
    schema = ForeignSchema(document, root, validator)
    _check_defaults(what, schema, root)
    return schema


def _document(what: str, json_schema: Mapping[str, Any]) -> Data:
    if not isinstance(json_schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers hand on others' data
        raise DefinitionError(f"{what}: a JSON Schema was expected, as a mapping; got {type(json_schema).__name__}")
    try:
        document = cast("Data", copied(dict(json_schema), most=MAX_SCHEMA_LEVELS))
    except SchemaMisfit as misfit:
        _refuse_fields(what, misfit.fields)
    size = len(json.dumps(document, ensure_ascii=False).encode())
    if size > MAX_SCHEMA_BYTES:
        raise DefinitionError(
            f"{what}: its JSON Schema should be of at most {MAX_SCHEMA_BYTES:,} bytes; it has {size:,}"
        )
    return document


def _compiled(what: str, document: Data) -> tuple[Validator, Node]:
    import jsonschema_rs as rs

    patterns = rs.RegexOptions(size_limit=_MAX_REGEX_BYTES)
    try:
        # First of all: what is checked by the meta-schema in any other way is fetched by its $schema.
        validator = rs.validator_for(document, validate_formats=True, pattern_options=patterns, offline=True)
        _sort_required(document)
        resolver = rs.Registry([(BASE, document)], retriever=_refuse).resolver(BASE)
        return validator, graph(document, resolver)
    except Unsound as error:
        raise DefinitionError(f"{what}: its JSON Schema cannot be taken: {error}") from None
    except rs.ValidationError as error:
        match error.kind:
            case rs.ValidationErrorKind.Format("regex"):
                at = ".".join(map(str, error.instance_path))
                raise DefinitionError(
                    f"{what}: its JSON Schema at {at}: a regular expression was expected that takes linear time",
                    hint="write it without look-around and back-references, and with smaller repetitions",
                ) from None
            case rs.ValidationErrorKind.Referencing():
                _refuse_reference(what, error)
            case _:
                _refuse_fields(what, fields_of([error], ()))
    except (rs.ReferencingError, ValueError) as error:
        _refuse_reference(what, error)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not fetched")


def _refuse_reference(what: str, error: Exception) -> NoReturn:
    named = re.search(r"'[^']*'", str(error))
    raise DefinitionError(
        f"{what}: its JSON Schema refers to {named[0] if named else 'something'}, which is not inside it",
        hint="nothing is fetched: put what it refers to under $defs, and refer to it by #/$defs/…",
    ) from None


def _refuse_fields(what: str, fields: list[Field]) -> NoReturn:
    told = "; ".join(map(str, fields)).replace("(arguments)", "its top")
    raise DefinitionError(f"{what}: it is no JSON Schema: {told}", fields=fields) from None


def _check_defaults(what: str, schema: Schema, root: Node) -> None:
    """Refuse a default that would fail every call that relies on it."""
    defaults = {name for node in _applied(root) for name in node.defaults}
    try:
        schema.check({})
    except SchemaMisfit as misfit:
        for field in misfit.fields:
            if any(field.path == name or field.path.startswith(f"{name}.") for name in defaults):
                raise DefinitionError(f"{what}: a default of its JSON Schema does not fit: {field}") from None


def _applied(node: Node) -> Iterator[Node]:
    """Yield a node, and those that always hold with it."""
    yield node
    for one in node.always:
        yield from _applied(one)


def _fields(root: Node) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in _applied(root):
        for name, inner in node.fields.items():
            found.setdefault(name, []).append(inner)
    return found


def _hides(node: Node, known: dict[Node, bool]) -> bool:
    """Whether a field is a secret by its schema, or may be one; ``known`` are the answers so far."""
    if node not in known:
        is_secret = node.schema.get("writeOnly", False) is True
        known[node] = is_secret or any(_hides(one, known) for one in node.in_place)
    return known[node]


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
            elif key in _SCHEMAS:
                _sort_required(value)


def _whole(words: str) -> SchemaMisfit:
    return SchemaMisfit([Field("(arguments)", words)])

"""The contract of a processor: its input and output, read from the schemas of its messages (spec 3, K4, K5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, PlainSerializer, SerializeAsAny, WrapSerializer
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from capset.definitions.calls.messages import Kind, Message
from capset.definitions.names import MESSAGE
from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_own_schema
from capset.schemas.parameters import annotation_of, check_object, close_object, object_fields, resolve_reference
from capset.schemas.schema import ResultSchema, Schema, close_objects, schema_of, schema_of_fields

MessageDeclaration = type[BaseModel] | Mapping[str, Any]
"""A message as declared: a pydantic model, or a JSON Schema, whose values have any JSON type."""
DATA_ARGUMENT: Final = "data"
"""The single argument of a tool whose data is not an object."""
Receive = Callable[[Any], tuple[Any, dict[str, Any]]]
_INBOUND: Final = ("command", "query")
_OUTBOUND: Final = ("reply", "event")
_SERIALIZERS: Final = (PlainSerializer, WrapSerializer, cast("type", SerializeAsAny))
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated"})


@dataclass(frozen=True, eq=False, slots=True)
class Contract:
    """The messages of one processor, and how many of its emissions may wait for their consumer (``buffer``).

    ``type`` is its routing key. ``events`` and ``replies`` are the data schemas of its emissions, by type. ``receive``
    takes validated arguments and returns the message, as the processor gets it, and the arguments by name. If
    ``is_whole`` is true, the data is not an object, and the arguments are ``{"data": …}``.
    """

    kind: Literal["command", "query"]
    type: str
    inbound: Schema
    outbound: Schema
    events: Mapping[str, Schema]
    replies: Mapping[str, Schema]
    receive: Receive
    is_whole: bool
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class _MessageEnvelope:
    """One message of a contract. ``data`` is its annotation, or its JSON Schema; ``None`` without data."""

    kind: Kind
    type: str
    data: Any
    model: type[BaseModel] | None


def contract_of(
    owner: str, inbound: MessageDeclaration, outbound: object, buffer: int
) -> tuple[Contract, Schema, Schema]:
    """Return the contract, and the schemas of the tool's arguments and of its reply's data.

    ``outbound`` is a message, a union of messages, or a list of them. Raises ``DefinitionError``, starting with
    ``owner``.
    """
    if type(buffer) is not int or buffer < 0:
        raise DefinitionError(f"{owner}: buffer must be a number of messages, 0 or more; got {buffer!r}")
    inbound_envelope = _envelope(f"{owner}, its inbound", inbound, _INBOUND)
    members = _members(f"{owner}, its outbound", outbound)
    emitted = [_envelope(f"{owner}, its outbound", member, _OUTBOUND) for member in members]
    data = {kind: _schemas_by_type(owner, kind, emitted) for kind in _OUTBOUND}
    arguments, receive, is_whole = _arguments(owner, inbound_envelope)
    contract = Contract(
        cast("Literal['command', 'query']", inbound_envelope.kind),
        inbound_envelope.type,
        _inbound_schema(f"{owner}, its inbound", inbound),
        _outbound_schema(f"{owner}, its outbound", members),
        data["event"],
        data["reply"],
        receive,
        is_whole,
        buffer,
    )
    return contract, arguments, _reply_schema(owner, [envelope for envelope in emitted if envelope.kind == "reply"])


def _envelope(owner: str, declaration: MessageDeclaration, kinds: tuple[str, ...]) -> _MessageEnvelope:
    """Parse one message. Raises ``DefinitionError`` unless it has exactly one literal type, and one kind."""
    if isinstance(declaration, type) and issubclass(declaration, BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        label = f"{owner}, {declaration.__name__}"
        fields = {name: info.annotation for name, info in declaration.model_fields.items()}
        literals = {name: _literals(fields.get(name)) for name in ("kind", "type")}
        data, description, model = fields.get(DATA_ARGUMENT), declaration.__doc__, declaration
        if kinds is _OUTBOUND and data is not None:
            data = _serialized_annotation(declaration.model_fields[DATA_ARGUMENT])
    elif isinstance(declaration, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        compile_own_schema(owner, declaration)  # raises for an invalid schema, with a clearer message
        label, fields = owner, cast("Mapping[str, Any]", declaration.get("properties") or {})
        literals = {name: _constants(fields.get(name)) for name in ("kind", "type")}
        data, description, model = fields.get(DATA_ARGUMENT), declaration.get("description"), None
        if isinstance(data, bool):
            data = dict[str, Any]() if data else {"not": dict[str, Any]()}
        if data is not None and "$defs" in declaration:
            data = {**data, "$defs": declaration["$defs"]}
    else:
        raise DefinitionError(f"{owner} must be a pydantic model or a JSON Schema; got {declaration!r:.80}")
    if unknown := sorted(fields.keys() - {"kind", "type", DATA_ARGUMENT}):
        raise DefinitionError(f"{label}: a message has only kind, type and data; put {unknown[0]!r} into data")
    for name, values in literals.items():
        if len(values) != 1 or not isinstance(values[0], str):
            raise DefinitionError(
                f"{label}: its {name} must be one literal text, by which it is routed; got {list(values)!r:.80}",
                hint=f"write {name}: Literal['…'] = '…'" if model else f"write properties.{name}: {{'const': '…'}}",
            )
    kind, type_ = literals["kind"][0], literals["type"][0]
    if kind not in kinds:
        raise DefinitionError(
            f"{label}: its kind must be {' or '.join(kinds)}; got {kind!r}",
            hint="errors are not declared: raise ToolError, or emit Message('error', …, {'message': …})"
            if kind == "error"
            else None,
        )
    if not re.fullmatch(MESSAGE, type_):
        raise DefinitionError(f"{label}: its type must match {MESSAGE.pattern}; got {type_!r}")
    if not isinstance(description, str) or not description.strip():
        raise DefinitionError(
            f"{label} needs a description{' (a docstring)' if model else ''}: the model chooses the tool by it"
        )
    return _MessageEnvelope(cast("Kind", kind), type_, data, model)


def _serialized_annotation(info: FieldInfo) -> Any:
    """Return the annotation of emitted data, with the serializers that its field adds."""
    annotation: Any = info.annotation
    for note in info.metadata:
        if isinstance(note, _SERIALIZERS):
            annotation = Annotated[annotation, note]
    return annotation


def _literals(annotation: Any) -> tuple[Any, ...]:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return get_args(bare) if get_origin(bare) is Literal else ()


def _constants(schema: Any) -> tuple[Any, ...]:
    mapping: Mapping[str, Any] = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
    return (mapping["const"],) if "const" in mapping else tuple(mapping.get("enum", ()))


def _members(owner: str, outbound: object) -> list[MessageDeclaration]:
    """Return the messages of a union: of types, of a JSON Schema's ``oneOf`` or ``anyOf``, or of a list."""
    bare: Any = get_args(outbound)[0] if get_origin(outbound) is Annotated else outbound
    if get_origin(bare) in (Union, UnionType):
        return list(get_args(bare))
    if isinstance(bare, Mapping):
        schema = cast("Mapping[str, Any]", bare)
        options: Any = schema.get("oneOf", schema.get("anyOf"))
        if options is None:
            return [schema]
        if not isinstance(options, list) or not all(
            isinstance(option, Mapping) for option in cast("list[Any]", options)
        ):
            raise DefinitionError(f"{owner}: its union must list the JSON Schemas of messages; got {options!r:.80}")
        defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        return [_resolved(owner, {**defs, **option}) for option in cast("list[Mapping[str, Any]]", options)]
    if isinstance(bare, Iterable) and not isinstance(bare, str | type):
        bare = list(cast("Iterable[MessageDeclaration]", bare))
        if not bare:
            raise DefinitionError(f"{owner} must be at least one reply or event")
        return bare
    return [cast("MessageDeclaration", bare)]


def _resolved(owner: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return an option of a union, resolved if it is a reference into the document's own ``$defs``."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    name = str(reference).removeprefix("#/$defs/")
    definition = schema.get("$defs", {}).get(name)
    if not isinstance(definition, Mapping):
        raise DefinitionError(f"{owner}: the reference {reference!r} points at nothing in its $defs")
    return {"$defs": schema["$defs"], **cast("Mapping[str, Any]", definition)}


def _inbound_schema(owner: str, declaration: MessageDeclaration) -> Schema:
    return (
        compile_own_schema(owner, declaration)
        if isinstance(declaration, Mapping)
        else schema_of(owner, declaration, "validation")
    )


def _outbound_schema(owner: str, members: list[MessageDeclaration]) -> Schema:
    models = [member for member in members if not isinstance(member, Mapping)]
    if len(models) == len(members):
        return schema_of(owner, cast("Any", Union)[tuple(models)], "serialization")
    schemas = [member if isinstance(member, Mapping) else _closed_model(owner, member) for member in members]
    if len(schemas) == 1:
        return compile_own_schema(owner, schemas[0])
    # References are relative to the root of the schema, so the definitions of each message move there.
    defs: dict[str, Any] = {}
    for schema in schemas:
        for name, inner in schema.get("$defs", {}).items():
            if defs.setdefault(name, inner) != inner:
                raise DefinitionError(f"{owner}: two of its messages define {name!r} differently in their $defs")
    options = [{key: value for key, value in schema.items() if key != "$defs"} for schema in schemas]
    return compile_own_schema(owner, {"anyOf": options, **({"$defs": defs} if defs else {})})


def _closed_model(owner: str, model: type[BaseModel]) -> dict[str, Any]:
    json_schema = schema_of(owner, model, "serialization").json_schema
    close_objects(json_schema)
    return json_schema


def _emission_schema(owner: str, envelope: _MessageEnvelope) -> Schema:
    """Return the schema of the data of an emission, which must also match the schema of the message."""
    if envelope.model is None and envelope.data is not None:
        return compile_own_schema(owner, envelope.data)
    schema = cast("ResultSchema", schema_of(owner, envelope.data, "serialization"))
    if envelope.model is None:
        return schema
    published = _resolved(owner, schema_of(owner, envelope.model, "serialization").json_schema)
    data = _published_data(owner, envelope, envelope.model, published.get("properties", {}))
    if data is None or _without_annotations(data) == _without_annotations(schema.json_schema):
        return schema
    return schema.with_published({**data, "$defs": published.get("$defs", {})})


def _published_data(
    owner: str, envelope: _MessageEnvelope, model: type[BaseModel], properties: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the data's schema in the message's schema. Raises ``DefinitionError`` if the model alters the message."""
    routed = {name: properties.get(name, {}).get("const") for name in ("kind", "type")}
    expected = {"kind", "type"} if envelope.data is None else {"kind", "type", DATA_ARGUMENT}
    is_changed = bool(model.__pydantic_decorators__.field_serializers) or expected != set(properties)
    if is_changed or routed != {"kind": envelope.kind, "type": envelope.type}:
        raise DefinitionError(
            f"{owner}: {model.__name__} changes how the message is written; it is sent with its kind, type and data",
            hint="move aliases, exclude, computed fields and serializers from the message to the type of its data",
        )
    return properties.get(DATA_ARGUMENT)


def _without_annotations(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without annotations, which describe values but do not constrain them."""
    return {key: value for key, value in schema.items() if key not in _ANNOTATIONS}


def _schemas_by_type(owner: str, kind: str, emitted: list[_MessageEnvelope]) -> Mapping[str, Schema]:
    schemas: dict[str, Schema] = {}
    for envelope in emitted:
        if envelope.kind == kind:
            if envelope.type in schemas:
                raise DefinitionError(
                    f"{owner}, its outbound: two messages of the kind {kind} have the type {envelope.type!r}"
                )
            schemas[envelope.type] = _emission_schema(f"{owner}, its {kind} {envelope.type!r}", envelope)
    return MappingProxyType(schemas)


def _reply_schema(owner: str, replies: list[_MessageEnvelope]) -> Schema:
    """Return the schema of the result of a call: the data of any of the replies."""
    schemas = [_emission_schema(f"{owner}, its reply", reply) for reply in replies]
    if not schemas:
        return schema_of(owner, None, "serialization")
    if len(schemas) == 1:
        return schemas[0]
    if all(reply.model is not None for reply in replies):
        return schema_of(
            f"{owner}, its replies", cast("Any", Union)[tuple(reply.data for reply in replies)], "serialization"
        )
    return schema_of(f"{owner}, its replies", object, "serialization")


def _arguments(owner: str, envelope: _MessageEnvelope) -> tuple[Schema, Receive, bool]:
    """Return the schema of the arguments, the function that makes the message from them, and ``is_whole``.

    Input is validated only once, by the schema, since validators may change their values.
    """
    label = f"{owner}, its inbound data"
    if envelope.model is None:
        return _json_schema_arguments(label, envelope)
    kind, type_, build = envelope.kind, envelope.type, envelope.model.model_construct
    if envelope.data is None:
        return schema_of_fields(type_, {}), lambda arguments: (build(kind=kind, type=type_), arguments), False
    fields = object_fields(label, envelope.data)
    if fields is None:
        schema = schema_of_fields(type_, {DATA_ARGUMENT: annotation_of(envelope.model.model_fields[DATA_ARGUMENT])})
        return schema, lambda arguments: (build(kind=kind, type=type_, data=arguments[DATA_ARGUMENT]), arguments), True
    # An instance is not validated again, and this takes a third of the time of model_construct.
    check = schema_of(label, envelope.model, "validation").check
    if isinstance(envelope.data, type) and is_dataclass(cast("type[object]", envelope.data)):
        schema = schema_of_fields(type_, fields)  # strict mode does not accept a mapping for a dataclass
        _check_default(label, envelope.model, schema)
        return (
            schema,
            lambda arguments: (check({"kind": kind, "type": type_, "data": envelope.data(**arguments)}), arguments),
            False,
        )
    schema = schema_of(label, envelope.data, "validation")
    _check_default(label, envelope.model, schema)
    if is_typeddict(envelope.data):
        return schema, lambda arguments: (build(kind=kind, type=type_, data=arguments), dict(arguments)), False
    names = schema.names

    def receive(arguments: Any) -> tuple[Any, dict[str, Any]]:
        return check({"kind": kind, "type": type_, "data": arguments}), {
            name: getattr(arguments, name) for name in names
        }

    return schema, receive, False


def _check_default(owner: str, model: type[BaseModel], schema: Schema) -> None:
    """Refuse a default of the whole data that differs from the defaults of its fields: only those are filled in."""
    info = model.model_fields[DATA_ARGUMENT]
    if info.is_required():
        return
    default = info.get_default(call_default_factory=True, validated_data={})
    try:
        is_same = schema.text(schema.check({})) == schema.text(default)
    except ValueError:  # this includes ValidationError
        is_same = False
    if not is_same:
        raise DefinitionError(
            f"{owner}: its default as a whole differs from the defaults of its fields",
            hint=f"give the defaults to the fields, and leave {DATA_ARGUMENT} without one",
        )


def _json_schema_arguments(owner: str, envelope: _MessageEnvelope) -> tuple[Schema, Receive, bool]:
    kind, type_ = envelope.kind, envelope.type
    if envelope.data is None:
        return schema_of_fields(type_, {}), lambda arguments: (Message(kind, type_), arguments), False
    data = close_object(resolve_reference(envelope.data))
    if data.get("type") == "object":
        schema = compile_own_schema(owner, data)
        check_object(owner, data)
        return schema, lambda arguments: (Message(kind, type_, arguments), dict(arguments)), False
    inner = {key: value for key, value in data.items() if key != "$defs"}
    wrapped: dict[str, Any] = {"type": "object", "properties": {DATA_ARGUMENT: inner}, "required": [DATA_ARGUMENT]}
    wrapped |= {"additionalProperties": False} | ({"$defs": data["$defs"]} if "$defs" in data else {})
    return (
        compile_own_schema(owner, wrapped),
        lambda arguments: (Message(kind, type_, arguments[DATA_ARGUMENT]), arguments),
        True,
    )

"""Arguments of an operation: its parameters and its body, as one JSON Schema (spec 7, M8, M105, M106).

Each argument has a *place*, which says how it is sent and is part of the pin: JSON with ``in`` and ``name``, and with
``style`` and ``explode``, ``content`` or ``media``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from capset.definitions.secrets import is_secret_name
from capset.errors import DefinitionError
from capset.schemas.schema import SECRETS_WITHIN
from capset_connect.openapi.argument_names import BODY, argument_names, is_recognisable
from capset_connect.openapi.bodies import body_of, is_empty
from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_text
from capset_connect.openapi.parameters import Place, Places, described, parameter_of
from capset_connect.openapi.paths import Key, check_path, fixed_query, names_in, split_path
from capset_connect.openapi.schemas import OperationSchemas, SchemaLibrary
from capset_connect.openapi.swagger import upgraded_body, upgraded_parameter
from capset_connect.openapi.uploads import FORM_DATA, mentions_file

_IGNORED_HEADERS: Final = frozenset({("header", name) for name in ("accept", "content-type", "authorization")})
"""Header parameters that the specification says to ignore."""
_BODILESS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class OperationArguments:
    """The arguments of an operation: their JSON Schema, their places, and the query that its path fixes.

    ``notes`` say which parts of the document's description are left out.
    """

    schema: dict[str, Any]
    places: Places
    query: str
    notes: list[str]


def arguments_of(
    document: ApiDocument,
    method: str,
    path: str,
    item: Node,
    operation: Node,
    filled: Collection[Key],
    library: SchemaLibrary,
) -> OperationArguments:
    """Return the arguments of an operation, named by ``argument_names``; the argument of the body is ``body``.

    ``filled`` are the parameters that the host fills in. They are not arguments, and neither are those that the path
    fixes in its query. Optional parameters that cannot be sent are left out, with a note, and so is the optional body
    of a GET or HEAD.

    Raises ``DefinitionError`` for anything else that cannot be sent.
    """
    declared = _declared_parameters(document, item, operation)
    query = fixed_query(path, declared)
    check_path(path, query, declared)
    hidden = {*filled, *_IGNORED_HEADERS, *(("query", name) for name in names_in(query))}
    notes = [*_unsent_end(path, declared)]
    schemas = OperationSchemas(library)
    body = _request_body(document, method, operation, declared, notes)
    sent = _sent(document, schemas, {key: declared[key] for key in declared if key not in hidden}, notes)
    names = argument_names(sent, has_body=body is not None)
    properties: dict[str, Any] = {}
    places: Places = {}
    for key, (schema, place) in sent.items():
        name = names[key]
        properties[name] = schema if is_recognisable(name, key) else described(schema, "", f"Sent as {key[1]!r:.200}.")
        places[name] = place
    required = [names[key] for key in sent if _is_required(key, declared[key])]
    if body is not None:
        properties[BODY], places[BODY] = body_of(document, schemas, body, notes)
        if body.get("required") is True:
            required.append(BODY)
    root_schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        root_schema["required"] = sorted(required)
    if defs := schemas.referred():
        root_schema["$defs"] = defs
    if body is not None:
        inside = [properties[BODY], *defs.values()]
        if places[BODY]["media"] == FORM_DATA and mentions_file(inside):
            raise DefinitionError("its body: a file can only be a field, or an item of a field that is a list")
        if _hides(inside):
            properties[BODY][SECRETS_WITHIN] = True  # records mask whole arguments, and fields only by their names
    return OperationArguments(root_schema, places, query, notes)


def _request_body(
    document: ApiDocument, method: str, operation: Node, parameters: Mapping[Key, Node], notes: list[str]
) -> Node | None:
    """Return the body of an operation, or ``None`` if none is sent."""
    if document.version == "2.0":
        body = upgraded_body(document.data, operation, parameters)
    else:
        declared = operation.get("requestBody")
        body = None if declared is None else document.resolved("its body", declared)
    if body is None or method not in _BODILESS:
        return body
    if not is_empty(body):
        if body.get("required") is True:
            raise DefinitionError(f"it is a {method} with a body, which many servers ignore")
        notes.append(f"left out: its body, which many servers ignore for a {method}")
    return None


def _sent(
    document: ApiDocument, schemas: OperationSchemas, parameters: Mapping[Key, Node], notes: list[str]
) -> dict[Key, tuple[Any, Place]]:
    """Return the schemas and the places of parameters, without optional ones that cannot be sent."""
    is_swagger = document.version == "2.0"
    sent: dict[Key, tuple[Any, Place]] = {}
    for key, parameter in parameters.items():
        if is_swagger and key[0] in ("body", "formData"):
            continue
        trial = schemas.trial()
        try:
            typed = parameter_of(trial, key, upgraded_parameter(key[0], parameter) if is_swagger else parameter)
            schemas.add(trial)
        except DefinitionError as error:
            if _is_required(key, parameter):
                raise
            notes.append(f"left out: {error.message}")
        else:
            sent[key] = typed
    return sent


def _is_required(key: Key, parameter: Node) -> bool:
    return key[0] == "path" or parameter.get("required") is True


def _declared_parameters(document: ApiDocument, item: Node, operation: Node) -> dict[Key, Node]:
    """Return the parameters of an operation, and those of its path that it does not override."""
    parameters: dict[Key, Node] = {}
    for owner in (item, operation):
        keys: set[Key] = set()
        for number, entry in enumerate(as_list("its parameters", owner.get("parameters"))):
            if entry is None:
                continue
            parameter = document.resolved(f"its parameter {number}", entry)
            where, name = (as_text(f"its parameter {number}", parameter.get(member)) for member in ("in", "name"))
            key = (where, name.lower() if where == "header" else name)
            if key in keys:
                raise DefinitionError(f"it has two parameters {name!r:.80} in its {where}")
            keys.add(key)
            parameters[key] = parameter
    return parameters


def _unsent_end(path: str, declared: Collection[Key]) -> Iterator[str]:
    """Yield a note about the fragment of a path, if it has names that no parameter has."""
    end = split_path(path)[2]
    lowercase_names = {name.lower() for _, name in declared}
    if not {name.lower() for name in names_in(end)} <= lowercase_names:
        yield f"not sent: {f'#{end}'!r:.200} at the end of its path"


def _hides(schema: object) -> bool:
    """Whether a schema has a write-only field whose name does not mark it as a secret, unlike ``password``."""
    if isinstance(schema, list):
        return any(_hides(element) or _is_write_only(element) for element in cast("list[object]", schema))
    if not isinstance(schema, dict):
        return False
    node = cast("dict[str, object]", schema)
    fields = node.get("properties")
    if isinstance(fields, dict):
        members = cast("dict[str, object]", fields)
        if any(_is_write_only(member) and not is_secret_name(name) for name, member in members.items()):
            return True
    return any(_hides(child) for child in node.values())


def _is_write_only(schema: object) -> bool:
    return isinstance(schema, dict) and cast("Node", schema).get("writeOnly") is True

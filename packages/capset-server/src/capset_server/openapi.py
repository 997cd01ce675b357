"""The server's OpenAPI 3.1 document: FastAPI's, corrected and completed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import compile_path

from capset.wire.audit import record_shape
from capset.wire.calls import CallProblem
from capset.wire.errors import MEDIA_TYPE, Problem
from capset.wire.shapes import Shape
from capset_server.http.paths import METADATA_PATHS
from capset_server.http.request_rules import PUBLIC

_ID: Final = "$response.body#/id"
_OF_AGENT: Final = (
    "get_agent",
    "change_agent",
    "list_agent_versions",
    "preview_agent_change",
    "archive_agent",
)
_OF_SESSION: Final = (
    "get_session",
    "change_session",
    "get_snapshot",
    "list_session_tools",
    "get_state",
    "list_transitions",
    "call_tool",
    "send_message",
    "list_events",
    "read_file",
    "write_file",
    "delete_file",
)
_OF_LINK: Final = ("get_link", "get_link_envelope")
_OF_APPROVAL: Final = ("get_approval", "approve", "reject")
_SCHEMAS: Final = "#/components/schemas/"
_MERGE_PATCH: Final = "application/merge-patch+json"
Node = dict[str, Any]
"""A part of an OpenAPI document."""


def describe(app: FastAPI) -> Node:
    """Return the document, with problem details instead of FastAPI's errors, independent of what is installed."""
    document = app.openapi()
    schemas: Node = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for shape in (Problem, CallProblem, record_shape()):
        schemas.update(_schemas_of(shape))
    schemas["RecordPageShape"]["properties"]["items"]["items"] = {"$ref": f"{_SCHEMAS}RecordShape"}
    del schemas["Problem"]["additionalProperties"]  # a problem type may add members (RFC 9457 §3.2)
    operations = {
        operation["operationId"]: operation for path in document["paths"].values() for operation in path.values()
    }
    _leave_defaults_out(operations, schemas)
    schemas["AgentInput"]["properties"]["capabilities"]["uniqueItems"] = True
    schemas["AgentPatch"] = _patch_of(schemas["AgentInput"])
    for name in ("change_agent", "preview_agent_change"):
        _take_patches(operations[name])
    for path in PUBLIC:
        document["paths"][path]["get"]["security"] = []
    _answer_refused_calls(operations["call_tool"])
    _lead_with_bytes(operations["read_file"])
    _link(operations)
    return document


def methods_by_path(document: Node, routers: Iterable[APIRouter]) -> Callable[[str], list[str]]:
    """Return a function that lists the methods of a path, since a router knows only those of one route.

    ``routers`` have the routes below ``/v1`` that are not in the document.
    """
    paths: Node = {**document["paths"], **{path: {"get": {}} for path in ("/openapi.json", *METADATA_PATHS)}}
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        operations = {method.lower(): dict[str, Any]() for method in route.methods or ()}
        paths.setdefault(f"/v1{route.path}", {}).update(operations)
    patterns = {path: compile_path(path.replace("{path}", "{path:path}"))[0] for path in paths}
    # OpenAPI matches paths without parameters first.
    table = [
        (patterns[path], sorted(map(str.upper, paths[path]))) for path in sorted(paths, key=lambda path: "{" in path)
    ]

    def methods(path: str) -> list[str]:
        return next((allowed for pattern, allowed in table if pattern.match(path)), list[str]())

    return methods


def _patch_of(agent: Node) -> Node:
    """Return the schema of a merge patch: every member is optional, and null clears those that are not required."""
    members: Node = deepcopy(agent["properties"])
    for name, schema in members.items():
        if name not in agent["required"]:
            members[name] = {"anyOf": [schema, {"type": "null"}]}
    return {
        "type": "object",
        "title": "AgentPatch",
        "description": "A JSON merge patch (RFC 7396): null clears a member. It is also accepted as application/json.",
        "properties": members,
        "additionalProperties": False,
    }


def _take_patches(operation: Node) -> None:
    operation["requestBody"]["content"] = {_MERGE_PATCH: {"schema": {"$ref": "#/components/schemas/AgentPatch"}}}


def _schemas_of(shape: type[Shape]) -> dict[str, Node]:
    """Return the schemas of a response by name, without ``null`` defaults of optional members."""
    schema = shape.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
    schemas: dict[str, Node] = {**schema.pop("$defs", {}), shape.__name__: schema}
    for definition in schemas.values():
        for member in definition["properties"].values():
            if member.get("default", ...) is None:
                del member["default"]
    return schemas


def _answer_refused_calls(operation: Node) -> None:
    """Document the problems of a refused call, which also have the members of the call."""
    either = {"anyOf": [{"$ref": f"{_SCHEMAS}{shape.__name__}"} for shape in (CallProblem, Problem)]}
    for status in ("401", "403", "404", "409", "422", "429", "503"):
        operation["responses"][status]["content"] = {MEDIA_TYPE: {"schema": either}}


def _lead_with_bytes(operation: Node) -> None:
    """Put a file's bytes before a folder's JSON: generated clients use the first media type."""
    content: Node = operation["responses"]["200"]["content"]
    content["application/json"] = content.pop("application/json")


def _leave_defaults_out(operations: Mapping[str, Node], schemas: Node) -> None:
    """Remove defaults from request bodies: generated clients treat such members as required, or send them."""
    for operation in operations.values():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            name = content["schema"].get("$ref", "").removeprefix(_SCHEMAS)
            for member in schemas.get(name, {}).get("properties", {}).values():
                member.pop("default", None)


def _link(operations: Mapping[str, Node]) -> None:
    """Add links from a created object to the operations on it."""
    created = (("create_agent", _OF_AGENT), ("create_session", _OF_SESSION), ("record_link", _OF_LINK))
    for origin, targets in created:
        links: Node = {name: {"operationId": name, "parameters": {"path.id": _ID}} for name in targets}
        operations[origin]["responses"]["201"]["links"] = links
    parameters = {"path.id": "$response.body#/approval"}
    links = {name: {"operationId": name, "parameters": parameters} for name in _OF_APPROVAL}
    operations["call_tool"]["responses"]["202"]["links"] = links
    links = operations["create_agent"]["responses"]["201"]["links"]
    links["create_session"] = {"operationId": "create_session", "requestBody": {"agent_id": _ID}}
    first = {"path.id": _ID, "path.version": "$response.body#/version"}
    links["get_agent_version"] = {"operationId": "get_agent_version", "parameters": first}
    of_both = {"path.id": _ID, "query.before": "$response.body#/version"}
    links["diff_agent_versions"] = {"operationId": "diff_agent_versions", "parameters": of_both}
    rollback_body = {"version": "$response.body#/version"}
    links["rollback_agent"] = {
        "operationId": "rollback_agent",
        "parameters": {"path.id": _ID},
        "requestBody": rollback_body,
    }
    links = operations["create_session"]["responses"]["201"]["links"]
    links["record_link"] = {"operationId": "record_link", "requestBody": {"session_id": _ID}}
    links["list_links"] = {"operationId": "list_links", "parameters": {"query.session_id": _ID}}
    links = operations["record_link"]["responses"]["201"]["links"]
    envelope = {"path.id": "$response.body#/envelope_id"}
    links["get_envelope"] = {"operationId": "get_envelope", "parameters": envelope}
    both = {"query.before": _ID, "query.after": _ID}
    links["diff_links"] = {"operationId": "diff_links", "parameters": both}

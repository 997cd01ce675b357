"""Operations of a document as offers: the part that a pin covers, and problems (spec 7, M8, M105, M107)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import urljoin

from capset.errors import DefinitionError, ToolError, unknown
from capset.net.urls import parse_url
from capset_connect.openapi.api import EFFECTS, OpenApi
from capset_connect.openapi.arguments import arguments_of
from capset_connect.openapi.credentials import chosen, keys_of, problem_of, security_of
from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_members, as_node, as_text, stripped
from capset_connect.openapi.schemas import SchemaLibrary
from capset_connect.openapi.swagger import servers_of
from capset_connect.pins.offers import MAX_TOOLS, Offer, distinct, examined, shown
from capset_connect.tool_rules import EVERY, ToolRules, rules_of

_METHODS: Final = (*(method.lower() for method in EFFECTS), "trace", "query")
_SHOWN_TAGS: Final = 10
Entry = tuple[str, Node, str, Node]
"""The path, the path item, the method and the operation itself."""


def rules_for(api: OpenApi, shape: Mapping[str, Any]) -> ToolRules:
    """Return the rules of an operation. Its effect is that of its method unless the host sets another."""
    other, effect = f"{shape['method']} {shape['path']}", EFFECTS[shape["method"]]
    rules = {"effect": effect, **rules_of(api.rules, other), **api.rules.get(shape["name"], {})}
    return cast("ToolRules", {"idempotent": rules["effect"] == "read", **rules})


def is_named(api: OpenApi, shape: Mapping[str, Any]) -> bool:
    """Whether a pinned operation may be selected. Tags are known only from the document."""
    if api.operations is None or api.tags is not None:
        return True
    return not set(api.operations).isdisjoint(names_of(shape))


def offers_of(api: OpenApi, document: ApiDocument) -> list[Offer]:
    """Return the selected operations, sorted by name. The problems of an operation say why it cannot be sent.

    Raises ``ToolError`` if the document has more than 1,000 operations and the declaration makes no selection.
    """
    operations = [entry for entry in _operations(document) if _is_selected(api, entry)]
    if len(operations) > MAX_TOOLS and api.operations is None and api.tags is None:
        raise _too_many(api, operations)
    offers: dict[str, Offer] = {}
    library = SchemaLibrary(document)
    for path, item, method, operation in operations:
        key = _key(method, path, operation)
        try:
            offer = _offer(api, document, key, path, item, method, operation, library)
        except DefinitionError as error:
            offer = Offer(key, {"name": key}, "", (error.message,), is_unusable=True)
        twin = ("the document has another operation with this id",) if key in offers else ()
        offers[key] = offer.with_problems(*twin)
    return list(distinct(sorted(offers.values(), key=lambda candidate: candidate.name), api.tool_name))


def is_left_out(api: OpenApi, document: ApiDocument, name: str) -> bool:
    """Whether an operation is in the document but not selected."""
    alike = [entry for entry in _operations(document) if _key(entry[2], entry[0], entry[3]) == name]
    return bool(alike) and not any(_is_selected(api, entry) for entry in alike)


def names_in(document: ApiDocument) -> frozenset[str]:
    """Return the names of a document's operations: the id of each, and its method and path."""
    operations = _operations(document)
    return frozenset(
        name
        for path, _, method, operation in operations
        for name in (_key(method, path, operation), f"{method} {path}")
    )


def names_of(shape: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of an operation in declarations: its id, and its method and path."""
    return shape["name"], f"{shape['method']} {shape['path']}"


def unmatched(api: OpenApi, document: ApiDocument) -> list[str]:
    """Return a sentence for each declared name that the document does not have."""
    keys = names_in(document)
    tags = {tag for _, _, _, operation in _operations(document) for tag in _tags(operation)}
    components = document.data.get("components")
    schemes = _members(components).get("securitySchemes")
    names_by_kind = {
        "operation": (keys, {*(api.operations or ()), *api.rules} - {EVERY}),
        "tag": (tags, {*(api.tags or ())}),
        "security scheme": (set(_members(schemes)), {*api.credentials, *api.oauth}),
    }
    return [
        unknown(kind, name, available)
        for kind, (available, declared) in names_by_kind.items()
        for name in sorted(declared - available)
    ]


def _members(value: object) -> Node:
    return cast("Node", value) if isinstance(value, Mapping) else {}


def _operations(document: ApiDocument) -> Iterator[Entry]:
    """Yield each operation, skipping invalid entries."""
    for path, declared in as_members("the document: its paths", document.data.get("paths")).items():
        if not isinstance(declared, Mapping) or path.startswith("x-"):
            continue
        try:
            item = document.resolved(f"the path {path!r:.80}", cast("Node", declared))
        except DefinitionError:
            continue
        others = _members(item.get("additionalOperations"))  # in 3.2, by other methods than these
        for method, operation in [*((method, item.get(method)) for method in _METHODS), *others.items()]:
            if isinstance(operation, Mapping):
                yield path, item, method.upper(), cast("Node", operation)


def _key(method: str, path: str, operation: Node) -> str:
    operation_id = operation.get("operationId")
    return operation_id if isinstance(operation_id, str) and operation_id else f"{method} {path}"


def _tags(operation: Node) -> list[str]:
    tags = operation.get("tags")
    return [tag for tag in cast("list[object]", tags) if isinstance(tag, str)] if isinstance(tags, list) else []


def _is_selected(api: OpenApi, entry: Entry) -> bool:
    if api.operations is None and api.tags is None:
        return True
    path, _, method, operation = entry
    names, tags = set(api.operations or ()), set(api.tags or ())
    is_named = not names.isdisjoint((_key(method, path, operation), f"{method} {path}"))
    return is_named or not tags.isdisjoint(_tags(operation))


def _too_many(api: OpenApi, operations: Sequence[Entry]) -> ToolError:
    """Return the error for too many operations without a selection, with the tags that have most of them."""
    count = Counter(tag for _, _, _, operation in operations for tag in _tags(operation))
    tags = ", ".join(f"{tag!r:.60} ({number:,})" for tag, number in count.most_common(_SHOWN_TAGS))
    return ToolError(
        f"More than {MAX_TOOLS:,} operations of the {api.label} are too many at once: its document has "
        f"{len(operations):,}. Select those that you need, by tags or operations"
        + (f"; it has the tags {tags}{' and others' if len(count) > _SHOWN_TAGS else ''}." if tags else "."),
        code="too_many_tools",
        status=502,
    )


def _offer(
    api: OpenApi,
    document: ApiDocument,
    key: str,
    path: str,
    item: Node,
    method: str,
    operation: Node,
    library: SchemaLibrary,
) -> Offer:
    """Return the offer of an operation. Raises ``DefinitionError`` if it cannot be sent."""
    if method not in EFFECTS:
        raise DefinitionError(f"its method is {method}, which is not sent")
    security = security_of(document, operation)
    filled = {*keys_of(security), *(("header", name.lower()) for name in api.headers)}
    arguments = arguments_of(document, method, path, item, operation, filled, library)
    title, description = stripped(operation.get("summary")), stripped(operation.get("description"))
    texts = [title if title != description else "", description]
    shape: dict[str, Any] = {
        "name": key,
        "description": "\n\n".join(filter(None, texts)) or f"{method} {path}",
        "inputSchema": arguments.schema,
        "method": method,
        "path": path,
        "arguments": arguments.places,
    }
    if arguments.query:
        shape["query"] = arguments.query
    if operation.get("deprecated") is True:
        shape["description"] += "\n\nDeprecated."
    if title:
        shape["title"] = title
    if security:
        shape["security"] = security
    problems: list[str] = []
    if api.url is None:
        shape["server"] = _server(document, item, operation)
        problems += _leak(api, shape["server"])
    if not api.headers and chosen(security, api.credentials, api.oauth) is None:
        problems.append(problem_of(security))
    offer = examined(key, api.tool_name(key), shape)
    notes = (*offer.notes, *map(shown, arguments.notes))
    return replace(offer, problems=(*offer.problems, *problems), notes=notes)


def _server(document: ApiDocument, item: Node, operation: Node) -> str:
    """Return the URL of the first server of an operation, with the defaults of its variables."""
    declared = next(
        (node["servers"] for node in (operation, item, document.data) if node.get("servers")), [{"url": "/"}]
    )
    if document.version == "2.0" and operation.get("schemes"):
        declared = servers_of(document.data, operation["schemes"])
    server = as_node("its server", next(iter(as_list("its servers", declared))))
    url = as_text("its server", server.get("url"))
    variables = as_members("its server: its variables", server.get("variables"))
    for name in re.findall(r"\{([^{}]*)\}", url):
        variable = as_node(f"its server: the variable {name!r:.80}", variables.get(name))
        url = url.replace(f"{{{name}}}", as_text(f"its server: {name!r:.80}", variable.get("default")))
    if not re.match(r"https?://", url, re.IGNORECASE):
        if document.source is None:
            raise DefinitionError(f"its server {url!r:.200} is not an absolute URL; give the url of the API")
        url = _joined(document.source, url)
    try:
        parse_url(url)
    except ToolError as error:
        raise DefinitionError(f"its server: {error.message}") from None
    if "?" in url or "#" in url:
        raise DefinitionError(f"its server {url!r:.200} has a query or a fragment, so no path can be appended")
    return url.rstrip("/")


def _joined(base: str, url: str) -> str:
    try:
        return urljoin(base, url)
    except ValueError:  # unclosed brackets
        raise DefinitionError(f"its server {url!r:.200} is not well formed") from None


def _leak(api: OpenApi, server: str) -> Iterator[str]:
    """Yield a problem if a document from the network decides where the credentials of its API are sent."""
    if api.document_url is None or not (api.headers or api.credentials or api.oauth):
        return
    if parse_url(server).origin != parse_url(api.document_url).origin:
        yield f"its server {server!r:.200} has another origin than its document and would get credentials; give the url"

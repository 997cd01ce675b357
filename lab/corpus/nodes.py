"""Data of JSON documents, read without capset's help, so that its readers are held to something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_MAX_REFERENCES: Final = 20

Node = Mapping[str, Any]
"""An object of a document; its members have any JSON type."""


class Operation(NamedTuple):
    """An operation of an OpenAPI document: its key is its id, or else its method and path."""

    key: str
    method: str
    path: str
    item: Node
    node: Node


def members(value: object) -> Node:
    """Return an object, or an empty one in the place of anything else."""
    return cast("Node", value) if isinstance(value, Mapping) else {}


def elements(value: object) -> Sequence[Any]:
    """Return a list, or an empty one in the place of anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else ()


def is_object(value: object) -> bool:
    """Whether a value is an object."""
    return isinstance(value, Mapping)


def is_list(value: object) -> bool:
    """Whether a value is a list."""
    return isinstance(value, list)


def resolve(document: Node, value: object) -> Node:
    """Return an object, or the one that its local references lead to; an empty one if they lead nowhere."""
    for _ in range(_MAX_REFERENCES):
        node = members(value)
        reference = node.get("$ref")
        if not isinstance(reference, str):
            return node
        value = target_of(document, reference)
    return {}


def target_of(document: Node, reference: str) -> object:
    """Return what a reference to a place in this document leads to, or ``None``."""
    if not reference.startswith("#/"):
        return document if reference == "#" else None
    value: object = document
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if is_list(value):
            value = next(iter(elements(value)[int(name) :]), None) if name.isdecimal() else None
        else:
            value = members(value).get(name)
    return value


def operations_of(document: Node) -> list[Operation]:
    """List the operations of an OpenAPI document."""
    operations: list[Operation] = []
    for path, value in members(document.get("paths")).items():
        item = resolve(document, value)
        for method in METHODS:
            if not path.startswith("x-") and is_object(item.get(method)):
                node = members(item[method])
                key = node.get("operationId")
                named = key if isinstance(key, str) and key else f"{method.upper()} {path}"
                operations.append(Operation(named, method.upper(), path, item, node))
    return operations


def tags_of(operation: Operation) -> list[str]:
    """Return the tags of an operation."""
    return [tag for tag in elements(operation.node.get("tags")) if isinstance(tag, str)]

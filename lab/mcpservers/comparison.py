"""Results of one call, made of a server directly and through the gateway: what differs but for names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lab.corpus.nodes import Node, elements, is_list, is_object, members

_OWN: Final = ("dev.capset/", "io.modelcontextprotocol/")
"""The prefixes of the members of ``_meta`` that belong to a hop, and not to a result."""


def difference(direct: Node, gateway: Node, names: Mapping[str, str]) -> str | None:
    """Return how the gateway's result of a call differs from the direct one, if it does.

    ``names`` are the server's own by those that its tools have at the gateway. The text of an error goes on to say what
    capset adds to it.
    """
    ours, theirs = comparable(direct, {}), comparable(gateway, names)
    if not ours["isError"]:
        return first_difference(ours, theirs)
    if not theirs["isError"]:
        return "it is an error, and succeeded at the gateway"
    text = " ".join(_texts(theirs))
    missing = [part for part in _texts(ours) if part not in text]
    return f"its error lacks {missing[0][:300]!r}: {text[:300]!r}" if missing else None


def comparable(result: Node, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what a result says, with a server's own names for its tools."""
    meta = {key: value for key, value in members(result.get("_meta")).items() if not key.startswith(_OWN)}
    document = {
        "content": elements(result.get("content")),
        "structuredContent": result.get("structuredContent"),
        "isError": result.get("isError") is True,
        "_meta": meta,
    }
    text = json.dumps(document)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return json.loads(text)


def first_difference(ours: Any, theirs: Any, at: str = "") -> str | None:
    """Return the first place where two values differ, and how; ``None`` if they are equal."""
    if is_object(ours) and is_object(theirs):
        for key in [*members(ours), *(members(theirs).keys() - members(ours).keys())]:
            if key not in members(ours) or key not in members(theirs):
                return f"{at}.{key} is {'missing' if key in members(ours) else 'added'}"
            if (inner := first_difference(ours[key], theirs[key], f"{at}.{key}")) is not None:
                return inner
        return None
    if is_list(ours) and is_list(theirs) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next((inner for i, pair in pairs if (inner := first_difference(*pair, f"{at}[{i}]")) is not None), None)
    if type(ours) is type(theirs) and ours == theirs:
        return None
    return f"{at} is {json.dumps(theirs)[:300]}, not {json.dumps(ours)[:300]}"


def shape_of(value: Any) -> Any:
    """Return a value with the type of each scalar in its place: the part of a changing result that stays."""
    if is_object(value):
        return {key: shape_of(item) for key, item in members(value).items()}
    return [shape_of(item) for item in elements(value)] if is_list(value) else type(value).__name__


def _texts(result: Node) -> Sequence[str]:
    """Return all texts of an error: those of its content, and those of its structure."""
    texts: list[str] = []
    waiting: list[Any] = [result["content"], result["structuredContent"]]
    while waiting:
        value = waiting.pop(0)
        if is_object(value):
            waiting += [item for key, item in members(value).items() if key not in ("type", "mimeType")]
        elif is_list(value):
            waiting += elements(value)
        elif isinstance(value, str):
            texts.append(value)
    return texts

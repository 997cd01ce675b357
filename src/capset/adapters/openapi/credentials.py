"""Security schemes of a document, filled with the credentials that the host declares (spec 7, M9)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from capset.adapters.openapi.document import ApiDocument, Node, as_list, as_node, as_text

Scheme = dict[str, Any]
"""A scheme as the pin has it; JSON: ``scheme`` is its name, ``type`` and other members say where a credential goes."""
_TOKENS: Final = ("oauth2", "openIdConnect")
"""Types whose credential is a token that the host has got by itself."""


@dataclass
class Filled:
    """Where credentials go, and their texts."""

    headers: dict[str, str] = field(default_factory=dict[str, str])
    query: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cookies: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def security_of(document: ApiDocument, operation: Node) -> list[list[Scheme]]:
    """Return the alternatives of an operation, each a list of schemes that are needed together; none if it has none.

    Raises ``DefinitionError`` for a scheme that the document does not have.
    """
    given = operation.get("security", document.data.get("security"))
    components = as_node("the document: its components", document.data.get("components", {}))
    schemes = as_node("the document: its security schemes", components.get("securitySchemes", {}))
    found: list[list[Scheme]] = []
    for one in as_list("its security", given):
        needed = as_node("its security", one)
        found.append([_scheme(document, name, schemes.get(name)) for name in sorted(needed)])
    return found


def _scheme(document: ApiDocument, name: str, given: object) -> Scheme:
    what = f"the security scheme {name!r:.80}"
    node = document.resolved(what, given)
    kind = as_text(what, node.get("type"))
    found: Scheme = {"scheme": name, "type": kind}
    if kind == "apiKey":
        found |= {"in": as_text(what, node.get("in")), "name": as_text(what, node.get("name"))}
    elif kind == "http":
        found["http"] = as_text(what, node.get("scheme")).lower()
    return found


def _is_fillable(scheme: Scheme) -> bool:
    kind = scheme["type"]
    if kind == "apiKey":
        return scheme["in"] in ("header", "query", "cookie") and bool(scheme["name"])
    return kind in _TOKENS or (kind == "http" and scheme["http"] in ("bearer", "basic"))


def chosen(security: Sequence[Sequence[Scheme]], credentials: Iterable[str]) -> Sequence[Scheme] | None:
    """Return the first alternative whose credentials are all there, or else one that needs none.

    ``None`` if all lack some. An operation without security needs none.
    """
    known = set(credentials)
    for schemes in security:
        if schemes and all(one["scheme"] in known and _is_fillable(one) for one in schemes):
            return schemes
    return () if not security or [] in map(list, security) else None


def problem_of(security: Sequence[Sequence[Scheme]]) -> str:
    """Return what to declare, where credentials are missing."""
    wanted = [" and ".join(f"{one['scheme']!r} ({one['type']})" for one in schemes) for schemes in security]
    if not any(all(map(_is_fillable, schemes)) for schemes in security):
        return f"it needs {' or '.join(wanted)}, which cannot be filled in here"
    return f"it needs a credential: declare one in credentials for {' or '.join(wanted)}"


def keys_of(security: Sequence[Sequence[Scheme]]) -> set[tuple[str, str]]:
    """Return the parameters that are keys, by place and name: nothing but credentials is sent there."""
    found = [one for schemes in security for one in schemes if one["type"] == "apiKey"]
    return {(one["in"], one["name"].lower() if one["in"] == "header" else one["name"]) for one in found}


def filled(schemes: Iterable[Scheme], credentials: Mapping[str, str]) -> Filled:
    """Return the credentials of these schemes in their places."""
    found = Filled()
    for one in schemes:
        text = credentials[one["scheme"]]
        if one["type"] != "apiKey":
            is_basic = one.get("http") == "basic"
            found.headers["authorization"] = (
                f"Basic {base64.b64encode(text.encode()).decode()}" if is_basic else f"Bearer {text}"
            )
        elif one["in"] == "header":
            found.headers[one["name"].lower()] = text
        else:
            (found.query if one["in"] == "query" else found.cookies).append((one["name"], text))
    return found

"""Security schemes of a document, filled with the credentials that the host declares (spec 7, M9, M108)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_members, as_node, as_text

Scheme = dict[str, Any]
"""A scheme in a pin, as JSON: ``scheme`` is its name; ``type`` and other members say where a credential goes."""
_TOKENS: Final = ("oauth2", "openIdConnect")
"""Types whose credential is an access token."""


@dataclass
class Filled:
    """Credentials in the places where they are sent."""

    headers: dict[str, str] = field(default_factory=dict[str, str])
    query: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cookies: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def security_of(document: ApiDocument, operation: Node) -> list[list[Scheme]]:
    """Return the security alternatives of an operation, each a list of schemes that are needed together.

    Raises ``DefinitionError`` for a scheme that the document does not have.
    """
    security = operation.get("security")
    components = as_members("the document: its components", document.data.get("components"))
    schemes = as_members("the document: its security schemes", components.get("securitySchemes"))
    alternatives: list[list[Scheme]] = []
    for alternative in as_list("its security", document.data.get("security") if security is None else security):
        needed = as_node("its security", alternative)
        alternatives.append([_scheme(document, name, schemes.get(name)) for name in sorted(needed)])
    return alternatives


def _scheme(document: ApiDocument, name: str, definition: object) -> Scheme:
    label = f"the security scheme {name!r:.80}"
    node = document.resolved(label, definition)
    kind = as_text(label, node.get("type"))
    scheme: Scheme = {"scheme": name, "type": kind}
    if kind == "apiKey":
        scheme |= {"in": as_text(label, node.get("in")), "name": as_text(label, node.get("name"))}
    elif kind == "http":
        scheme["http"] = as_text(label, node.get("scheme")).lower()
    return scheme


def _is_fillable(scheme: Scheme) -> bool:
    kind = scheme["type"]
    if kind == "apiKey":
        return scheme["in"] in ("header", "query", "cookie") and bool(scheme["name"])
    return _is_bearer(scheme) or scheme.get("http") == "basic"


def _is_bearer(scheme: Scheme) -> bool:
    return scheme["type"] in _TOKENS or scheme.get("http") == "bearer"


def _place(scheme: Scheme) -> tuple[str, str]:
    """Return where the credential of a scheme goes."""
    if scheme["type"] != "apiKey":
        return "header", "authorization"
    return scheme["in"], scheme["name"].lower() if scheme["in"] == "header" else scheme["name"]


def _collision(schemes: Sequence[Scheme]) -> str | None:
    """Return why schemes cannot be filled in together, or ``None`` if no two go to the same place."""
    owners: dict[tuple[str, str], str] = {}
    for scheme in filter(_is_fillable, schemes):
        where, name = _place(scheme)
        other = owners.setdefault((where, name), scheme["scheme"])
        if other != scheme["scheme"]:
            instead = ": declare its value in headers" if where == "header" else ""
            return f"and {other!r} and {scheme['scheme']!r} both go into its {where} {name!r}{instead}"
    return None


def _are_fillable(schemes: Sequence[Scheme]) -> bool:
    return all(map(_is_fillable, schemes)) and _collision(schemes) is None


def chosen(
    security: Sequence[Sequence[Scheme]], credentials: Iterable[str], oauth: Iterable[str]
) -> Sequence[Scheme] | None:
    """Return the first alternative whose credentials are all available, or else one that needs none.

    ``oauth`` names the schemes that have access tokens. Returns ``None`` if every alternative lacks a credential. An
    operation without security needs none.
    """
    credential_names, tokens = set(credentials), set(oauth)

    def is_known(scheme: Scheme) -> bool:
        name = scheme["scheme"]
        return (name in credential_names and _is_fillable(scheme)) or (name in tokens and _is_bearer(scheme))

    for schemes in security:
        if schemes and all(map(is_known, schemes)) and _collision(schemes) is None:
            return schemes
    return () if not security or [] in map(list, security) else None


def problem_of(security: Sequence[Sequence[Scheme]]) -> str:
    """Return which credential to declare, or why none can be filled in."""
    fillable = list(filter(_are_fillable, security))
    needs = [
        " and ".join(f"{scheme['scheme']!r} ({scheme['type']})" for scheme in schemes)
        for schemes in fillable or security
    ]
    if fillable:
        return f"it needs a credential: declare one in credentials for {' or '.join(needs)}"
    collisions = [collision for schemes in security if (collision := _collision(schemes)) is not None]
    why = collisions[0] if collisions else "which cannot be filled in here"
    return f"it needs {' or '.join(needs)}, {why}"


def keys_of(security: Sequence[Sequence[Scheme]]) -> set[tuple[str, str]]:
    """Return the parameters that are API keys, by place and name. Only credentials are sent there."""
    return {_place(one) for schemes in security for one in schemes if one["type"] == "apiKey"}


def filled(schemes: Iterable[Scheme], credentials: Mapping[str, str]) -> Filled:
    """Return the credentials of schemes in their places."""
    placed = Filled()
    for scheme in schemes:
        text = credentials[scheme["scheme"]]
        if scheme["type"] != "apiKey":
            is_basic = scheme.get("http") == "basic"
            placed.headers["authorization"] = (
                f"Basic {base64.b64encode(text.encode()).decode()}" if is_basic else f"Bearer {text}"
            )
        elif scheme["in"] == "header":
            placed.headers[scheme["name"].lower()] = text
        else:
            (placed.query if scheme["in"] == "query" else placed.cookies).append((scheme["name"], text))
    return placed

"""Security schemes of a document, filled with the credentials that the host declares (spec 7, M9, M108)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_members, as_node, as_text

Scheme = dict[str, Any]
"""A scheme as the pin has it; JSON: ``scheme`` is its name, ``type`` and other members say where a credential goes."""
_TOKENS: Final = ("oauth2", "openIdConnect")
"""Types whose credential is an access token."""


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
    own = operation.get("security")
    components = as_members("the document: its components", document.data.get("components"))
    schemes = as_members("the document: its security schemes", components.get("securitySchemes"))
    found: list[list[Scheme]] = []
    for alternative in as_list("its security", document.data.get("security") if own is None else own):
        needed = as_node("its security", alternative)
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
    return _is_bearer(scheme) or scheme.get("http") == "basic"


def _is_bearer(scheme: Scheme) -> bool:
    return scheme["type"] in _TOKENS or scheme.get("http") == "bearer"


def _place(scheme: Scheme) -> tuple[str, str]:
    """Return where the credential of a scheme goes."""
    if scheme["type"] != "apiKey":
        return "header", "authorization"
    return scheme["in"], scheme["name"].lower() if scheme["in"] == "header" else scheme["name"]


def _collision(schemes: Sequence[Scheme]) -> str | None:
    """Return why schemes cannot be filled together, if two go to one place."""
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
    """Return the first alternative whose credentials are all there, or else one that needs none.

    ``oauth`` names the schemes for which there are access tokens. ``None`` if all alternatives lack some. An operation
    without security needs none.
    """
    known, tokens = set(credentials), set(oauth)

    def is_known(scheme: Scheme) -> bool:
        name = scheme["scheme"]
        return (name in known and _is_fillable(scheme)) or (name in tokens and _is_bearer(scheme))

    for schemes in security:
        if schemes and all(map(is_known, schemes)) and _collision(schemes) is None:
            return schemes
    return () if not security or [] in map(list, security) else None


def problem_of(security: Sequence[Sequence[Scheme]]) -> str:
    """Return what to declare where credentials are missing, or why none helps."""
    fillable = list(filter(_are_fillable, security))
    wanted = [" and ".join(f"{one['scheme']!r} ({one['type']})" for one in schemes) for schemes in fillable or security]
    if fillable:
        return f"it needs a credential: declare one in credentials for {' or '.join(wanted)}"
    collisions = [collision for schemes in security if (collision := _collision(schemes)) is not None]
    why = collisions[0] if collisions else "which cannot be filled in here"
    return f"it needs {' or '.join(wanted)}, {why}"


def keys_of(security: Sequence[Sequence[Scheme]]) -> set[tuple[str, str]]:
    """Return the parameters that are keys, by place and name: nothing but credentials is sent there."""
    return {_place(one) for schemes in security for one in schemes if one["type"] == "apiKey"}


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

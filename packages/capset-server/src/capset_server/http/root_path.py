"""The path prefix below which clients reach the server, such as behind a proxy (spec 5, P92)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from capset.errors import DefinitionError
from capset_server.auth.resources import WELL_KNOWN
from capset_server.http.request_context import path_of

if TYPE_CHECKING:
    from starlette.types import Scope

_ROOT: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")
_MCP: Final = "/mcp/"


def root_path_of(root_path: str | None, public_url: str | None) -> str | None:
    """Return the root path of a server, without a trailing slash; the default is the path of the public URL.

    Without either, return ``None``: the root path is that of the application in which the server is mounted. Raises
    ``DefinitionError`` for a path that needs escaping, and for one that differs from that of the public URL.
    """
    public = None if public_url is None else urlsplit(public_url).path.rstrip("/")
    root = public if root_path is None else root_path.rstrip("/")
    if root is None:
        return None
    if not _ROOT.fullmatch(root):
        raise DefinitionError(
            f"a root path is a slash and letters, digits, '.', '_', '~' or '-', for each segment; got {root!r:.200}",
            hint="such as /capset or /tools/capset",
        )
    if public is not None and root != public:
        raise DefinitionError(
            f"the root path is {root or '/'!r}, and the public URL has the path {public or '/'!r}",
            hint="leave the root path out: the default is that of the public URL",
        )
    return root


def check_root_path(root: str | None, templates: Iterable[str]) -> None:
    """Raise ``DefinitionError`` for a root path that begins like a path of the server: a proxy may strip the root."""
    if root and (first := root.split("/")[1]) in {template.split("/")[1] for template in templates}:
        raise DefinitionError(
            f"the root path {root!r} begins with /{first}, which is a path of the server's own",
            hint="choose another one, such as /capset",
        )


def place_request(scope: Scope, root: str | None) -> Scope:
    """Return the scope of a request with its path below the root, as ASGI defines; ``None`` leaves the root unchanged.

    The path may come with or without the root. Metadata is also found where RFC 9728 has clients look for it, with its
    prefix before the root. ``/mcp/`` counts as ``/mcp``: many clients do not send the body again after a redirect.
    """
    root_before: str = scope.get("root_path", "")
    path_before = path = path_of(scope)
    if root:
        for head in (WELL_KNOWN, ""):
            if path == head + root or path.startswith(f"{head}{root}/"):
                path = head + path[len(head) + len(root) :]
                break
    path = path or "/"
    if path.startswith(_MCP):
        path = path.rstrip("/")
    if root is None:
        root = root_before
    if (path, root) == (path_before, root_before):
        return scope
    return {**scope, "path": root + path, "root_path": root}

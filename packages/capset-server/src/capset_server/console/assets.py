"""The static files of the console, under paths with the hash of their content, so that browsers cache them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from capset.errors import NotFound
from capset_server.console.markup import static

PATH: Final = "/static/{version}/{name}"
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "agents.js": "text/javascript; charset=utf-8",
    "inbox.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "hx-sse.min.js": "text/javascript; charset=utf-8",
    "sessions.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_KEPT: Final = "public, max-age=31536000, immutable"


@cache
def asset(name: str) -> tuple[str, bytes]:
    """Return the version of a static file, and its content."""
    content = static(name)
    return sha256(content).hexdigest()[:16], content


def asset_path(root: str, name: str) -> str:
    """Return the path of the current version of a static file."""
    return f"{root}/static/{asset(name)[0]}/{name}"


async def show_asset(request: Request) -> Response:
    """Return a static file. Raises ``NotFound`` for one of another version of capset."""
    name = request.path_params["name"]
    if name not in _MEDIA_TYPES or asset(name)[0] != request.path_params["version"]:
        raise NotFound("there is no such file; load the page again")
    return Response(asset(name)[1], media_type=_MEDIA_TYPES[name], headers={"cache-control": _KEPT})

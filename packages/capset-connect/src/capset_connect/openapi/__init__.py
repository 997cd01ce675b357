"""Operations of OpenAPI documents as tools, pinned and governed like any other (spec 7)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from capset_connect.openapi.api import OpenApi

if TYPE_CHECKING:
    from capset_connect.openapi.client import OpenApiClient
    from capset_connect.openapi.tools import open_apis
    from capset_connect.pins.tool_pins import approve

__all__ = ["OpenApi", "OpenApiClient", "approve", "open_apis"]
_PLACES: Final = {
    "OpenApiClient": "capset_connect.openapi.client",
    "approve": "capset_connect.pins.tool_pins",
    "open_apis": "capset_connect.openapi.tools",
}


def __getattr__(name: str) -> Any:  # imported on demand: files that declare no API do not need these
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)

"""Operations of OpenAPI documents as tools, pinned and governed like any other (spec 7)."""

from capset.adapters.openapi.api import OpenApi
from capset.adapters.openapi.client import OpenApiClient
from capset.adapters.openapi.tools import open_apis
from capset.adapters.pins import approve

__all__ = ["OpenApi", "OpenApiClient", "approve", "open_apis"]

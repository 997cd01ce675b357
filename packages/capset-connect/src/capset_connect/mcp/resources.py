"""The resources of an MCP server that its host selected, and the URIs that they allow (spec 7, M21)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypedDict, cast
from urllib.parse import unquote_to_bytes

from capset.definitions.names import checked_flag, checked_mapping, checked_text
from capset.definitions.tools.mcp_offers import read_template
from capset.errors import DefinitionError, unknown

MAX_RESOURCES: Final = 100
"""The maximum number of resources and templates per server."""
MAX_CONTEXT: Final = 8
"""The maximum number of resources per server that are context."""
_MAX_DESCRIPTION: Final = 1_000
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+")
_OPEN_VALUE: Final = re.compile(r"(?:[A-Za-z0-9._~/-]|%[0-9A-Fa-f]{2})+")


class ResourceOptions(TypedDict, total=False):
    """Options of a selected resource."""

    description: str
    """The description for models and clients. They do not see the server's own."""
    context: bool
    """Whether its text is added to the context of agents that use the server."""


Resources = Mapping[str, ResourceOptions]
"""Options of resources, by URI or by URI template (RFC 6570, with ``{name}`` and ``{+name}`` only)."""


def checked_resources(field: str, resources: Mapping[str, Mapping[str, Any]]) -> Resources:  # possibly from a file
    """Return the resources, validated and frozen. Raises ``DefinitionError``, naming the URI."""
    checked: dict[str, ResourceOptions] = {}
    for uri, declared in checked_mapping(field, resources or {}).items():
        owner = f"{field}: {uri!r:.200}"
        variables = read_template(owner, uri).names
        options = {**checked_mapping(owner, declared)}
        for name in options:
            if name not in ResourceOptions.__annotations__:
                raise DefinitionError(f"{owner}: {unknown('member', name, ResourceOptions.__annotations__)}")
        if len(checked_text(f"{owner}: description", options.get("description", ""))) > _MAX_DESCRIPTION:
            raise DefinitionError(f"{owner}: a description has at most {_MAX_DESCRIPTION:,} characters")
        if checked_flag(f"{owner}: context", options.get("context", False)) and variables:
            raise DefinitionError(f"{owner}: a template matches many resources, so it cannot be context")
        checked[uri] = cast("ResourceOptions", MappingProxyType(options))
    for noun, count, limit in (
        ("resources", len(checked), MAX_RESOURCES),
        ("resources that are context", len(context_uris(checked)), MAX_CONTEXT),
    ):
        if count > limit:
            raise DefinitionError(f"{field}: at most {limit:,} {noun} are allowed; got {count:,}")
    return MappingProxyType(checked)


def context_uris(resources: Resources) -> tuple[str, ...]:
    """Return the URIs of the resources that are context, in order."""
    return tuple(uri for uri, options in resources.items() if options.get("context"))


class AllowedUris:
    """The URIs of selected resources: those listed, and those that match a template and cannot lead elsewhere."""

    def __init__(self, resources: Resources) -> None:
        read = {uri: read_template(uri, uri) for uri in resources}
        self._named = frozenset(uri for uri, template in read.items() if not template.names)
        self._templates = [template for template in read.values() if template.names]
        self.are_named: Final = not self._templates
        """Whether none of the resources is a template."""

    def __contains__(self, uri: object) -> bool:
        if not isinstance(uri, str) or uri in self._named:
            return isinstance(uri, str)
        return any(
            all(_is_plain(value, is_open=name == template.multi_segment_name) for name, value in variables.items())
            for template in self._templates
            if (variables := template.match(uri)) is not None
        )


def _is_plain(value: str, *, is_open: bool) -> bool:
    """Return whether a template value stays within its place, however the server decodes and joins it.

    It may contain unreserved and percent-encoded characters, and slashes if it is open. No segment may be empty, ``.``
    or ``..``.
    """
    if not (_OPEN_VALUE if is_open else _VALUE).fullmatch(value):
        return False
    try:
        plain = unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        return False
    if not plain.isprintable() or _ENCODED.search(plain):
        return False
    segments: Sequence[str] = re.split(r"[/\\]", plain)
    return (is_open or len(segments) == 1) and all(
        segment.partition(";")[0].strip() not in ("", ".", "..") for segment in segments
    )

"""The resources of an MCP server that its host chose, and the URIs that are allowed of them (spec 7, M21)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypedDict, cast
from urllib.parse import unquote_to_bytes

from capset.definitions.names import checked_flag, checked_text, mapped
from capset.definitions.tools.mcp_offers import read_template
from capset.errors import DefinitionError, unknown

MAX_RESOURCES: Final = 100
"""The maximum number of resources and templates of one server."""
MAX_CONTEXT: Final = 8
"""The maximum number of them that are context."""
_MAX_DESCRIPTION: Final = 1_000
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+")
_OPEN_VALUE: Final = re.compile(r"(?:[A-Za-z0-9._~/-]|%[0-9A-Fa-f]{2})+")


class ResourceOptions(TypedDict, total=False):
    """Options of a resource, as its host chose it."""

    description: str
    """The description that models and clients read; the server's own is not shown to them."""
    context: bool
    """Whether its text is context of the agents that have the server."""


Resources = Mapping[str, ResourceOptions]
"""Options of resources, by URI or by URI template (RFC 6570, with ``{name}`` and ``{+name}`` only)."""


def checked_resources(
    field: str, resources: Mapping[str, Mapping[str, Any]]
) -> Resources:  # as they may come from a file
    """Return resources, frozen. Raises ``DefinitionError``, naming the URI."""
    checked: dict[str, ResourceOptions] = {}
    for uri, declared in mapped(field, resources or {}).items():
        owner = f"{field}: {uri!r:.200}"
        variables = read_template(owner, uri).names
        options = {**mapped(owner, declared)}
        for name in options:
            if name not in ResourceOptions.__annotations__:
                raise DefinitionError(f"{owner}: {unknown('member', name, ResourceOptions.__annotations__)}")
        if len(checked_text(f"{owner}: description", options.get("description", ""))) > _MAX_DESCRIPTION:
            raise DefinitionError(f"{owner}: a description has at most {_MAX_DESCRIPTION:,} characters")
        if checked_flag(f"{owner}: context", options.get("context", False)) and variables:
            raise DefinitionError(f"{owner}: a template stands for many resources, and cannot be context")
        checked[uri] = cast("ResourceOptions", MappingProxyType(options))
    for noun, count, limit in (
        ("resources", len(checked), MAX_RESOURCES),
        ("resources that are context", len(context_uris(checked)), MAX_CONTEXT),
    ):
        if count > limit:
            raise DefinitionError(f"{field}: there are {count:,} {noun}, more than {limit:,}")
    return MappingProxyType(checked)


def context_uris(resources: Resources) -> tuple[str, ...]:
    """Return the URIs of the resources that are context, in order."""
    return tuple(uri for uri, options in resources.items() if options.get("context"))


class AllowedUris:
    """The URIs of chosen resources: those that are named, and those that fit a template and lead nowhere else."""

    def __init__(self, resources: Resources) -> None:
        read = {uri: read_template(uri, uri) for uri in resources}
        self._named = frozenset(uri for uri, template in read.items() if not template.names)
        self._templates = [template for template in read.values() if template.names]
        self.are_named: Final = not self._templates
        """Whether no template is among them."""

    def __contains__(self, uri: object) -> bool:
        if not isinstance(uri, str) or uri in self._named:
            return isinstance(uri, str)
        return any(
            all(_is_plain(value, is_open=name == template.open_name) for name, value in variables.items())
            for template in self._templates
            if (variables := template.match(uri)) is not None
        )


def _is_plain(value: str, *, is_open: bool) -> bool:
    """Return whether a value in a template stays in its place, whichever way its server decodes and joins it.

    It has unreserved characters and encoded ones; slashes only if it is open, and no segment that is empty, or dots.
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

"""Lock files: pins exported as text, for review in git, and imported again (spec 7, M7)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.errors import DefinitionError, unknown
from capset.fingerprint.canonical import NotCanonical, digest
from capset.kernel.governance.acts import Actor
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin
from capset_connect.mcp.server import McpSource
from capset_connect.openapi.api import EFFECTS, ApiSource
from capset_connect.pins.offers import Offer, examined, is_hidden
from capset_connect.pins.tool_pins import Standing, approve, shape_of, standings
from capset_connect.sources import source_named

VERSION: Final = 1
"""The version of the format."""
_HINT: Final = "write one with capset mcp lock FILE"
_OF_REQUESTS: Final[Mapping[str, type]] = {"description": str, "method": str, "path": str, "arguments": dict}
"""The members that API operations have in addition to those of tools."""

Locked = Mapping[str, Mapping[str, Offer]]
"""The content of a lock file: the approved tools, by the pin key of their source and by name."""


@dataclass(frozen=True, slots=True)
class LockImport:
    """The result of an import: the tools whose pins changed, and the omitted tools with the keys of their sources."""

    changed: Sequence[Standing]
    left_out: Sequence[tuple[str, Offer]]


def lock_text(pins: Iterable[ToolPin]) -> str:
    """Return the JSON text of a lock file. It depends on the pins, but not on who approved them.

    Invisible characters are escaped.
    """
    servers: dict[str, dict[str, Any]] = {}
    for pin in sorted(pins, key=lambda entry: (entry.server, entry.tool)):
        servers.setdefault(pin.server, {})[pin.tool] = {"hash": pin.hash, "shape": shape_of(pin)}
    text = json.dumps({"version": VERSION, "servers": servers}, indent=2, ensure_ascii=False) + "\n"
    return "".join(json.dumps(character)[1:-1] if is_hidden(character) else character for character in text)


def read_lock(text: str) -> Locked:
    """Return the tools of a lock file, each with its problems.

    Raises ``DefinitionError`` for another format, for a tool whose hash does not match its description, and for a tool
    that cannot be called.
    """
    try:
        data = from_json(text)
    except ValueError as error:
        raise DefinitionError(f"not a capset lock file: {error}", hint=_HINT) from None
    members: Mapping[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if members.get("version") != VERSION or not isinstance(members.get("servers"), dict):
        raise DefinitionError(f"not a capset lock file of version {VERSION}", hint=_HINT)
    offers: dict[str, dict[str, Offer]] = {}
    for key, tools in members["servers"].items():
        source = _source(key)
        offers[key] = {tool: _offer(source, tool, entry) for tool, entry in _mapping(key, tools).items()}
    return offers


async def import_lock(kernel: Kernel, locked: Locked, by: Actor, *, named: Collection[str] = ()) -> LockImport:
    """Replace the pins of the sources in a lock file by the tools of the file, on record.

    Tools with problems are omitted and returned in ``left_out``, unless ``named`` lists them as ``SOURCE/TOOL``. The
    pins of other sources do not change. Raises ``DefinitionError`` for a name that is not in the file.
    """
    names = {f"{key}/{tool}" for key, tools in locked.items() for tool in tools}
    for name in named:
        if name not in names:
            raise DefinitionError(f"lock file: {unknown('tool', name, names)}")
    changed: list[Standing] = []
    left_out: list[tuple[str, Offer]] = []
    for key, tools in locked.items():
        current = standings(await kernel.store.pins.list(key), tools.values())
        excluded = {
            standing.name
            for standing in current
            if standing.problems and standing.state != "approved" and f"{key}/{standing.name}" not in named
        }
        left_out += [(key, tools[name]) for name in sorted(excluded)]
        chosen = [standing.name for standing in current if standing.name not in excluded]
        changed += await approve(kernel, _source(key), list(tools.values()), by, chosen=chosen)
    return LockImport(changed, left_out)


def _source(key: str) -> McpSource | ApiSource:
    try:
        return source_named(key)
    except DefinitionError as error:
        raise DefinitionError(f"not a capset lock file: {error.message}", hint=_HINT) from None


def _offer(source: McpSource | ApiSource, tool: str, entry: object) -> Offer:
    """Return an approved tool, examined like an offer of its source."""
    label = f"{source.pin_key}: {tool}"
    members = _mapping(label, entry)
    shape = _mapping(f"{label}: shape", members.get("shape"))
    try:
        is_whole = digest(shape) == members.get("hash") and shape.get("name") == tool
    except NotCanonical:
        is_whole = False
    if not is_whole:
        raise DefinitionError(
            f"{label}: its hash does not match its description: the file was edited by hand",
            hint="write it again with capset mcp lock FILE",
        )
    offer = examined(tool, source.tool_name(tool), shape)
    faults = offer.problems if offer.is_unusable else ()
    if isinstance(source, ApiSource) and not _is_request(shape):
        faults = (*faults, "it does not describe the HTTP request")
    if faults:
        raise DefinitionError(f"{label}: it cannot be used: {'; '.join(faults)}")
    return offer


def _is_request(shape: Mapping[str, Any]) -> bool:
    """Return whether the shape of an operation describes an HTTP request."""
    is_formed = all(isinstance(shape.get(name), kind) for name, kind in _OF_REQUESTS.items())
    return is_formed and shape["method"] in EFFECTS


def _mapping(label: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(f"not a capset lock file: {label} must be an object", hint=_HINT)
    return cast("dict[str, Any]", value)

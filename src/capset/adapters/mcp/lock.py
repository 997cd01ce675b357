"""Lock files: pins as text, for review in git, and pins made of such a text (spec 7, M7)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.adapters.pins import shape_of
from capset.errors import DefinitionError
from capset.fingerprint.canonical import NotCanonical, canonical, digest
from capset.kernel.governance.acts import Actor
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin

VERSION: Final = 1
"""The version of the format."""
_HINT: Final = "capset mcp lock FILE writes one"

Locked = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""What a lock file holds: by the name of a server, and by that of a tool, what was approved of it, as JSON."""


def lock_text(pins: Iterable[ToolPin]) -> str:
    """Return a lock file of pins: JSON, the same for the same pins, no matter who approved them."""
    servers: dict[str, dict[str, Any]] = {}
    for pin in sorted(pins, key=lambda one: (one.server, one.tool)):
        servers.setdefault(pin.server, {})[pin.tool] = {"hash": pin.hash, "shape": shape_of(pin)}
    return json.dumps({"version": VERSION, "servers": servers}, indent=2, ensure_ascii=False) + "\n"


def read_lock(text: str) -> Locked:
    """Return what a lock file holds.

    Raises ``DefinitionError`` for another format, and for a tool whose hash is not that of what it says.
    """
    try:
        data = from_json(text)
    except ValueError as error:
        raise DefinitionError(f"this is no lock file: {error}", hint=_HINT) from None
    members: Mapping[str, Any] = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if members.get("version") != VERSION or not isinstance(members.get("servers"), dict):
        raise DefinitionError(f"this is no lock file of version {VERSION}", hint=_HINT)
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for server, tools in members["servers"].items():
        found[server] = {}
        for tool, entry in _mapping(server, tools).items():
            given = _mapping(f"{server}: {tool}", entry)
            shape = _mapping(f"{server}: {tool}: shape", given.get("shape"))
            try:
                is_whole = digest(shape) == given.get("hash") and shape.get("name") == tool
            except NotCanonical:
                is_whole = False
            if not is_whole:
                raise DefinitionError(
                    f"{server}: {tool}: its hash is not that of what it says: the file was changed by hand",
                    hint="write it again: capset mcp lock FILE",
                )
            found[server][tool] = shape
    return found


async def import_lock(kernel: Kernel, locked: Locked, by: Actor) -> Sequence[ToolPin]:
    """Make the pins of the servers in a lock file as it says, in the name of one who approves it; it is on record.

    Returns the pins that were added or changed. Pins of other servers stay as they are.
    """
    changed: list[ToolPin] = []
    for server, tools in locked.items():
        known = {one.tool: one for one in await kernel.store.pins.list(server)}
        now = kernel.now()
        pins = [
            ToolPin(server, tool, digest(shape), canonical(shape).decode(), by.id, now) for tool, shape in tools.items()
        ]
        add = [one for one in pins if one.tool not in known or known[one.tool].hash != one.hash]
        gone = sorted(known.keys() - tools.keys())
        if add or gone:
            about = {"server": server, "tools": {one.tool: one.hash for one in add} | dict.fromkeys(gone)}
            await kernel.store.pins.change(server, add, gone, act=kernel.act("mcp.approve", about, by=by))
        changed += add
    return changed


def _mapping(what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(f"this is no lock file: {what} must be an object", hint=_HINT)
    return cast("dict[str, Any]", value)

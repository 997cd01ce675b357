"""What hashes cover, on the wire (spec 2, F1–F9; spec 5, P12)."""

from __future__ import annotations

from typing import Any

from capset.wire.code import CodeShape, ToolsCodeShape
from capset.wire.lineage import RefShape
from capset.wire.shapes import Shape


class FingerprintShape(Shape):
    """What a hash covers: SHA-256 of the payload's canonical JSON gives the hash again, by the profile named.

    ``code`` says whose code it is, where the kind is ``code`` and the server runs that code itself.
    """

    hash: str
    profile: str
    kind: str
    payload: dict[str, Any]
    code: CodeShape | None = None


class InstalledCapability(Shape):
    """A capability that is installed, and its tools, those of all its presets, by name.

    Its hash is that which it has in an agent that chooses nothing of it.
    """

    id: str
    hash: str
    tools: list[RefShape]


class InstalledShape(Shape):
    """The capabilities that are installed, by id, with their hashes by the profile named, and the code behind them.

    A tool is named ``capability.tool`` there.
    """

    profile: str
    capabilities: list[InstalledCapability]
    code: list[ToolsCodeShape]

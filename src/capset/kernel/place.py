"""Where calls happen: one session, as one block of it sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capset.composition.bubbling import Data
from capset.definitions.blocks import Block
from capset.definitions.principals import Principal
from capset.errors import StateError
from capset.evaluation.snapshot import Snapshot
from capset.kernel.files import SessionFiles
from capset.kernel.terms import Terms
from capset.kernel.world import World
from capset.stores.base import ScopeKey, StoredScope

if TYPE_CHECKING:
    from capset.kernel.invocation import Roads

Credential = Callable[[], Awaitable[bool]]
"""Says whether a caller would still be let in, such as by an API key that was not revoked."""


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """One session's id, snapshot, roads and files, its data, and the kernel's world around it.

    ``data`` are the resources and state of the session's root; ``others`` are the places that its dynamic ``uses`` and
    the blocks inside have led to so far, by what told them apart.
    """

    id: str
    world: World
    snapshot: Snapshot
    roads: Roads
    files: SessionFiles
    data: Data
    others: dict[Any, Place] = field(default_factory=dict[Any, "Place"])
    terms: Terms | None = None
    """The limits and budgets of the session, beside those of its tools."""

    @property
    def block(self) -> Block:
        """The agent, or the block, that this place is of."""
        return self.snapshot.composition.block

    @property
    def principal(self) -> Principal:
        """Who acts."""
        return self.snapshot.principal

    @property
    def env(self) -> Mapping[str, Any]:
        """What the host said of this environment, in values of its own."""
        return self.snapshot.env

    def key(self, scope: StoredScope, name: str) -> ScopeKey:
        """Return where a value of a scope is kept. Raises ``StateError`` for a scope that is not there (C33)."""
        who = self.principal
        match scope:
            case "session":
                return ScopeKey(scope, who.org, self.id, name)
            case "user":
                if who.kind != "user":
                    raise StateError(f"there is no user scope here: {who.id!r} is a principal of the kind {who.kind}")
                return ScopeKey(scope, who.org, who.id, name)
            case "org":
                if who.org is None:
                    raise StateError(f"there is no org scope here: {who.id!r} belongs to no org")
                return ScopeKey(scope, who.org, who.org, name)

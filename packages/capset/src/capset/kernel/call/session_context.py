"""The context in which calls run: one session, as one of its blocks sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capset.composition.compose import SessionData
from capset.definitions.blocks import Block
from capset.definitions.principals import Principal
from capset.errors import StateError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.fair_slots import owner_of
from capset.kernel.governance.quotas import SessionLimits, SessionWindows
from capset.kernel.runtime import KernelRuntime
from capset.kernel.state.files import SessionFiles
from capset.stores.base import ScopeKey, StoredScope

if TYPE_CHECKING:
    from capset.definitions.calls.records import Columns
    from capset.kernel.call.compiled_tools import CompiledTool, CompiledTools


@dataclass(frozen=True, eq=False, slots=True)
class SessionContext:
    """One session's id, snapshot, compiled tools, files and data, and the runtime of its kernel.

    ``data`` holds the resources and the state of the session's root. ``child_contexts`` caches the contexts of its
    dynamic ``uses`` and inner blocks, by their identity.
    """

    id: str
    runtime: KernelRuntime
    snapshot: Snapshot
    compiled: CompiledTools
    files: SessionFiles
    data: SessionData
    child_contexts: dict[Any, SessionContext] = field(default_factory=dict[Any, "SessionContext"])
    windows: dict[object, SessionWindows] = field(default_factory=dict[object, SessionWindows])
    """The in-process windows that its calls count in, keyed by the ``CallLimits`` of their tools."""
    record_columns: dict[CompiledTool, Columns] = field(default_factory=dict["CompiledTool", "Columns"])
    """The record columns that are the same for every call of a tool."""
    limits: SessionLimits | None = None
    """The limits and budgets of the session itself, in addition to those of its tools."""
    allows_plain_calls: bool = field(init=False)
    """Whether calls here may be plain calls (``plain_calls``): the session itself adds no step to them."""
    enclosing_agent: Block | None = None
    """The session's agent, if the block of this context is inside it or has dynamic additions."""

    def __post_init__(self) -> None:
        snapshot = self.snapshot
        is_refused = self.runtime.governance.require_auth and snapshot.principal.kind == "anonymous"
        is_plain = self.limits is None and not is_refused and not snapshot.hooks.on_policy_evaluated
        object.__setattr__(self, "allows_plain_calls", is_plain)

    @property
    def agent(self) -> Block:
        """The agent of the session: the outermost block."""
        return self.enclosing_agent or self.block

    @property
    def block(self) -> Block:
        """The agent, or the block, of this context."""
        return self.snapshot.composition.block

    @property
    def principal(self) -> Principal:
        """The acting principal."""
        return self.snapshot.principal

    @property
    def env(self) -> Mapping[str, Any]:
        """The host's own values for this environment."""
        return self.snapshot.env

    def in_thread(
        self,
        function: Callable[[], Any],
        stop: Callable[[], object] | None = None,
        begin: Callable[[], object] | None = None,
    ) -> Awaitable[Any]:
        """Run a function as ``Threads.run`` does, in a thread that counts towards the principal's share."""
        return self.runtime.threads.run(owner_of(self.principal), function, stop, begin)

    def key(self, scope: StoredScope, name: str) -> ScopeKey:
        """Return the key of a scope's value. Raises ``StateError`` if the scope does not exist here."""
        principal = self.principal
        match scope:
            case "session":
                return ScopeKey(scope, principal.org, self.id, name)
            case "user":
                if principal.kind != "user":
                    raise StateError(
                        f"there is no user scope here: {principal.id!r} is a principal of the kind {principal.kind}"
                    )
                return ScopeKey(scope, principal.org, principal.id, name)
            case "org":
                if principal.org is None:
                    raise StateError(f"there is no org scope here: {principal.id!r} belongs to no org")
                return ScopeKey(scope, principal.org, principal.org, name)

"""What a handler is given beside its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from pydantic import BaseModel, SecretStr
from typing_extensions import TypeVar

from capset.definitions.data import DocumentsHandle, ResourceHandle, StateHandle
from capset.definitions.files import Files
from capset.definitions.principals import Principal
from capset.definitions.resources import Documents, Resource

if TYPE_CHECKING:
    from capset.definitions.capabilities import Capability
    from capset.definitions.references import CapabilityRef
    from capset.definitions.scopes import Scope
    from capset.definitions.tools import Tool

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
H = TypeVar("H")
C = TypeVar("C")


class ScopeView(Protocol):
    """One scope as a handler sees it."""

    @property
    def id(self) -> str:
        """The id of the session, the user or the org; of the run, for the scope ``request``."""
        ...

    @property
    def state(self) -> Any:  # of the model that all capabilities' fields are joined in
        """The state as it was when the call began, with what it and those who made it have written since.

        Read it by attribute.

        Raises ``StateError`` where nothing declares state for this scope.
        """
        ...

    @property
    def resources(self) -> Any:  # each resource has a type of its own
        """The scope's resources by name, each with the operations of ``ctx.resource(…)``."""
        ...


class Context(Protocol):
    """The world of one call: who acts, where, and what else is at hand. Ask for it as a handler's first parameter."""

    @property
    def principal(self) -> Principal:
        """Who acts."""
        ...

    @property
    def session(self) -> ScopeView:
        """The session that the call belongs to."""
        ...

    @property
    def user(self) -> ScopeView:
        """The user who acts. Raises ``StateError`` where it is no user."""
        ...

    @property
    def org(self) -> ScopeView:
        """The org of the principal. Raises ``StateError`` where there is none."""
        ...

    @property
    def request(self) -> ScopeView:
        """The run: one call from outside with all that it calls, or one run of a block."""
        ...

    @property
    def correlation(self) -> str:
        """The id that ties this call to whatever caused it."""
        ...

    @property
    def now(self) -> datetime:
        """The time by the kernel's clock, aware, in UTC: that of records, and of tests that set it."""
        ...

    @property
    def env(self) -> Mapping[str, Any]:
        """What the host said of this environment; its values are the host's own."""
        ...

    @property
    def files(self) -> Files:
        """The session's files."""
        ...

    @property
    def result_bytes(self) -> int:
        """How many bytes of a result, as JSON, a model is given. A tool that can give parts keeps its own below (G26).

        It is the same for every caller, so that a call gives the same through every door.
        """
        ...

    @property
    def workspace(self) -> Path | None:
        """The one folder of the host's that tools may read, resolved; ``None`` where the kernel has none."""
        ...

    @property
    def cap(self) -> Any:  # every capability's helpers have a type of their own
        """The helpers by capability name, untyped: ``ctx.cap.memory``, ``ctx.cap["storage:session"]``."""
        ...

    @property
    def targets(self) -> Mapping[str, StateHandle[Any] | None]:
        """The state of enclosing or earlier blocks, by the names in ``targets``; ``None`` for one that is not there."""
        ...

    def use(self, capability: Capability[H, Any] | CapabilityRef[H, Any], /) -> H:
        """Return a capability's helpers, made once per execution. They are code, not tools: nothing governs them.

        Raises ``NotFound`` for a capability that is not part of this composition, or has no helpers.
        """
        ...

    def config(self, capability: Capability[Any, C] | CapabilityRef[Any, C], /) -> C:
        """Return a capability's config, as the reference in ``uses`` gave it, or its defaults."""
        ...

    def presets(self, capability: Capability[Any, Any] | CapabilityRef[Any, Any], /) -> frozenset[str]:
        """Return the names of a capability's presets that are on here."""
        ...

    def state(self, model: type[M], /, *, scope: Scope | None = None) -> StateHandle[M]:
        """Return the operations on a scope's state as this model sees it; ``scope`` where it stands in several."""
        ...

    def resource(self, resource: Resource[T], /) -> ResourceHandle[T]:
        """Return the operations on a resource. Raises ``StateError`` for one that this composition has not."""
        ...

    def documents(self, documents: Documents, /) -> DocumentsHandle:
        """Return the operations on a collection of texts. Raises ``StateError`` as ``resource`` does."""
        ...

    async def secret(self, name: str, /) -> SecretStr:
        """Return a secret by its name. Raises ``ToolError`` for one that nothing declares, or nothing provides."""
        ...

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another tool of this agent, through the whole road, as the same principal (spec 1, C31)."""
        ...

"""The operations on data with a scope, as handlers see them (spec 1, C34)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from pydantic import BaseModel, SecretStr
from typing_extensions import TypeVar

from capset.definitions.files import Files
from capset.definitions.principals import Principal
from capset.definitions.resources import Documents, Resource

if TYPE_CHECKING:
    from capset.definitions.capabilities import Capability
    from capset.definitions.references import CapabilityRef
    from capset.definitions.resources import Scope
    from capset.definitions.tools.definition import Tool

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
T_in = TypeVar("T_in")


class ResourceHandle(Protocol[T]):
    """One resource. Every operation validates what it reads and what it writes, and returns the value as it is then.

    ``patch``, ``increment`` and ``push`` are one write transaction each. ``set`` and ``update`` compare and swap until
    the call's deadline (30 s where there is none), then raise ``ConcurrentModificationError``. Each raises
    ``StateError`` for a value that does not fit, ``StoredValueMisfit`` for a stored one that does not fit any more.
    """

    async def get(self) -> T:
        """Return the value; the default where there is none yet."""
        ...

    async def set(self, value: T) -> T:
        """Replace the value."""
        ...

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> T:
        """Replace some fields of an object, or some keys of a mapping; values of the fields' own types."""
        ...

    async def increment(self, field: str | None = None, by: float = 1) -> T:
        """Add to a number, or to a field that is one; a missing number is 0."""
        ...

    async def push(self, *items: Any, field: str | None = None) -> T:
        """Append to a list, or to a field that is one; a missing list is empty."""
        ...

    async def update(self, change: Callable[[T], T | Awaitable[T]]) -> T:
        """Replace the value by what a function makes of it; the function may run more than once."""
        ...

    async def delete(self) -> bool:
        """Delete the value, and return whether there was one."""
        ...


class StateHandle(Protocol[M]):
    """The state of one scope as one model sees it: other fields stay as they are. See ``ResourceHandle`` too."""

    async def get(self) -> M:
        """Return the model's fields; the defaults where nothing is stored yet."""
        ...

    async def set(self, value: M) -> M:
        """Replace every field of the model."""
        ...

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> M:
        """Replace some fields."""
        ...

    async def increment(self, field: str, by: float = 1) -> M:
        """Add to a field that is a number; a missing number is 0."""
        ...

    async def push(self, *items: Any, field: str) -> M:
        """Append to a field that is a list; a missing list is empty."""
        ...

    async def update(self, change: Callable[[M], M | Awaitable[M]]) -> M:
        """Replace the model's fields by what a function makes of them; the function may run more than once."""
        ...

    async def delete(self) -> bool:
        """Delete the model's fields, and return whether any was stored."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a collection; ``id`` is a UUIDv7, ``created_at`` ISO 8601 UTC."""

    id: str
    text: str
    created_at: str


class DocumentsHandle(Protocol):
    """One collection of texts."""

    async def add(self, text: str) -> Document:
        """Keep a text and return it with its id."""
        ...

    async def get(self, id: str) -> Document | None:
        """Return a text, or ``None``."""
        ...

    async def recent(self, limit: int = 10, *, before: str | None = None) -> list[Document]:
        """Return the newest texts first, at most ``limit`` (1–1,000); ``before`` is the id that they end before."""
        ...

    async def search(self, query: str, limit: int = 10) -> list[Document]:
        """Return the texts that hold a word of the query, or one that begins with it: the best first, then newer."""
        ...

    async def delete(self, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        ...


P = ParamSpec("P")
R = TypeVar("R")
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

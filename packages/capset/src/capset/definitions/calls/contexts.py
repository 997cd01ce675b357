"""The context of a call, and the operations on scoped data, as handlers see them (spec 1, C34)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from pydantic import BaseModel, SecretStr
from typing_extensions import TypeVar

from capset.definitions.calls.clients import ClientAnswer
from capset.definitions.calls.files import Files
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
    """One resource. Every operation validates what it reads and writes, and returns the resulting value.

    ``patch``, ``increment`` and ``push`` are one write transaction each. ``set`` and ``update`` repeat a
    compare-and-swap until the call's deadline (30 s if it has none), then raise ``ConcurrentModificationError``. Each
    raises ``StateError`` for an invalid value, and ``StoredValueMisfit`` for a stored value that no longer matches the
    type.
    """

    async def get(self) -> T:
        """Return the value, or the default if none is stored yet."""
        ...

    async def set(self, value: T) -> T:
        """Replace the value."""
        ...

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> T:
        """Replace some fields of an object, or some keys of a mapping; values have the fields' own types."""
        ...

    async def increment(self, field: str | None = None, by: float = 1) -> T:
        """Add to a number, or to a numeric field; a missing number is 0."""
        ...

    async def push(self, *items: Any, field: str | None = None) -> T:
        """Append to a list, or to a list field; a missing list is empty."""
        ...

    async def update(self, change: Callable[[T], T | Awaitable[T]]) -> T:
        """Replace the value with the result of ``change(value)``, which may be called more than once."""
        ...

    async def delete(self) -> bool:
        """Delete the value, and return whether one was stored."""
        ...


class StateHandle(Protocol[M]):
    """The state of one scope through one model; other fields stay unchanged. See also ``ResourceHandle``."""

    async def get(self) -> M:
        """Return the model's fields, or the defaults if nothing is stored yet."""
        ...

    async def set(self, value: M) -> M:
        """Replace every field of the model."""
        ...

    async def patch(self, changes: Mapping[str, Any] | None = None, /, **fields: Any) -> M:
        """Replace some fields."""
        ...

    async def increment(self, field: str, by: float = 1) -> M:
        """Add to a numeric field; a missing number is 0."""
        ...

    async def push(self, *items: Any, field: str) -> M:
        """Append to a list field; a missing list is empty."""
        ...

    async def update(self, change: Callable[[M], M | Awaitable[M]]) -> M:
        """Replace the model's fields with those of ``change(model)``, which may be called more than once."""
        ...

    async def delete(self) -> bool:
        """Delete the model's fields, and return whether any were stored."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """One text of a collection; ``id`` is a UUIDv7, ``created_at`` ISO 8601 UTC."""

    id: str
    text: str
    created_at: str


class DocumentsHandle(Protocol):
    """One collection of texts."""

    async def add(
        self, text: str, *, unless: Callable[[Sequence[Document]], Document | None] | None = None
    ) -> Document:
        """Store a text and return it with its id.

        ``unless`` is called with all texts, newest first. If it returns one of them, that one is returned and nothing
        is stored; if it raises, nothing is stored and the exception propagates. No other call, in any process, adds a
        text between the return of ``unless`` and the write. ``unless`` may be called more than once.
        """
        ...

    async def get(self, id: str) -> Document | None:
        """Return a text, or ``None``."""
        ...

    async def recent(self, limit: int = 10, *, before: str | None = None) -> list[Document]:
        """Return at most ``limit`` (1–1,000) texts, newest first; with ``before``, only those older than that id."""
        ...

    async def search(self, query: str, limit: int = 10) -> list[Document]:
        """Return texts that contain a word of the query, or a word starting with one: best match first, then newest."""
        ...

    async def delete(self, id: str) -> bool:
        """Delete a text, and return whether it existed."""
        ...


P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H")
C = TypeVar("C")
Helpers_co = TypeVar("Helpers_co", covariant=True, default=Any)
"""The type of ``ctx.cap``: a protocol with the helpers that an agent has (``helper_types``)."""


class ScopeView(Protocol):
    """One scope as a handler sees it."""

    @property
    def id(self) -> str:
        """The id of the session, the user or the org; for the scope ``request``, that of the run."""
        ...

    @property
    def state(self) -> Any:  # of the model that all capabilities' fields are joined in
        """The state as of the start of the call, plus the writes since then of this call and its callers.

        Read it by attribute. Raises ``StateError`` if nothing declares state for this scope.
        """
        ...

    @property
    def resources(self) -> Any:  # each resource has a type of its own
        """The scope's resources by name, each with the operations of ``ctx.resource(…)``."""
        ...


class Context(Protocol[Helpers_co]):
    """The context of one call: the principal, its scopes, and more. Declare it as a handler's first parameter.

    ``Context[NotesHelpers]`` gives ``ctx.cap`` a type, for type checkers only; without it, ``ctx.cap`` is untyped.
    """

    @property
    def principal(self) -> Principal:
        """The principal of the call."""
        ...

    @property
    def session(self) -> ScopeView:
        """The session that the call belongs to."""
        ...

    @property
    def user(self) -> ScopeView:
        """The user of the call. Raises ``StateError`` if the principal is not a user."""
        ...

    @property
    def org(self) -> ScopeView:
        """The org of the principal. Raises ``StateError`` if it has none."""
        ...

    @property
    def request(self) -> ScopeView:
        """The run: one call from outside with all calls that it makes, or one run of a block."""
        ...

    @property
    def correlation(self) -> str:
        """The id that ties this call to its cause."""
        ...

    @property
    def message_id(self) -> str:
        """The id of the message that this call handles; the causation of everything that the call emits.

        In a duplex stream, it is the id of the last message received. A call without a message is its own cause: the id
        is that of its record.
        """
        ...

    @property
    def now(self) -> datetime:
        """The current time, aware, in UTC, by the kernel's clock: the one that records use, and that tests can set."""
        ...

    @property
    def env(self) -> Mapping[str, Any]:
        """The host's values for this environment, by name; their types are up to the host."""
        ...

    @property
    def files(self) -> Files:
        """The session's files."""
        ...

    @property
    def result_bytes(self) -> int:
        """The maximum size of a result for a model, in bytes of JSON. A tool that can return parts stays below it.

        It is the same for every caller, so that a call returns the same through every interface.
        """
        ...

    @property
    def workspace(self) -> Path | None:
        """The only folder of the host that tools may read, resolved; ``None`` if the kernel has none."""
        ...

    @property
    def cap(self) -> Helpers_co:
        """The helpers by capability name: ``ctx.cap.memory``, ``ctx.cap["storage:session"]``."""
        ...

    @property
    def targets(self) -> Mapping[str, StateHandle[Any] | None]:
        """The state of enclosing or earlier blocks, by the names in ``targets``; ``None`` for a missing block."""
        ...

    def use(self, capability: Capability[H, Any] | CapabilityRef[H, Any], /) -> H:
        """Return a capability's helpers, made once per execution. They are code, not tools, and not governed.

        Raises ``NotFound`` for a capability that is not part of this composition, or has no helpers.
        """
        ...

    def config(self, capability: Capability[Any, C] | CapabilityRef[Any, C], /) -> C:
        """Return a capability's config: the one set by the reference in ``uses``, or its defaults."""
        ...

    def presets(self, capability: Capability[Any, Any] | CapabilityRef[Any, Any], /) -> frozenset[str]:
        """Return the names of a capability's presets that are on in this composition."""
        ...

    def state(self, model: type[M], /, *, scope: Scope | None = None) -> StateHandle[M]:
        """Return the operations on a scope's state through this model; give ``scope`` if several scopes have it."""
        ...

    def resource(self, resource: Resource[T], /) -> ResourceHandle[T]:
        """Return the operations on a resource. Raises ``StateError`` if this composition does not have it."""
        ...

    def documents(self, documents: Documents, /) -> DocumentsHandle:
        """Return the operations on a collection of texts. Raises ``StateError`` as ``resource`` does."""
        ...

    async def secret(self, name: str, /) -> SecretStr:
        """Return a secret by name. Raises ``ToolError`` if it is not declared, or not provided."""
        ...

    async def credential(self, *, refused: SecretStr | None = None) -> SecretStr:
        """Return the credential of the calling user that this tool declares (``@tool(credential="github")``).

        ``refused`` is one that the server has just refused, so that it is renewed. Raises ``ToolError`` if the tool
        declares none or it cannot be renewed, and ``TransientError`` if the provider cannot be reached.
        """
        ...

    async def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call another tool of this agent, through the whole pipeline, as the same principal."""
        ...

    async def ask_client(self, key: str, message: str, form: type[M], /) -> ClientAnswer[M]:
        """Ask the person behind the client that made this call, and return the answer.

        ``form`` is a pydantic model of texts, numbers, booleans and choices; ``key`` identifies the question within the
        call. Over MCP, the call ends here, and the client repeats it with the answer: the handler starts again, and
        gets the answer when it reaches this line. So ask before anything that has an effect. Raises
        ``ClientCapabilityMissing`` if the caller cannot be asked, and ``DefinitionError`` for a model that cannot be a
        form.
        """
        ...

    def require_client(self, *capabilities: str) -> None:
        """Raise ``ClientCapabilityMissing`` unless the client of this call has these capabilities, in MCP's terms.

        A dot leads to a nested one: ``"elicitation.url"``, ``"extensions.io.modelcontextprotocol/ui"``.
        """
        ...

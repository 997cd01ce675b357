"""Executions: direct calls and runs of blocks, with the helpers and data that they share with nested ones.

Nested executions inherit these (spec 1, C9, C30); only writes propagate back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol

from pydantic import BaseModel

from capset.composition.resolve import CapabilityUse
from capset.definitions.blocks import Block
from capset.definitions.calls.clients import CallClient
from capset.definitions.capabilities import AnyCapability, Capability
from capset.definitions.credentials import LentCredential
from capset.definitions.references import AnyRef, CapabilityRef
from capset.definitions.resources import AnyResource, Documents, Resource, Scope
from capset.errors import DefinitionError, NotFound, StateError, ToolError, unknown
from capset.evaluation.containment import is_contained
from capset.kernel.call.session_context import SessionContext
from capset.kernel.revocation import Credential
from capset.kernel.state.codecs import ResourceCodec, StateCodec
from capset.kernel.state.documents import DocumentCollection
from capset.kernel.state.files import SessionFiles
from capset.kernel.state.values import Cell, FieldHandle, Handle, RunData, StoredCell
from capset.stores.base import Quota, StateRow, StoredScope, TurnHold

_log = logging.getLogger("capset.kernel")
_STATE: Final = "state"
"""The name of the row with a scope's state; a resource has ``resource:NAME``."""
STORED: Final[tuple[StoredScope, ...]] = ("session", "user", "org")
"""The scopes that the store keeps."""


class CallOptions(NamedTuple):
    """Options of a call or of a run of a block. Most calls of a session share one instance.

    A nested call inherits the deadline, the quota, the turn, ``defers_approval`` and the credential.
    """

    deadline: float | None = None
    """In the event loop's time."""
    quota: Quota | None = None
    """That of the run that it belongs to, if the run has a budget."""
    hold: TurnHold | None = None
    """That of the turn that it belongs to."""
    defers_approval: bool = False
    """Whether a call that needs approval is refused, to be repeated later, instead of waiting."""
    credential: Credential | None = None
    """The caller's credential, which may be revoked; ``None`` for a host's own sessions."""
    approval: str | None = None
    """The id of an approval request that was approved, according to the caller."""
    consumer_timeout: float | None = None
    """Seconds that the call may wait for its consumer."""
    traceparent: str | None = None
    """The caller's span."""
    cause: tuple[str, str] | None = None
    """The correlation and the id of its cause."""
    depth: int = 0
    """The number of calls and runs that it is nested in."""
    parent: Execution | None = None
    """The execution that started it."""
    client: CallClient | None = None
    """The client that made it, if it can be asked questions. A call by ``ctx.call`` inherits its caller's client."""


NO_OPTIONS: Final = CallOptions()


class Origin(Protocol):
    """The owner of an execution: a call, or a run of a block."""

    execution: Execution | None
    """Its execution, created on first use."""

    @property
    def options(self) -> CallOptions:
        """How it was made."""
        ...

    @property
    def context(self) -> SessionContext:
        """Its session context."""
        ...

    @property
    def files(self) -> SessionFiles:
        """The session's files, as its handler sees them."""
        ...

    @property
    def id(self) -> str:
        """Its UUIDv7."""
        ...

    @property
    def child_causation(self) -> str:
        """The causation id of the calls that it makes."""
        ...

    async def lend(self, refused: str | None) -> LentCredential:
        """Return the credential of its user, another one than ``refused``. Raises ``ToolError`` if it has none."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it has ended, so that it has no credential any more."""
        ...

    @property
    def correlation(self) -> str:
        """The id that ties it to its cause."""
        ...


class _BuiltHelpers(NamedTuple):
    """Helpers, and the config that they were built with."""

    config: Any  # of the capability's own model
    helpers: Any  # of the capability's own type


class Execution:
    """The helpers built and the data read so far by one call or one run of a block."""

    __slots__ = (
        "_build_lock",
        "_earlier_siblings",
        "_ended_runs",
        "_helpers",
        "_in_construction",
        "_rows",
        "block",
        "origin",
        "parent",
        "run",
    )

    def __init__(self, origin: Origin, block: Block | None = None) -> None:
        """``block`` is the block of a run; ``None`` for a call."""
        self.origin = origin
        self.parent = origin.options.parent
        self.block = block
        self.run = self.parent.run if self.parent is not None else RunData()
        self._ended_runs: list[Execution] = []
        """Ended inner runs of blocks with a state of their own, in order."""
        self._earlier_siblings = tuple(self.parent._ended_runs) if self.parent is not None else ()
        """Sibling runs that had ended when it began."""
        self._helpers: dict[AnyCapability, _BuiltHelpers] = {}
        self._in_construction: list[AnyCapability] = []
        """Capabilities whose helpers are being made, each needed by the one before it."""
        self._build_lock = RLock()
        self._rows: dict[Scope, StateRow] = {}

    @property
    def context(self) -> SessionContext:
        """Its session context."""
        return self.origin.context

    def capability_use(self, reference: Capability[Any, Any] | AnyRef) -> CapabilityUse:
        """Return how a capability is used here. Raises ``NotFound`` if it is not used at all."""
        capability = reference.base if isinstance(reference, CapabilityRef) else reference
        choice = self.context.snapshot.composition.by_capability.get(capability)
        if choice is None:
            if not isinstance(capability, Capability):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
                raise DefinitionError(f"a Capability was expected; got {capability!r}")
            raise NotFound(
                f"the capability {capability.name!r} is not used by {self.context.block.name!r}", hint="add it to uses"
            )
        return choice

    def use(self, reference: Capability[Any, Any] | AnyRef, context_of: Callable[[Origin], Any]) -> Any:
        """Return a capability's helpers: those of the outermost execution that uses it with the same config.

        All executions nested in that one share them, whichever asks first, and they are built with its context. A
        nested call owns no helpers: those that only it uses belong to the block or the direct call that started it.
        """
        use = self.capability_use(reference)
        capability, make = use.capability, use.capability.helpers
        if make is None:
            raise NotFound(f"the capability {capability.name!r} has no helpers")
        owners = [
            execution for execution in self._ancestry() if execution.block is not None or execution.parent is None
        ]
        using = [execution for execution in owners if execution._shares_capability(use)]
        owner = using[-1] if using else owners[0]
        with owner._build_lock:  # sync handlers call this from threads
            for execution in owners:
                # An execution in between may have built its own before its dynamic uses added what an outer one has.
                built = execution._helpers.get(capability)
                if built is not None and built.config == use.config:
                    return built.helpers
            if capability in owner._in_construction:
                chain = " → ".join(entry.name for entry in (*owner._in_construction, capability))
                raise DefinitionError(
                    f"the helpers of {capability.name!r} depend on themselves: {chain}",
                    hint="let one of them call ctx.use() when it needs the other, not while it is built",
                )
            owner._in_construction.append(capability)
            try:
                helpers = make(context_of(owner.origin))
            finally:
                owner._in_construction.pop()
            owner._helpers[capability] = _BuiltHelpers(use.config, helpers)
            return helpers

    def _ancestry(self) -> Iterator[Execution]:
        """Yield this execution and those around it, innermost first."""
        execution: Execution | None = self
        while execution is not None:
            yield execution
            execution = execution.parent

    def _shares_capability(self, use: CapabilityUse) -> bool:
        """Whether this execution has the capability too, with an equal config."""
        choice = self.context.snapshot.composition.by_capability.get(use.capability)
        return choice is not None and choice.capability is use.capability and choice.config == use.config

    async def load(self) -> None:
        """Read the state of all scopes that declare any, so that it can be viewed without waiting."""
        context = self.context
        declared: list[StoredScope] = [
            scope for scope in STORED if scope in context.data.states and has_scope(context, scope)
        ]
        rows = await context.runtime.store.states.read([context.key(scope, _STATE) for scope in declared])
        for scope, row in zip(declared, rows, strict=True):
            self._remember_row(scope, row)

    def view(self, scope: Scope) -> BaseModel:
        """Return a scope's state as last read or written. Raises ``StateError`` if there is none."""
        state = self.context.data.states.get(scope)
        if state is None:
            raise StateError(f"nothing declares state of the {scope} scope here")
        if scope == "request":
            row = self.run.rows.get(_STATE)
            text = row.value if row else None
        else:
            self.context.key(scope, _STATE)
            text = self._newest_row(scope).value
        return StateCodec(scope, state.model, state.model).decode(text)

    def state(self, model: type[BaseModel], scope: Scope | None) -> FieldHandle:
        """Return the operations on the fields of one model. Raises ``StateError`` unless one scope declares it."""
        states = self.context.data.states
        scopes: list[Scope] = [
            candidate for candidate, state in states.items() if model in [declared.value for declared in state.models]
        ]
        matching: list[Scope] = [candidate for candidate in scopes if scope in (None, candidate)]
        if len(matching) != 1:
            model_name = getattr(model, "__name__", repr(model))
            raise StateError(
                f"{model_name} is declared as the state of {' and '.join(scopes) or 'no scope'} here",
                hint="select one with scope=…" if scopes else "add it to state= of the capability or block",
            )
        (state_scope,) = matching
        codec = StateCodec(state_scope, states[state_scope].model, model)
        return FieldHandle(
            self._cell(state_scope, _STATE),
            codec,
            self.context.in_thread,
            deadline=self.origin.options.deadline,
            on_write=lambda row: self._record_write(state_scope, row),
        )

    def resource(self, resource: Resource[Any]) -> Handle:
        """Return the operations on a resource, as last declared by its name. Raises ``StateError`` unless declared."""
        declared = self._declared(resource)
        if not isinstance(declared, Resource):
            raise StateError(f"{resource!r} is a Resource; here {declared.name!r} are Documents")
        cell = self._cell(declared.scope, f"resource:{declared.name}")
        return Handle(cell, ResourceCodec(declared), self.context.in_thread, deadline=self.origin.options.deadline)

    def documents(self, documents: Documents) -> DocumentCollection:
        """Return the operations on a collection of texts. Raises ``StateError`` unless it is declared."""
        declared, context = self._declared(documents), self.context
        if declared.scope == "request" or not isinstance(declared, Documents):
            raise StateError(f"{documents!r} are Documents; here {declared.name!r} is a Resource")
        return DocumentCollection(
            context.runtime, context.key(declared.scope, declared.name), deadline=self.origin.options.deadline
        )

    def resources(self, scope: Scope) -> dict[str, AnyResource | Documents]:
        """Return the resources of a scope, by name."""
        return {
            name: contributed.value for (of, name), contributed in self.context.data.resources.items() if of == scope
        }

    def target(self, name: str, model: type[BaseModel]) -> FieldHandle | None:
        """Return the operations on the state of an enclosing or earlier block, or ``None``."""
        for ancestor in self._ancestry():
            for execution in (ancestor, *reversed(ancestor._earlier_siblings)):
                if execution.block is not None and execution.block.name == name and execution._has_state:
                    return execution._sequencer_state(model)
        return None

    def record_ended(self, ended: Execution) -> None:
        """Make the state of an ended block available to later ones, including those run by other calls of the block."""
        if not ended._has_state:
            return
        for ancestor in self._ancestry():
            ancestor._ended_runs.append(ended)
            if ancestor.block is not None:
                break

    @property
    def _has_state(self) -> bool:
        return self.context.snapshot.composition.merged.sequencer_state is not None

    def _sequencer_state(self, model: type[BaseModel]) -> FieldHandle:
        state = self.context.snapshot.composition.merged.sequencer_state
        assert state is not None  # noqa: S101  # only called for those that have one
        codec = StateCodec("sequencer", state.model if issubclass(state.model, model) else model, model)
        cell, deadline = self.run.cell(f"block:{self.origin.id}"), self.origin.options.deadline
        return FieldHandle(cell, codec, self.context.in_thread, deadline=deadline)

    def _declared(self, resource: AnyResource | Documents) -> AnyResource | Documents:
        data = self.context.data
        if resource not in data.declared_resources:
            names = [name for _, name in data.resources]
            problem = unknown("resource", getattr(resource, "name", repr(resource)), names)
            raise StateError(f"{problem}; nothing used here declares it", hint="add it to resources=")
        return data.resources[resource.scope, resource.name].value

    def _cell(self, scope: Scope, name: str) -> Cell:
        if scope == "request":
            return self.run.cell(name)
        return StoredCell(self.context.runtime, self.context.key(scope, name))

    def _record_write(self, scope: Scope, row: StateRow) -> None:
        for execution in self._ancestry():
            execution._remember_row(scope, row)

    def _remember_row(self, scope: Scope, row: StateRow) -> None:
        current = self._rows.get(scope)
        if current is None or row.version >= current.version:  # concurrent writes may be reported out of order
            self._rows[scope] = row

    def _newest_row(self, scope: Scope) -> StateRow:
        """Return the newest row known here or above, since helpers write through the execution that they belong to."""
        rows = [row for execution in self._ancestry() if (row := execution._rows.get(scope)) is not None]
        return max(rows, key=lambda row: row.version)


def has_scope(context: SessionContext, scope: StoredScope) -> bool:
    """Whether the principal has a scope."""
    return {"session": True, "user": context.principal.kind == "user", "org": context.principal.org is not None}[scope]


def no_credential() -> ToolError:
    """Return the error for a handler that asks for a credential which its tool does not declare."""
    return ToolError(
        "this tool declares no credential of its user",
        code="no_credential",
        hint='declare it: @tool(credential="NAME")',
    )


def options_within(origin: Origin) -> CallOptions:
    """Return the options of calls and runs within ``origin``; see ``CallOptions`` for those that are inherited."""
    options = origin.options
    return CallOptions(
        deadline=options.deadline,
        quota=options.quota,
        hold=options.hold,
        defers_approval=options.defers_approval,
        credential=options.credential,
        cause=(origin.correlation, origin.child_causation),
        depth=options.depth + 1,
        parent=execution_of(origin),
    )


def execution_of(origin: Origin) -> Execution:
    """Return the execution of a call or a run, created on first use."""
    if origin.execution is None:
        origin.execution = Execution(origin)
    return origin.execution


async def run_for(
    origin: Origin,
    name: str,
    function: Callable[[], Any],
    begin: Callable[[], object] | None = None,
) -> Any:
    """Run a function of the tool or the block ``name`` as ``Threads.run`` does. An abandoned thread is logged."""
    has_begun = False

    def mark_begun() -> None:
        nonlocal has_begun
        has_begun = True
        if begin is not None:
            begin()

    try:
        return await origin.context.in_thread(function, begin=mark_begun)
    except asyncio.CancelledError as error:
        if has_begun and not is_contained(error):
            _log.error("the thread of %r, correlation %s, is abandoned", name, origin.correlation)
        raise

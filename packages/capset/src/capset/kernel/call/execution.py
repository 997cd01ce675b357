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

from capset.composition.resolve import Chosen
from capset.definitions.blocks import Block
from capset.definitions.calls.clients import CallClient
from capset.definitions.capabilities import AnyCapability, Capability
from capset.definitions.references import AnyRef, CapabilityRef
from capset.definitions.resources import AnyResource, Documents, Resource, Scope
from capset.errors import DefinitionError, NotFound, StateError, unknown
from capset.evaluation.containment import is_contained
from capset.kernel.call.session_context import SessionContext
from capset.kernel.revocation import Credential
from capset.kernel.state.codecs import ResourceCodec, StateCodec
from capset.kernel.state.documents import Texts
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

    A nested call inherits the deadline, the quota, the turn, ``defers`` and the credential.
    """

    deadline: float | None = None
    """In the event loop's time."""
    quota: Quota | None = None
    """That of the run that it belongs to, if the run has a budget."""
    hold: TurnHold | None = None
    """That of the turn that it belongs to."""
    defers: bool = False
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
    above: Execution | None = None
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
    def causing(self) -> str:
        """The causation id of the calls that it makes."""
        ...

    @property
    def correlation(self) -> str:
        """The id that ties it to its cause."""
        ...


class _Built(NamedTuple):
    """Helpers, and the config that they were built with."""

    config: Any  # of the capability's own model
    helpers: Any  # of the capability's own type


class Execution:
    """The helpers built and the data read so far by one call or one run of a block."""

    __slots__ = ("_building", "_done", "_earlier", "_helpers", "_making", "_rows", "above", "block", "origin", "run")

    def __init__(self, origin: Origin, block: Block | None = None) -> None:
        """``block`` is the block of a run; ``None`` for a call."""
        self.origin = origin
        self.above = origin.options.above
        self.block = block
        self.run = self.above.run if self.above is not None else RunData()
        self._done: list[Execution] = []
        """Ended inner runs of blocks with a state of their own, in order."""
        self._earlier = tuple(self.above._done) if self.above is not None else ()
        """Sibling runs that had ended when it began."""
        self._helpers: dict[AnyCapability, _Built] = {}
        self._making: list[AnyCapability] = []
        """Capabilities whose helpers are being made, each needed by the one before it."""
        self._building = RLock()
        self._rows: dict[Scope, StateRow] = {}

    @property
    def context(self) -> SessionContext:
        """Its session context."""
        return self.origin.context

    def chosen(self, reference: Capability[Any, Any] | AnyRef) -> Chosen:
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
        chosen = self.chosen(reference)
        capability, make = chosen.capability, chosen.capability.helpers
        if make is None:
            raise NotFound(f"the capability {capability.name!r} has no helpers")
        owners = [execution for execution in self._upwards() if execution.block is not None or execution.above is None]
        using = [execution for execution in owners if execution._uses(chosen)]
        owner = using[-1] if using else owners[0]
        with owner._building:  # sync handlers call this from threads
            for execution in owners:
                # An execution in between may have built its own before its dynamic uses added what an outer one has.
                built = execution._helpers.get(capability)
                if built is not None and built.config == chosen.config:
                    return built.helpers
            if capability in owner._making:
                chain = " → ".join(entry.name for entry in (*owner._making, capability))
                raise DefinitionError(
                    f"the helpers of {capability.name!r} depend on themselves: {chain}",
                    hint="let one of them call ctx.use() when it needs the other, not while it is built",
                )
            owner._making.append(capability)
            try:
                helpers = make(context_of(owner.origin))
            finally:
                owner._making.pop()
            owner._helpers[capability] = _Built(chosen.config, helpers)
            return helpers

    def _upwards(self) -> Iterator[Execution]:
        above: Execution | None = self
        while above is not None:
            yield above
            above = above.above

    def _uses(self, chosen: Chosen) -> bool:
        """Whether this execution has the capability too, with an equal config."""
        choice = self.context.snapshot.composition.by_capability.get(chosen.capability)
        return choice is not None and choice.capability is chosen.capability and choice.config == chosen.config

    async def load(self) -> None:
        """Read the state of all scopes that declare any, so that it can be viewed without waiting."""
        context = self.context
        declared: list[StoredScope] = [
            scope for scope in STORED if scope in context.data.states and is_there(context, scope)
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
            text = self._newest(scope).value
        return StateCodec(scope, state.model, state.model).decode(text)

    def state(self, model: type[BaseModel], scope: Scope | None) -> FieldHandle:
        """Return the operations on the fields of one model. Raises ``StateError`` unless one scope declares it."""
        states = self.context.data.states
        scopes: list[Scope] = [
            candidate for candidate, state in states.items() if model in [declared.value for declared in state.models]
        ]
        matching: list[Scope] = [candidate for candidate in scopes if scope in (None, candidate)]
        if len(matching) != 1:
            named = getattr(model, "__name__", repr(model))
            raise StateError(
                f"{named} is declared as the state of {' and '.join(scopes) or 'no scope'} here",
                hint="select one with scope=…" if scopes else "add it to state= of the capability or block",
            )
        where = matching[0]
        codec = StateCodec(where, states[where].model, model)
        return FieldHandle(
            self._cell(where, _STATE),
            codec,
            self.context.in_thread,
            deadline=self.origin.options.deadline,
            written=lambda row: self._wrote(where, row),
        )

    def resource(self, resource: Resource[Any]) -> Handle:
        """Return the operations on a resource, as last declared by its name. Raises ``StateError`` unless declared."""
        declared = self._declared(resource)
        if not isinstance(declared, Resource):
            raise StateError(f"{resource!r} is a Resource; here {declared.name!r} are Documents")
        cell = self._cell(declared.scope, f"resource:{declared.name}")
        return Handle(cell, ResourceCodec(declared), self.context.in_thread, deadline=self.origin.options.deadline)

    def documents(self, documents: Documents) -> Texts:
        """Return the operations on a collection of texts. Raises ``StateError`` unless it is declared."""
        declared, context = self._declared(documents), self.context
        if declared.scope == "request" or not isinstance(declared, Documents):
            raise StateError(f"{documents!r} are Documents; here {declared.name!r} is a Resource")
        return Texts(context.runtime, context.key(declared.scope, declared.name), deadline=self.origin.options.deadline)

    def resources(self, scope: Scope) -> dict[str, AnyResource | Documents]:
        """Return the resources of a scope, by name."""
        return {
            name: contributed.value for (of, name), contributed in self.context.data.resources.items() if of == scope
        }

    def target(self, name: str, model: type[BaseModel]) -> FieldHandle | None:
        """Return the operations on the state of an enclosing or earlier block, or ``None``."""
        around: Execution | None = self
        while around is not None:
            for execution in (around, *reversed(around._earlier)):
                if execution.block is not None and execution.block.name == name and execution._has_state:
                    return execution._own_state(model)
            around = around.above
        return None

    def remember(self, ended: Execution) -> None:
        """Make the state of an ended block available to later ones, including those run by other calls of the block."""
        within: Execution | None = self if ended._has_state else None
        while within is not None:
            within._done.append(ended)
            within = within.above if within.block is None else None

    @property
    def _has_state(self) -> bool:
        return self.context.snapshot.composition.merged.sequencer_state is not None

    def _own_state(self, model: type[BaseModel]) -> FieldHandle:
        state = self.context.snapshot.composition.merged.sequencer_state
        assert state is not None  # noqa: S101  # only called for those that have one
        codec = StateCodec("sequencer", state.model if issubclass(state.model, model) else model, model)
        cell, deadline = self.run.cell(f"block:{self.origin.id}"), self.origin.options.deadline
        return FieldHandle(cell, codec, self.context.in_thread, deadline=deadline)

    def _declared(self, resource: AnyResource | Documents) -> AnyResource | Documents:
        data = self.context.data
        if resource not in data.given:
            names = [name for _, name in data.resources]
            problem = unknown("resource", getattr(resource, "name", repr(resource)), names)
            raise StateError(f"{problem}; nothing used here declares it", hint="add it to resources=")
        return data.resources[resource.scope, resource.name].value

    def _cell(self, scope: Scope, name: str) -> Cell:
        if scope == "request":
            return self.run.cell(name)
        return StoredCell(self.context.runtime, self.context.key(scope, name))

    def _wrote(self, scope: Scope, row: StateRow) -> None:
        around: Execution | None = self
        while around is not None:
            around._remember_row(scope, row)
            around = around.above

    def _remember_row(self, scope: Scope, row: StateRow) -> None:
        current = self._rows.get(scope)
        if current is None or row.version >= current.version:  # concurrent writes may be reported out of order
            self._rows[scope] = row

    def _newest(self, scope: Scope) -> StateRow:
        """Return the newest row known here or above, since helpers write through the execution that they belong to."""
        rows: list[StateRow] = []
        around: Execution | None = self
        while around is not None:
            if (row := around._rows.get(scope)) is not None:
                rows.append(row)
            around = around.above
        return max(rows, key=lambda row: row.version)


def is_there(context: SessionContext, scope: StoredScope) -> bool:
    """Whether the principal has a scope."""
    return {"session": True, "user": context.principal.kind == "user", "org": context.principal.org is not None}[scope]


def options_within(origin: Origin) -> CallOptions:
    """Return the options of calls and runs within ``origin``: same deadline, quota, turn, ``defers`` and credential."""
    options = origin.options
    return CallOptions(
        deadline=options.deadline,
        quota=options.quota,
        hold=options.hold,
        defers=options.defers,
        credential=options.credential,
        cause=(origin.correlation, origin.causing),
        depth=options.depth + 1,
        above=execution_of(origin),
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

    def note() -> None:
        nonlocal has_begun
        has_begun = True
        if begin is not None:
            begin()

    try:
        return await origin.context.in_thread(function, begin=note)
    except asyncio.CancelledError as error:
        if has_begun and not is_contained(error):
            _log.error("the thread of %r, correlation %s, is abandoned", name, origin.correlation)
        raise

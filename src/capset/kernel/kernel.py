"""The kernel: a store, a clock, and the sessions that are opened on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pydantic_core import from_json, to_json
from typing_extensions import Unpack

from capset.clock import Clock, SystemClock, iso
from capset.composition.compose import Composition, compose
from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.governance import Governance
from capset.definitions.limits import Budget, budget_of
from capset.definitions.messages import Message
from capset.definitions.principals import Principal
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError, NotFound
from capset.evaluation.code import is_read, read_code
from capset.evaluation.evaluate import Labels, evaluate
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.agent_definition import definition_of
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.call.compilation import compile_tools
from capset.kernel.call.compiled_tools import CompiledTools
from capset.kernel.call.pipeline import record_ended
from capset.kernel.call.session import Session
from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.stages.identify import ANONYMOUS
from capset.kernel.governance.approvals import ApprovalService
from capset.kernel.governance.checkpoints import Checkpoints, keep_checkpoints, make_checkpoint
from capset.kernel.governance.quotas import SessionLimits, session_limits
from capset.kernel.governance.redaction import Redactor, redactor_of
from capset.kernel.runtime import EnvironmentSecrets, KernelRuntime
from capset.kernel.state.files import SessionFiles
from capset.kernel.streams.dispatcher import Serving
from capset.kernel.telemetry.observers import Observer, host_observers
from capset.stores.base import AuditLog, SessionRow, Store, make_store

CACHED: Final = 1000
"""How many compositions a kernel keeps, the most recently used ones."""
AT_ONCE: Final = 100
"""How many invocations of one stream run beside each other, unless it is said."""
DRAIN_SECONDS: Final = 5.0
"""How long closing waits for running streams before it cancels them."""


class Kernel:
    """The runtime: ``async with Kernel(store="sqlite:///capset.db") as kernel: …``.

    ``store`` is a URL whose scheme an installed store provides (``sqlite:///FILE``, ``memory://``) or a ``Store``.
    ``secrets`` is what ``ctx.secret`` asks, by default the environment; ``generator`` runs the model steps of blocks.
    ``governance`` is what holds for every call; ``workspace`` the one folder of the host's that tools may read.
    ``checkpoints`` signs how far the records have come, and says how long they are kept; none and forever by default.
    ``observers`` are told of every call; by default calls are traced where the host has set up OpenTelemetry.
    Entering opens it and leaving writes what is still to be written; both raise ``StoreError``.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///capset.db",
        *,
        clock: Clock | None = None,
        secrets: Secrets | None = None,
        generator: GeneratorRunner | None = None,
        governance: Governance | None = None,
        workspace: str | Path | None = None,
        checkpoints: Checkpoints | None = None,
        observers: Iterable[Observer] | None = None,
    ) -> None:
        self._checkpoints = checkpoints
        self._observers = None if observers is None else tuple(observers)
        self._governance = governance or Governance()
        redactor_of(self._governance.redact)  # a pattern that is none is refused now, not once the store is open
        self._workspace = None if workspace is None else _folder(workspace)
        self._secrets = secrets or EnvironmentSecrets()
        self._generator = generator
        self._store = make_store(store) if isinstance(store, str) else store
        self._clock = clock or SystemClock()
        self._runtime: KernelRuntime | None = None
        self._compose = lru_cache(CACHED)(compose)
        self._bind = lru_cache(CACHED)(compile_tools)
        self._define = lru_cache(CACHED)(definition_of)

    async def __aenter__(self) -> Self:
        """Open the store."""
        await self._store.open()
        try:
            self._runtime = KernelRuntime(
                self._store,
                self._clock,
                await self._store.audit.digest_key(),
                self._secrets,
                self._generator,
                self._governance,
                self._workspace,
                ApprovalService,
                record_ended,
                host_observers() if self._observers is None else self._observers,
            )
        except BaseException:
            await self._store.close()
            raise
        if self._checkpoints is not None:
            self._runtime.readers.add(self._runtime.spawn(keep_checkpoints(self._runtime, self._checkpoints)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for running calls, then cancel them; write every record; close the store."""
        runtime, self._runtime = self._entered(), None
        try:
            await runtime.drain(DRAIN_SECONDS)
            runtime.refusals.flush()
            if self._checkpoints is not None:
                await make_checkpoint(runtime, self._checkpoints)
        finally:
            await self._store.close()

    @property
    def store(self) -> Store:
        """Everything that is kept; what is done here is not governed, and not on record."""
        return self._entered().store

    @property
    def audit(self) -> AuditLog:
        """The record of every attempt."""
        return self._entered().store.audit

    @property
    def approvals(self) -> ApprovalService:
        """The requests for approvals, for those who decide them."""
        return self._entered().approvals

    @property
    def governance(self) -> Governance:
        """What holds for every call."""
        return self._governance

    @property
    def redactor(self) -> Redactor | None:
        """Masks what the patterns of ``governance.redact`` match, where there are any."""
        return self._entered().redactor

    @property
    def generator(self) -> GeneratorRunner | None:
        """What runs the model steps of blocks, if it was given something that does."""
        return self._generator

    @property
    def abandoned(self) -> int:
        """How many tasks and threads were left behind so far, since they did not end when they were cancelled (K15)."""
        runtime = self._entered()
        return runtime.abandoned + runtime.threads.abandoned

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Who is told of every call."""
        return self._entered().observers

    @contextmanager
    def observe(self, observer: Observer) -> Generator[None]:
        """Tell another observer of the calls that begin while this is entered."""
        runtime = self._entered()
        runtime.observers = (*runtime.observers, observer)
        try:
            yield
        finally:
            runtime.observers = tuple(one for one in runtime.observers if one is not observer)

    def compose(self, root: Block) -> Composition:
        """Return ``compose(root)``, made once for each agent or block that is in use."""
        return self._compose(root)

    def bind(self, composition: Composition) -> CompiledTools:
        """Compile every tool, once for each composition that is in use."""
        return self._bind(composition)

    @property
    def clock(self) -> Clock:
        """The time that everything here goes by."""
        return self._clock

    def now(self) -> str:
        """Return the time by the kernel's clock, ISO 8601 UTC."""
        return iso(self._clock.time_ns())

    def new_id(self) -> str:
        """Return a fresh UUIDv7 by the kernel's clock."""
        return self._entered().ids.new()

    @asynccontextmanager
    async def open(
        self,
        agent: Block,
        *,
        principal: Principal,
        env: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        budget: Budget | None = None,
        **labels: Unpack[Labels],
    ) -> AsyncGenerator[Session]:
        """Open a session of an agent, a flow or another block.

        It is a new one, or the principal's own that ``session_id`` names, with its files and its state.

        ``env`` is what the host says of this environment, in values of its own; policies and handlers read it.
        ``budget`` is what may be used in the session in all, by its calls and by those that they make, in every opening
        of it (G15). It is kept with a new session; of one that is there it can be lowered for this opening, not raised.
        ``labels`` are those of ``evaluate``: ``hooks``, ``invocation``, ``namespace`` and so on, for this opening.
        Raises ``NotFound`` for a session that is not there, not the principal's or not the agent's, and what
        ``compose`` and ``evaluate`` raise.
        """
        check_opening(agent, principal, env)
        if session_id is None:
            row = replace(self.new_session(agent, principal), budget=_written(budget))
            # First, so that a bad agent leaves no session.
            session = await self.enter(row, agent, principal=principal, env=env, budget=budget, **labels)
            await self._entered().store.sessions.create(row)
        else:
            row = await self.find_session(session_id)
            if row is None:
                raise no_session(session_id, principal)
            session = await self.enter(row, agent, principal=principal, env=env, budget=budget, **labels)
        yield session

    async def enter(
        self,
        row: SessionRow,
        agent: Block,
        *,
        principal: Principal,
        env: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        **labels: Unpack[Labels],
    ) -> Session:
        """Return the session that ``row`` keeps, as ``open`` does; for hosts that found or made its row themselves.

        It is for the invocation whose hash the row keeps, unless ``invocation`` names another for this opening.
        """
        _check_owner(row, principal)
        if row.agent != agent.name:
            raise NotFound(f"the session {row.id!r} is one of the agent {row.agent!r}, not of {agent.name!r}")
        snapshot = await self._evaluated(self.compose(agent), principal, env, labels)
        await read_code(snapshot)
        if row.invocation_hash is not None and labels.get("invocation") is None:
            snapshot = replace(snapshot, invocation_hash=row.invocation_hash)
        return self.resume(row, snapshot, budget=budget)

    async def evaluate(
        self,
        composition: Composition,
        *,
        principal: Principal,
        env: Mapping[str, Any] | None = None,
        **labels: Unpack[Labels],
    ) -> Snapshot:
        """Return what a new session would have, without one, and kept nowhere. Raises what ``evaluate`` raises."""
        return self._known(await self._evaluated(composition, principal, env, labels))

    def resume(self, row: SessionRow, snapshot: Snapshot, *, budget: Budget | None = None) -> Session:
        """Return the session that ``row`` keeps with a snapshot that is there already, such as a hydrated one.

        Where everybody must be known, nothing is in play for who is not. Raises ``NotFound`` for a session that is not
        of the snapshot's principal.
        """
        _check_owner(row, snapshot.principal)
        snapshot = self._known(snapshot)
        runtime, composition = self._entered(), snapshot.composition
        files = SessionFiles(runtime, row.id, snapshot.principal.org, composition.mounts)
        is_static = snapshot.plan is plan_of(composition)
        compiled = self.bind(composition) if is_static else compile_tools(composition, snapshot.installed)
        if not is_read(snapshot):
            runtime.spawn(read_code(snapshot))
        terms = self._terms(row, snapshot, budget)
        return Session(SessionContext(row.id, runtime, snapshot, compiled, files, composition.data, terms=terms))

    def _terms(self, row: SessionRow, snapshot: Snapshot, budget: Budget | None) -> SessionLimits | None:
        who, block = snapshot.principal, snapshot.composition.block
        allowances = (
            ("server", self._governance.allowance),
            ("principal", who.allowance),
            ("agent", block.allowance if isinstance(block, Agent) else None),
        )
        kept = None if row.budget is None else budget_of(from_json(row.budget))
        return session_limits(
            row.id, who, agent=block.name, agent_id=row.agent_id, allowances=allowances, budgets=(budget, kept)
        )

    def run(self, session: Session, messages: AsyncIterable[Message], *, limit: int = AT_ONCE) -> Serving:
        """Serve a mixed stream of messages in a session, up to ``limit`` invocations at once; see ``Serving`` (K8)."""
        if limit < 1:
            raise DefinitionError(f"limit must be a number of invocations, 1 or more; got {limit!r}")
        return Serving(self._entered(), session.ask, messages, limit)

    def spawn(self, work: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Start work of the host's own, such as a turn. Closing waits for it, then cancels it, as it does with calls.

        What it raises is nobody's but its own: it should raise nothing.
        """
        task = self._entered().spawn(work)
        task.set_name(name)
        return task

    async def find_session(self, session_id: str) -> SessionRow | None:
        """Return what is kept of a session, or ``None``."""
        runtime = self._entered()
        return await runtime.store.sessions.get(session_id) if session_id.isprintable() else None

    def new_session(self, agent: Block, principal: Principal) -> SessionRow:
        """Return what is to be kept of a new session; ``store.sessions`` keeps it. Raises what ``compose`` raises."""
        return SessionRow(
            id=self.new_id(),
            agent=agent.name,
            definition=self._define(agent),
            static_hash=self.compose(agent).static_hash,
            principal=principal.id,
            principal_kind=principal.kind,
            org=principal.org,
            created_at=self.now(),
            on_behalf_of=principal.on_behalf_of,
        )

    async def _evaluated(
        self, composition: Composition, principal: Principal, env: Mapping[str, Any] | None, labels: Labels
    ) -> Snapshot:
        held = self._governance.default_permissions
        who = principal.with_permissions(held) if held else principal
        return await evaluate(composition, principal=who, env=env, **labels)

    def _known(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with nothing in play for who is not known, where everybody must be."""
        if self._governance.require_auth and snapshot.principal.kind == "anonymous":
            return snapshot.closed(ANONYMOUS)
        return snapshot

    def _entered(self) -> KernelRuntime:
        if self._runtime is None:
            raise CapsetError("the kernel is not open", hint="use it as: async with Kernel(…) as kernel")
        return self._runtime


def _folder(workspace: str | Path) -> Path:
    """Return the workspace, resolved once, so that a later chdir changes nothing."""
    folder = Path(workspace).resolve()
    if not folder.is_dir():
        raise DefinitionError(f"the workspace {str(workspace)!r} is no folder", hint="make it first, or name another")
    return folder


def _written(budget: Budget | None) -> str | None:
    return None if budget is None else to_json(budget.plain()).decode()


def check_opening(agent: object, principal: object, env: object) -> None:
    """Raise ``DefinitionError`` for what no session can be opened with."""
    if not isinstance(agent, Block):
        raise DefinitionError(
            f"a session is opened for an Agent, a Flow or another block; got {agent!r}",
            hint="put a capability into an agent: Agent('name', uses=[…])",
        )
    if not isinstance(principal, Principal):
        raise DefinitionError(f"principal is a Principal, such as Principal('ada'); got {principal!r}")
    if env is not None and not isinstance(env, Mapping):
        raise DefinitionError(f"env is a mapping of names to values; got {env!r}")


def _check_owner(row: SessionRow, principal: Principal) -> None:
    theirs = (row.principal, row.principal_kind, row.org, row.on_behalf_of)
    if theirs != (principal.id, principal.kind, principal.org, principal.on_behalf_of):
        raise no_session(row.id, principal)


def no_session(id: str, principal: Principal) -> NotFound:
    """Return the error of a session that is not there, or not the principal's: nobody is told which."""
    return NotFound(f"there is no session {id!r} of {principal.id!r}")

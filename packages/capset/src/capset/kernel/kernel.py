"""The kernel: a store, a clock, and the sessions opened on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
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
from capset.definitions.calls.messages import Message
from capset.definitions.credentials import CredentialSource
from capset.definitions.governance.acts import ActName
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.governance.limits import Budget, budget_of
from capset.definitions.governance.settings import Governance
from capset.definitions.principals import Principal
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, Conflict, DefinitionError, NotFound
from capset.evaluation.code import is_code_read, read_code
from capset.evaluation.evaluate import Labels, evaluate
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.checkpoints import Checkpoint
from capset.kernel.agent_definition import definition_of
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.call.compilation import compile_tools
from capset.kernel.call.compiled_tools import CompiledTools
from capset.kernel.call.invocation import Observer
from capset.kernel.call.session import Session
from capset.kernel.call.session_context import SessionContext
from capset.kernel.call.stages.access import ANONYMOUS
from capset.kernel.call.worker_threads import Threads
from capset.kernel.governance.acts import ActColumns, ActEntry, Actor, act_entry, actor_of
from capset.kernel.governance.approvals import ApprovalService
from capset.kernel.governance.checkpoints import Checkpoints, Signing, begin_signing, keep_checkpoints, make_checkpoint
from capset.kernel.governance.deliveries import Deliveries, checked_channels
from capset.kernel.governance.quotas import SessionLimits, session_limits
from capset.kernel.governance.redaction import Redactor, redactor_of
from capset.kernel.revocation import CurrentRows
from capset.kernel.runtime import EnvironmentSecrets, KernelRuntime, workspace_folder
from capset.kernel.session_access import check_opening, check_owner, no_session
from capset.kernel.state.files import SessionFiles
from capset.kernel.streams.dispatcher import Dispatcher
from capset.kernel.telemetry.observers import host_observers
from capset.stores.base import AuditLog, SessionRow, Store, make_store, share_changes

MAX_CONCURRENT: Final = 100
"""Default limit of concurrent invocations of one stream."""
DRAIN_SECONDS: Final = 5.0
"""How long closing waits for running streams before it cancels them."""


class Kernel:
    """The runtime: ``async with Kernel(store="sqlite:///capset.db") as kernel: …``.

    ``store`` is a URL whose scheme an installed store provides (``sqlite:///FILE``, ``memory://``) or a ``Store``.
    ``redis`` is the URL of a Redis server through which the processes of the store notify each other of changes at
    once. ``secrets`` is the source for ``ctx.secret``, by default the environment; ``credentials`` makes the source of
    users' credentials, such as a vault in the store. ``generator`` runs the model steps of blocks. ``governance``
    applies to every call; ``workspace`` is the only folder of the host that tools may read.
    ``checkpoints`` signs the records and sets their retention; by default, records are unsigned and kept forever.
    ``observers`` are notified of every call; by default, calls are traced if the host has set up OpenTelemetry.
    ``channels`` notify people of approval requests; a server sends what is queued for them. Entering opens the kernel,
    and leaving writes all pending records; both raise ``StoreError``.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///capset.db",
        *,
        clock: Clock | None = None,
        secrets: Secrets | None = None,
        credentials: Callable[[Store, Clock], CredentialSource] | None = None,
        generator: GeneratorRunner | None = None,
        governance: Governance | None = None,
        workspace: str | Path | None = None,
        checkpoints: Checkpoints | None = None,
        observers: Iterable[Observer] | None = None,
        channels: Iterable[NotificationChannel] = (),
        redis: str | None = None,
    ) -> None:
        self._channels = checked_channels(channels)
        self._checkpoints = checkpoints
        self._signing = Signing()
        self._observers = None if observers is None else tuple(observers)
        self._governance = governance or Governance()
        redactor_of(self._governance.redact)  # refuse an invalid pattern now, not once the store is open
        self._workspace = None if workspace is None else workspace_folder(workspace)
        self._secrets = secrets or EnvironmentSecrets()
        self._credentials = credentials
        self._generator = generator
        stored = make_store(store) if isinstance(store, str) else store
        self._store = stored if redis is None else share_changes(stored, redis)
        self._clock = clock or SystemClock()
        self._runtime: KernelRuntime | None = None
        cached = lru_cache(1_000)  # the most recently used compositions
        self._compose = cached(compose)
        self._compile_tools = cached(compile_tools)
        self._define = cached(definition_of)
        self.closing: Final = AsyncExitStack()
        """Resources to close with the kernel, added once it is open: after its calls end, before its store closes."""

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
                host_observers() if self._observers is None else self._observers,
                self._channels,
                None if self._credentials is None else self._credentials(self._store, self._clock),
            )
        except BaseException:
            await self._store.close()
            raise
        self.closing.push_async_callback(self._store.close)
        if self._checkpoints is not None:
            self._keep_signing(self._checkpoints, Signing(self._checkpoints.key.public.id, None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for running calls, then cancel them; write every record; close the store."""
        runtime, self._runtime = self._open_runtime(), None
        async with self.closing:
            await runtime.drain(DRAIN_SECONDS)
            if runtime.credentials is not None:
                await runtime.credentials.aclose()
            runtime.refusals.flush()
            if self._checkpoints is not None:
                await make_checkpoint(runtime, self._checkpoints, self._signing)

    @property
    def store(self) -> Store:
        """The store with all data; operations on it are neither governed nor recorded."""
        return self._open_runtime().store

    @property
    def current(self) -> CurrentRows:
        """The pins and the agents of the store, cached for a moment at most."""
        return self._open_runtime().current

    @property
    def audit(self) -> AuditLog:
        """The record of every attempt."""
        return self._open_runtime().store.audit

    @property
    def approvals(self) -> ApprovalService:
        """The approval requests of this kernel's store."""
        return self._open_runtime().approvals

    @property
    def deliveries(self) -> Deliveries:
        """The channels of this kernel, and the deliveries to them."""
        return self._open_runtime().deliveries

    @property
    def governance(self) -> Governance:
        """The governance of every call."""
        return self._governance

    @property
    def redactor(self) -> Redactor | None:
        """Masks matches of the patterns in ``governance.redact``, if there are any."""
        return self._open_runtime().redactor

    @property
    def generator(self) -> GeneratorRunner | None:
        """The runner for the model steps of blocks, or ``None``."""
        return self._generator

    @property
    def secrets(self) -> Secrets:
        """The source of secrets."""
        return self._secrets

    @property
    def credentials(self) -> CredentialSource | None:
        """The source of users' credentials, if there is one."""
        return self._open_runtime().credentials

    @property
    def threads(self) -> Threads:
        """The threads of sync handlers."""
        return self._open_runtime().threads

    @property
    def abandoned(self) -> int:
        """Number of tasks and threads abandoned so far because they did not end when they were cancelled (K15)."""
        runtime = self._open_runtime()
        return runtime.abandoned + runtime.threads.abandoned

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers of every call."""
        return self._open_runtime().observers

    @property
    def signing(self) -> Signing:
        """Whether this kernel signs the record, with which key, or why not."""
        return self._signing

    async def sign(self, checkpoints: Checkpoints, *, by: Actor) -> None:
        """Sign the records from now on if the key is the log's own; a log without a key adopts it, as an act."""
        signing = await begin_signing(self._open_runtime(), checkpoints.key.public, by)
        if signing.key is None:
            self._signing = signing
        else:
            self._checkpoints = checkpoints
            self._keep_signing(checkpoints, signing)

    async def checkpoint(self) -> Checkpoint:
        """Sign the records up to the newest one. Raises ``Conflict`` if this kernel does not sign, or has none."""
        runtime, checkpoints = self._open_runtime(), self._checkpoints
        checkpoint = None if checkpoints is None else await make_checkpoint(runtime, checkpoints, self._signing)
        if checkpoint is None:
            raise Conflict(f"the log is not signed here: {self._signing.reason or 'it has no records'}")
        return checkpoint

    def _keep_signing(self, checkpoints: Checkpoints, signing: Signing) -> None:
        runtime, self._signing = self._open_runtime(), signing
        runtime.readers.add(runtime.spawn(keep_checkpoints(runtime, checkpoints, signing)))

    @contextmanager
    def observe(self, observer: Observer) -> Generator[None]:
        """Add an observer for the calls that begin within the ``with`` block."""
        runtime = self._open_runtime()
        runtime.observers = (*runtime.observers, observer)
        try:
            yield
        finally:
            runtime.observers = tuple(existing for existing in runtime.observers if existing is not observer)

    def compose(self, root: Block) -> Composition:
        """Return ``compose(root)``, cached for the agents and blocks in use."""
        return self._compose(root)

    def compile_tools(self, composition: Composition) -> CompiledTools:
        """Compile every tool of a composition; cached for the compositions in use."""
        return self._compile_tools(composition)

    @property
    def clock(self) -> Clock:
        """The clock that everything in this kernel uses."""
        return self._clock

    def now(self) -> str:
        """Return the time by the kernel's clock, ISO 8601 UTC."""
        return iso(self._clock.time_ns())

    def new_id(self) -> str:
        """Return a fresh UUIDv7 by the kernel's clock."""
        return self._open_runtime().ids.new()

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

        It is a new one, or the principal's existing session ``session_id``, with its files and its state.

        ``env`` holds the host's own values for this environment; policies and handlers read it. ``budget`` limits the
        total use of the session, by its calls and by those that they make, across all openings. It is stored with a new
        session; an existing session's budget can be lowered for this opening, but not raised. ``labels`` are those of
        ``evaluate``: ``hooks``, ``invocation``, ``namespace`` and so on, for this opening. Raises ``NotFound`` for a
        session that does not exist or belongs to another principal or agent, and all errors of ``compose`` and
        ``evaluate``.
        """
        check_opening(agent, principal, env)
        if session_id is None:
            budget_text = None if budget is None else to_json(budget.plain()).decode()
            row = replace(self.new_session(agent, principal), budget=budget_text)
        else:
            row = await self.find_session(session_id)
            if row is None:
                raise no_session(session_id, principal)
        session = await self.enter(row, agent, principal=principal, env=env, budget=budget, **labels)
        if session_id is None:  # only now, so that a bad agent leaves no session
            await self._open_runtime().store.sessions.create(row)
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
        """Return the session of a stored ``row``, as ``open`` does; for hosts that looked up or created the row.

        Its invocation hash is the one in the row, unless ``invocation`` gives another invocation for this opening.
        """
        check_owner(row, principal)
        if row.agent != agent.name:
            raise NotFound(f"the session {row.id!r} belongs to the agent {row.agent!r}, not to {agent.name!r}")
        snapshot = await self._evaluate(self.compose(agent), principal, env, labels)
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
        """Return the snapshot that a new session would have, without storing anything. Raises as ``evaluate`` does."""
        return self._close_if_anonymous(await self._evaluate(composition, principal, env, labels))

    def resume(self, row: SessionRow, snapshot: Snapshot, *, budget: Budget | None = None) -> Session:
        """Return the session of a stored ``row`` with an existing snapshot, such as a hydrated one.

        If the governance requires authentication, an anonymous principal has nothing in play. Raises ``NotFound`` for a
        session that does not belong to the snapshot's principal.
        """
        check_owner(row, snapshot.principal)
        snapshot = self._close_if_anonymous(snapshot)
        runtime, composition = self._open_runtime(), snapshot.composition
        files = SessionFiles(runtime, row.id, snapshot.principal.org, composition.mounts)
        is_static = snapshot.plan is plan_of(composition)
        compiled = self.compile_tools(composition) if is_static else compile_tools(composition, snapshot.installed)
        if not is_code_read(snapshot):
            runtime.spawn(read_code(snapshot))
        runtime.payloads.keep(snapshot)
        limits = self._session_limits(row, snapshot, budget)
        return Session(SessionContext(row.id, runtime, snapshot, compiled, files, composition.data, limits=limits))

    def _session_limits(self, row: SessionRow, snapshot: Snapshot, budget: Budget | None) -> SessionLimits | None:
        principal, block = snapshot.principal, snapshot.composition.block
        allowances = (
            ("server", self._governance.allowance),
            ("principal", principal.allowance),
            ("agent", block.allowance if isinstance(block, Agent) else None),
        )
        stored_budget = None if row.budget is None else budget_of(from_json(row.budget))
        return session_limits(
            row.id,
            principal,
            agent=block.name,
            agent_id=row.agent_id,
            allowances=allowances,
            budgets=(budget, stored_budget),
        )

    def run(self, session: Session, messages: AsyncIterable[Message], *, limit: int = MAX_CONCURRENT) -> Dispatcher:
        """Serve a mixed stream of messages, up to ``limit`` invocations at once; see ``Dispatcher`` (K8)."""
        if limit < 1:
            raise DefinitionError(f"limit must be a number of invocations, 1 or more; got {limit!r}")
        return Dispatcher(self._open_runtime(), session.invocation_of, messages, limit)

    def spawn(self, work: Coroutine[None, None, None], *, name: str) -> asyncio.Task[None]:
        """Start a task for the host, such as a turn. Closing waits for it, then cancels it, as it does with calls.

        It should raise nothing, since nothing handles its exceptions.
        """
        task = self._open_runtime().spawn(work)
        task.set_name(name)
        return task

    def act(
        self,
        name: ActName,
        about: Mapping[str, Any],  # JSON
        *,
        by: Principal | Actor | None = None,
        **columns: Unpack[ActColumns],
    ) -> ActEntry:
        """Return the entry of an administrative act, to pass to the port that makes the change or to ``audit.commit``.

        ``about`` has the ids of what it concerns, and no secrets. ``by`` is the actor, the host by default.
        """
        runtime, actor = self._open_runtime(), by if isinstance(by, Actor) else actor_of(by)
        return act_entry(runtime.ids, name, about, by=actor, redact=runtime.redactor, **columns)

    async def find_session(self, session_id: str) -> SessionRow | None:
        """Return the stored row of a session, or ``None``."""
        runtime = self._open_runtime()
        return await runtime.store.sessions.get(session_id) if session_id.isprintable() else None

    async def keep_definition(self, org: str | None, composition: Composition) -> None:
        """Store the payloads of a definition, so that its hashes resolve for an org. Raises ``StoreError``."""
        await self._open_runtime().payloads.keep_definition(org, composition)

    def new_session(self, agent: Block, principal: Principal) -> SessionRow:
        """Return the row of a new session, for ``store.sessions`` to store. Raises as ``compose`` does."""
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

    async def _evaluate(
        self, composition: Composition, principal: Principal, env: Mapping[str, Any] | None, labels: Labels
    ) -> Snapshot:
        default_permissions = self._governance.default_permissions
        actor = principal.with_permissions(default_permissions) if default_permissions else principal
        return await evaluate(composition, principal=actor, env=env, **labels)

    def _close_if_anonymous(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot, with nothing in play for an anonymous principal if authentication is required."""
        if self._governance.require_auth and snapshot.principal.kind == "anonymous":
            return snapshot.with_refusal(ANONYMOUS)
        return snapshot

    def _open_runtime(self) -> KernelRuntime:
        if self._runtime is None:
            raise CapsetError("the kernel is not open", hint="use it as: async with Kernel(…) as kernel")
        return self._runtime

"""A session to try things in, a store that can be listened to and made to fail, and ways to read what came of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from capset import Agent, Capability, Json, Kernel, Message, Messages, Meta, Principal, Record, Result, Session
from capset.definitions.blocks import Block
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.tools.definition import AnyTool
from capset.errors import PermissionDenied, Unauthenticated
from capset.kernel.streams.dispatcher import Dispatcher
from capset.stores.base import (
    AdmissionStore,
    AgentStore,
    ApprovalQuery,
    ApprovalStore,
    AuditLog,
    AuditQuery,
    ChangeFeed,
    Claim,
    CredentialStore,
    DeliveryStore,
    Directory,
    DocumentStore,
    Entry,
    EventStore,
    FileStore,
    KeyStore,
    LineageStore,
    Page,
    PersonStore,
    PinStore,
    ReplyStore,
    RunStore,
    ScheduleStore,
    SessionStore,
    StateStore,
    Store,
    UsageStore,
    WorkerStore,
    make_store,
)
from tests.waiting import until


@dataclass(frozen=True)
class Desk:
    """An open kernel and a session of it."""

    kernel: Kernel
    session: Session

    async def records(self, **filters: Any) -> list[Record]:
        """Return the outcome records that fit, oldest first."""
        return await records_of(self.kernel.audit, **filters)

    async def record(self, **filters: Any) -> Record:
        """Return the one outcome record that fits."""
        (single_record,) = await self.records(**filters)
        return single_record


@dataclass
class Badge:
    """A credential that can be withdrawn, and may be for some tools only.

    ``is_seen_late`` has calls notice its withdrawal only when they have waited.
    """

    is_valid: bool = True
    tools: frozenset[str] | None = None
    is_seen_late: bool = False

    @property
    def admits_all(self) -> bool:
        """Whether calls need not ask."""
        return (self.is_valid or self.is_seen_late) and self.tools is None

    def check_tool(self, own_name: str | None) -> None:
        """Raise ``PermissionDenied`` for a tool that it is not for."""
        if self.tools is not None and own_name not in self.tools:
            raise PermissionDenied(f"Permission denied: the badge is not for {own_name}")

    async def check(self, *, bypass_cache: bool = False) -> None:
        """Raise ``Unauthenticated`` once it is withdrawn."""
        if not self.is_valid and (bypass_cache or not self.is_seen_late):
            raise Unauthenticated("The badge was withdrawn")


@asynccontextmanager
async def desk(
    *tools: AnyTool,
    store: str | Store = "memory://",
    permissions: Iterable[str] = (),
    env: Mapping[str, Any] | None = None,
    principal: str = "user-1",
) -> AsyncGenerator[Desk]:
    """Open a session of an agent with one capability, ``kit``, of these tools."""
    agent = Agent("tester", uses=[Capability("kit", tools=tools)])
    caller = Principal(principal, permissions=permissions)
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=caller, env=env) as session:
        yield Desk(kernel, session)


@asynccontextmanager
async def opened(
    root: Block,
    *,
    store: str | Store = "memory://",
    permissions: Iterable[str] = (),
    principal: Principal | None = None,
    **settings: Any,
) -> AsyncGenerator[Desk]:
    """Open a session of an agent or a block; ``settings`` are the kernel's."""
    caller = principal or Principal("user-1", permissions=permissions)
    async with Kernel(store=store, **settings) as kernel, kernel.open(root, principal=caller) as session:
        yield Desk(kernel, session)


async def records_of(audit: AuditLog, **filters: Any) -> list[Record]:
    """Return the outcome records that fit, oldest first."""
    await audit.flush()
    records: list[Record] = []
    before: int | None = None
    while True:
        page = await audit.query(AuditQuery(limit=1000, before=before, **filters))
        records += page.items
        if page.next is None:
            return records[::-1]
        before = page.next


def rows_of(path: Path) -> list[tuple[str, str, str | None]]:
    """Return id, phase and outcome of every link in a SQLite file, through a connection of its own."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT id, phase, outcome FROM records ORDER BY seq").fetchall()


async def read(messages: Messages | Dispatcher) -> list[Message]:
    """Run a call, or several, as a stream, to its end."""
    async with messages as running:
        return [message async for message in running]


async def ask(session: Session, tool: str, arguments: object = None, **meta: Any) -> list[Message]:
    """Invoke a tool as the wire does, with JSON; text and bytes are sent as they are."""
    text = arguments if isinstance(arguments, bytes) else json.dumps({} if arguments is None else arguments).encode()
    kind = session.message(tool, {}).kind
    about = Meta("sent-1", "2026-01-01T00:00:00.000000Z", "thread-1", **meta) if meta else None
    return await read(session.invoke(Message(kind, tool, Json(text), about)))


async def turns(count: int = 20) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def first_request(kernel: Kernel) -> ApprovalRow:
    """Return the first request of the organization ``acme``, once it is there."""

    async def list_requests() -> tuple[ApprovalRow, ...]:
        return (await kernel.approvals.list(ApprovalQuery("acme"))).items

    return (await until(list_requests))[0]


class TappedStore:
    """A real store whose audit log tells ``tap`` the phase of every entry before it is taken; what that raises goes up.

    An async tap is awaited where the log may wait.
    """

    def __init__(self, tap: Callable[[str], Awaitable[None] | None], url: str = "memory://") -> None:
        self.inner = make_store(url)
        self._tap = tap
        self._audit = TappedAudit(self.inner.audit, tap)

    @property
    def audit(self) -> AuditLog:
        return cast("AuditLog", self._audit)  # the rest of which it hands on

    @property
    def sessions(self) -> SessionStore:
        return self.inner.sessions

    @property
    def files(self) -> FileStore:
        return self.inner.files

    @property
    def states(self) -> StateStore:
        return self.inner.states

    @property
    def documents(self) -> DocumentStore:
        return self.inner.documents

    @property
    def agents(self) -> AgentStore:
        return self.inner.agents

    @property
    def directory(self) -> Directory:
        return self.inner.directory

    @property
    def keys(self) -> KeyStore:
        return self.inner.keys

    @property
    def replies(self) -> ReplyStore:
        return self.inner.replies

    @property
    def changes(self) -> ChangeFeed:
        return self.inner.changes

    @property
    def approvals(self) -> ApprovalStore:
        return self.inner.approvals

    @property
    def deliveries(self) -> DeliveryStore:
        return self.inner.deliveries

    @property
    def people(self) -> PersonStore:
        return self.inner.people

    @property
    def admissions(self) -> AdmissionStore:
        return cast("AdmissionStore", TappedAdmissions(self.inner.admissions, self._tap))  # it hands on the rest

    @property
    def runs(self) -> RunStore:
        return self.inner.runs

    @property
    def schedules(self) -> ScheduleStore:
        return self.inner.schedules

    @property
    def workers(self) -> WorkerStore:
        return self.inner.workers

    @property
    def credentials(self) -> CredentialStore:
        return self.inner.credentials

    @property
    def pins(self) -> PinStore:
        return self.inner.pins

    @property
    def usage(self) -> UsageStore:
        return self.inner.usage

    @property
    def events(self) -> EventStore:
        return self.inner.events

    @property
    def lineage(self) -> LineageStore:
        return self.inner.lineage

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()


class TappedAudit:
    def __init__(self, inner: AuditLog, tap: Callable[[str], Awaitable[None] | None]) -> None:
        self._inner = inner
        self._tap = tap

    def append(self, entry: Entry) -> None:
        waiting = self._tap(str(entry.columns()["phase"]))
        assert waiting is None, "nothing waits for an entry that is appended"
        self._inner.append(entry)

    async def commit(self, entry: Entry) -> None:
        if (waiting := self._tap(str(entry.columns()["phase"]))) is not None:
            await waiting
        await self._inner.commit(entry)

    async def flush(self) -> None:
        await self._inner.flush()

    async def query(self, query: AuditQuery) -> Page[Record, int]:
        return await self._inner.query(query)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class TappedAdmissions:
    def __init__(self, inner: AdmissionStore, tap: Callable[[str], Awaitable[None] | None]) -> None:
        self._inner = inner
        self._tap = tap

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        if (refused := await self._inner.check(claim)) is not None:
            raise refused
        if intent is not None and (waiting := self._tap(str(intent.columns()["phase"]))) is not None:
            await waiting
        await self._inner.admit(claim, intent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def too_late(session: Session, called: AnyTool) -> Result[Any]:
    """Make a call whose time is up before its handler starts, on every event loop."""
    message = session.message(called.name, {})
    return await session.try_message(replace(message, meta=Meta("m", "2026-01-01T00:00:00Z", "c", deadline=1.0)))

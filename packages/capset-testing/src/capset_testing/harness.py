"""A session for tests, with a clock that the test advances and a store in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.calls.records import Record
from capset.definitions.capabilities import AnyCapability
from capset.definitions.governance.settings import Governance
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef, as_ref
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.stores.base import AuditQuery, Store

START_NS: Final = 1_767_225_600_000_000_000
"""Start of a fake wall clock: 2026-01-01T00:00:00Z, in nanoseconds since the Unix epoch."""


class FakeClock:
    """A ``capset.clock.Clock`` for tests: both readings move together, and only by ``advance``."""

    def __init__(self, start_ns: int = START_NS) -> None:
        self._start_ns = start_ns
        self._advanced_ns = 0

    def time_ns(self) -> int:
        """Nanoseconds since the Unix epoch, UTC."""
        return self._start_ns + self._advanced_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds advanced so far."""
        return self._advanced_ns

    def advance(self, seconds: float) -> None:
        """Advance the clock. Raises ``ValueError`` if ``seconds`` is negative: this clock never goes back."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        self._advanced_ns += round(seconds * 1_000_000_000)


@dataclass(frozen=True, slots=True)
class Desk:
    """An open session, its kernel and clock, and the agent or block of the session.

    Further sessions are opened with ``desk.kernel.open(desk.agent, principal=…)``.
    """

    session: Session
    clock: FakeClock
    kernel: Kernel
    agent: Block

    async def records(self, **filters: Any) -> list[Record]:  # of the types that AuditQuery declares
        """Return the matching outcome records of the kernel, oldest first: ``await desk.records(tool="recall")``.

        ``filters`` are fields of ``capset.stores.base.AuditQuery``.
        """
        log, matching = self.kernel.audit, list[Record]()
        await log.flush()
        before: int | None = None
        while True:
            page = await log.query(AuditQuery(limit=1000, before=before, **filters))
            matching += page.items
            if page.next is None:
                return matching[::-1]
            before = page.next


@asynccontextmanager
async def session_for(
    subject: AnyCapability | AnyRef | Block,
    *,
    permissions: Iterable[str] = (),
    principal: str | Principal = "user-1",
    env: Mapping[str, Any] | None = None,
    config: BaseModel | None = None,
    generator: GeneratorRunner | None = None,
    secrets: Secrets | None = None,
    store: str | Store = "memory://",
    workspace: str | Path | None = None,
) -> AsyncGenerator[Desk]:
    """Open a session of an agent or another block, or of an agent that uses only one capability.

    Args:
        subject: a capability, a reference to one, an agent or another block.
        permissions: the principal's permissions; not allowed with a ``Principal``, which has its own.
        principal: a user's id, or the acting principal.
        env: facts of the host for policies.
        config: the capability's config; not allowed for an agent, which configures its own ``uses``.
        generator: the runner of generators' model steps.
        secrets: the source of ``ctx.secret``; by default the environment.
        store: the store of all data; by default in memory, for as long as the session is open.
        workspace: the folder of the host that tools may read.

    Raises ``DefinitionError`` if the subject cannot be composed or the arguments conflict.
    """
    granted = frozenset(permissions)
    if isinstance(principal, Principal) and granted:
        raise DefinitionError("session_for: a Principal has its own permissions; set them there")
    acting_principal = Principal(principal, permissions=granted) if isinstance(principal, str) else principal
    agent, clock = _agent(subject, config), FakeClock()
    async with (
        Kernel(
            store,
            clock=clock,
            secrets=secrets,
            generator=generator,
            governance=Governance(error_causes=True),
            workspace=workspace,
        ) as kernel,
        kernel.open(agent, principal=acting_principal, env=env) as session,
    ):
        yield Desk(session, clock, kernel, agent)


def _agent(subject: AnyCapability | AnyRef | Block, config: BaseModel | None) -> Block:
    if isinstance(subject, Block):
        if config is not None:
            raise DefinitionError("session_for: an agent configures its own uses; leave out config")
        return subject
    ref = as_ref("session_for", subject)
    return Agent("tester", uses=[ref if config is None else ref.with_config(config)])

"""A till whose payments somebody has to approve, and ways to ask for that and to answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from capset import Agent, Capability, Kernel, Principal, Record, Session, Tool, tool
from capset.definitions.tools.definition import AnyTool
from capset.errors import ApprovalRequired
from capset.ext import Answer, ApprovalRow
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery, Store
from capset_testing import FakeClock
from tests.helpers.kernel.support import records_of
from tests.waiting import until

YES, NO = Answer(approved=True), Answer(approved=False, note="too much")
FOR_SESSION = Answer(approved=True, scope="session")


@dataclass
class Till:
    """An open kernel, and every payment that was made; ``acme`` is where everybody works unless it is said."""

    kernel: Kernel
    clock: FakeClock
    agent: Agent
    pay: Tool[..., str]
    paid: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    async def session(self, principal: str | Principal = "ada", *, id: str | None = None, **more: Any) -> Session:
        """Open a session of somebody, a new one or one that there is."""
        async with self.kernel.open(self.agent, principal=person(principal), session_id=id, **more) as session:
            return session

    async def asked(self, session: Session, to: str = "bob", amount: int = 5, name: str = "pay") -> str:
        """Ask for a payment, to be made once it is approved, and return the id of the request."""
        result = await self.made(session, to, amount, name=name)
        assert isinstance(result.error, ApprovalRequired)
        assert result.error.approval is not None
        return result.error.approval

    async def made(
        self, session: Session, to: str = "bob", amount: int = 5, approval: str | None = None, name: str = "pay"
    ) -> Result[Any]:
        """Make a payment, by an approval perhaps, and return what came of it."""
        ready = session.options(approvals="defer", approval=approval)
        return await ready.try_message(ready.message(name, {"to": to, "amount": amount}))

    async def decided(self, id: str, answer: Answer = YES, by: str | Principal = "boss") -> ApprovalRow:
        """Answer a request."""
        return await self.kernel.approvals.decide(id, answer, by=person(by))

    async def requests(self, org: str | None = "acme", **filters: Any) -> tuple[ApprovalRow, ...]:
        """Return the requests that fit, newest first."""
        return (await self.kernel.approvals.list(ApprovalQuery(org, **filters))).items

    async def waiting(self) -> ApprovalRow:
        """Return the one open request, once it is there."""
        (row,) = await until(lambda: self.requests(status="pending"))
        return row

    async def records(self, **filters: Any) -> list[Record]:
        """Return the outcome records that fit, oldest first."""
        return await records_of(self.kernel.audit, **filters)

    async def record(self, **filters: Any) -> Record:
        """Return the last outcome record that fits."""
        return (await self.records(**filters))[-1]


def person(principal: str | Principal) -> Principal:
    """Return somebody of ``acme`` by name; a principal is what it is."""
    return Principal(principal, org="acme") if isinstance(principal, str) else principal


def make_pay(paid: list[tuple[str, int]], **options: Any) -> Tool[..., str]:
    """Return the tool ``pay``, which writes down every payment."""

    async def pay(to: str, amount: int) -> str:
        """Pay somebody."""
        paid.append((to, amount))
        return f"{to} has {amount}"

    settings: dict[str, Any] = {"effect": "write", "approval": "ask", **options}
    return tool(**settings)(pay)


@asynccontextmanager
async def till(
    *tools: AnyTool,
    store: str | Store = "memory://",
    clock: FakeClock | None = None,
    kernel: dict[str, Any] | None = None,
    make: Callable[..., Tool[..., str]] = make_pay,
    **options: Any,
) -> AsyncGenerator[Till]:
    """Open a till; ``kernel`` are the kernel's settings, and ``options`` those of the tool ``pay``."""
    paid: list[tuple[str, int]] = []
    pay, time = make(paid, **options), clock or FakeClock()
    agent = Agent("clerk", uses=[Capability("till", tools=[pay, *tools])])
    async with Kernel(store=store, clock=time, **(kernel or {})) as opened:
        yield Till(opened, time, agent, pay, paid)

"""``refused`` in the answer to a call: true just where its handler was never started (spec 5, P45)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from capset import Agent, Capability, Context, Kernel, Principal, Request, Result, Session, policy, tool
from capset.errors import StoreError, ToolError, TransientError
from capset.kernel.call.worker_threads import MAX_THREADS
from capset.wire.calls import call_data
from tests.helpers.kernel.support import TappedStore
from tests.waiting import moment, until

ERRORS = {"explain": ToolError("not today"), "crash": RuntimeError("oh"), "retry": TransientError("not now")}
ran = list[str]()
are_free = threading.Event()


@tool(effect="write")
async def act(then: str = "return") -> int:
    """Act, and end in some way."""
    ran.append("act")
    if then == "sleep":
        await asyncio.sleep(30)
    if then in ERRORS:
        raise ERRORS[then]
    return "no number" if then == "misfit" else 1  # pyright: ignore[reportReturnType]


@tool(effect="write", permissions={"vault:open"})
async def unlock() -> None:
    """Open the vault."""
    ran.append("unlock")


@tool(effect="write", approval="ask")
async def pay() -> None:
    """Pay."""
    ran.append("pay")


@tool(effect="write", limits="1/1h")
async def stamp() -> None:
    """Stamp, once."""


@tool(effect="write")
def occupy() -> None:
    """Occupy a thread."""
    ran.append("occupy")
    are_free.wait(300)


@tool(effect="write")
async def nest(ctx: Context) -> None:
    """Call what is refused."""
    ran.append("nest")
    await ctx.call(unlock)


@policy
def guarded(request: Request) -> bool:
    return (request.arguments or {}).get("then") != "guarded"


@dataclass
class Bench:
    """A session in a kernel, and the phases of records that its store refuses."""

    kernel: Kernel
    session: Session
    broken: set[str] = field(default_factory=set[str])

    async def call(self, tool: str, *, timeout: float | None = None, **arguments: Any) -> Result[Any]:
        message = self.session.message(tool, arguments)
        return await self.session.options(timeout=timeout, approvals="defer").try_message(message)


@asynccontextmanager
async def opened_bench() -> AsyncGenerator[Bench]:
    """Open a session of an agent with all these tools."""
    broken = set[str]()

    def tap(phase: str) -> None:
        if phase in broken:
            raise StoreError("the database is away")

    agent = Agent("one", uses=[Capability("kit", tools=[act, unlock, pay, stamp, occupy, nest], policies=[guarded])])
    kernel = Kernel(store=TappedStore(tap))
    async with kernel, kernel.open(agent, principal=Principal("user-1")) as session:
        yield Bench(kernel, session, broken)
        broken.clear()


async def limited(bench: Bench) -> Result[Any]:
    await bench.call("stamp")
    return await bench.call("stamp")


async def no_thread(bench: Bench) -> Result[Any]:
    are_free.clear()
    occupying = [asyncio.ensure_future(bench.call("occupy")) for _ in range(MAX_THREADS)]
    await until(lambda: bench.kernel.threads.waiting)
    ran.clear()
    result = await bench.call("occupy", timeout=0.1)
    ran_meanwhile = ran.copy()
    are_free.set()
    await asyncio.gather(*occupying)
    ran[:] = ran_meanwhile
    return result


async def late(bench: Bench) -> Result[Any]:
    are_free.clear()
    result = await bench.call("occupy", timeout=0.05)
    are_free.set()
    return result


async def unavailable(bench: Bench, phase: str) -> Result[Any]:
    bench.broken.add(phase)
    return await bench.call("act")


async def cancelled(bench: Bench, tool: str, **arguments: Any) -> Result[Any]:
    """Cancel a call from outside, as a closing server does."""
    messages = bench.session.options(approvals="wait").invoke(bench.session.message(tool, arguments))
    async with messages:
        await moment(0.1)
    return messages.result


@pytest.mark.spec("P45")
@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("not_found", lambda bench: bench.call("nowhere")),
        ("permission_denied", lambda bench: bench.call("unlock")),
        ("permission_denied", lambda bench: bench.call("act", then="guarded")),
        ("approval_required", lambda bench: bench.call("pay")),
        ("limit_exceeded", limited),
        ("no_free_slot", no_thread),
        ("invalid_arguments", lambda bench: bench.call("act", then=1)),
        ("deadline_exceeded", lambda bench: bench.call("act", timeout=1e-9)),
        ("store_unavailable", lambda bench: unavailable(bench, "intent")),
        ("cancelled", lambda bench: cancelled(bench, "pay")),
        ("tool_error", lambda bench: bench.call("act", then="explain")),
        ("internal_error", lambda bench: bench.call("act", then="crash")),
        ("transient", lambda bench: bench.call("act", then="retry")),
        ("invalid_output", lambda bench: bench.call("act", then="misfit")),
        ("deadline_exceeded", lambda bench: bench.call("act", then="sleep", timeout=0.05)),
        ("deadline_exceeded", late),
        ("cancelled", lambda bench: cancelled(bench, "act", then="sleep")),
        ("permission_denied", lambda bench: bench.call("nest")),
        ("store_unavailable", lambda bench: unavailable(bench, "outcome")),
    ],
)
async def test_a_call_is_refused_just_where_its_handler_was_never_started(
    code: str, make: Callable[[Bench], Awaitable[Result[Any]]]
) -> None:
    async with opened_bench() as bench:
        ran.clear()
        result = await make(bench)
        shape = call_data(result, result.data, bench.session.id)
        assert (shape["success"], shape["error"]["code"]) == (False, code)
        assert shape["refused"] is (ran == [] or code == "limit_exceeded")

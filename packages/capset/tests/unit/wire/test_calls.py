"""``refused`` in the answer to a call: true just where its handler was never started (spec 5, P45)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from capset import (
    Agent,
    Capability,
    Context,
    Decision,
    Kernel,
    Principal,
    Request,
    Result,
    Session,
    ToolError,
    allow,
    deny,
    policy,
    tool,
)
from capset.errors import StoreError, TransientError
from capset.kernel.call.worker_threads import AT_ONCE
from capset.wire.calls import call_data
from tests.helpers.kernel.support import TappedStore
from tests.waiting import moment, until

ran = list[str]()


@tool(effect="write")
async def act(then: str = "return") -> int:
    """Act, and end in some way."""
    ran.append(then)
    match then:
        case "explain":
            raise ToolError("not today")
        case "crash":
            raise RuntimeError("oh")
        case "retry":
            raise TransientError("not now")
        case "misfit":
            return "no number"  # pyright: ignore[reportReturnType]
        case "sleep":
            await asyncio.sleep(30)
        case _:
            pass
    return 1


@tool(effect="read")
async def look() -> int:
    """Look."""
    ran.append("look")
    return 1


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


are_free = threading.Event()


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
def guarded(request: Request) -> Decision:
    return deny("guarded") if request.arguments and request.arguments.get("then") == "guarded" else allow()


@dataclass
class Bench:
    """A session in a kernel, and the phases of records that its store refuses."""

    kernel: Kernel
    session: Session
    broken: set[str]

    async def call(self, tool: str, *, timeout: float | None = None, **arguments: Any) -> Result[Any]:
        message = self.session.message(tool, arguments)
        return await self.session.options(timeout=timeout, approvals="defer").try_message(message)


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    """Open a session of an agent with all these tools."""
    broken = set[str]()

    def tap(phase: str) -> None:
        if phase in broken:
            raise StoreError("the database is away")

    kit = Capability("kit", tools=[act, look, unlock, pay, stamp, occupy, nest], policies=[guarded])
    who = Principal("user-1")
    async with (
        Kernel(store=TappedStore(tap)) as kernel,
        kernel.open(Agent("one", uses=[kit]), principal=who) as session,
    ):
        yield Bench(kernel, session, broken)
        broken.clear()


async def limited(here: Bench) -> Result[Any]:
    await here.call("stamp")
    return await here.call("stamp")


async def no_thread(here: Bench) -> Result[Any]:
    are_free.clear()
    keeping = [asyncio.ensure_future(here.call("occupy")) for _ in range(AT_ONCE)]
    await until(lambda: here.kernel.threads.waiting)
    ran.clear()
    result = await here.call("occupy", timeout=0.1)
    was = ran.copy()
    are_free.set()
    await asyncio.gather(*keeping)
    ran[:] = was
    return result


async def late(here: Bench) -> Result[Any]:
    are_free.clear()
    result = await here.call("occupy", timeout=0.05)
    are_free.set()
    return result


async def unavailable(here: Bench, *phases: str, tool: str = "act") -> Result[Any]:
    here.broken.update(phases)
    return await here.call(tool)


async def cancelled(here: Bench, tool: str, **arguments: Any) -> Result[Any]:
    """Cancel a call from outside, as a closing server does."""
    messages = here.session.options(approvals="wait").invoke(here.session.message(tool, arguments))
    async with messages:
        await moment(0.1)
    return messages.result


CASES: list[tuple[str, Callable[[Bench], Awaitable[Result[Any]]]]] = [
    ("not_found", lambda here: here.call("nowhere")),
    ("permission_denied", lambda here: here.call("unlock")),
    ("permission_denied", lambda here: here.call("act", then="guarded")),
    ("approval_required", lambda here: here.call("pay")),
    ("limit_exceeded", limited),
    ("no_free_slot", no_thread),
    ("invalid_arguments", lambda here: here.call("act", then=1)),
    ("deadline_exceeded", lambda here: here.call("act", timeout=1e-9)),
    ("store_unavailable", lambda here: unavailable(here, "intent")),
    ("cancelled", lambda here: cancelled(here, "pay")),
    ("tool_error", lambda here: here.call("act", then="explain")),
    ("internal_error", lambda here: here.call("act", then="crash")),
    ("transient", lambda here: here.call("act", then="retry")),
    ("invalid_output", lambda here: here.call("act", then="misfit")),
    ("deadline_exceeded", lambda here: here.call("act", then="sleep", timeout=0.05)),
    ("deadline_exceeded", late),
    ("cancelled", lambda here: cancelled(here, "act", then="sleep")),
    ("permission_denied", lambda here: here.call("nest")),
    ("store_unavailable", lambda here: unavailable(here, "outcome")),
]


@pytest.mark.spec("P45")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{at}-{code}" for at, (code, _) in enumerate(CASES)])
async def test_a_call_is_refused_just_where_its_handler_was_never_started(number: int) -> None:
    code, make = CASES[number]
    async with bench() as here:
        ran.clear()
        result = await make(here)
        shape = call_data(result, result.data, here.session.id)
        assert (shape["success"], shape["error"]["code"]) == (False, code)
        assert shape["refused"] is (ran == [] or code == "limit_exceeded")

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
    principal = Principal("user-1")
    async with (
        Kernel(store=TappedStore(tap)) as kernel,
        kernel.open(Agent("one", uses=[kit]), principal=principal) as session,
    ):
        yield Bench(kernel, session, broken)
        broken.clear()


async def limited(workbench: Bench) -> Result[Any]:
    await workbench.call("stamp")
    return await workbench.call("stamp")


async def no_thread(workbench: Bench) -> Result[Any]:
    are_free.clear()
    keeping = [asyncio.ensure_future(workbench.call("occupy")) for _ in range(AT_ONCE)]
    await until(lambda: workbench.kernel.threads.waiting)
    ran.clear()
    result = await workbench.call("occupy", timeout=0.1)
    was = ran.copy()
    are_free.set()
    await asyncio.gather(*keeping)
    ran[:] = was
    return result


async def late(workbench: Bench) -> Result[Any]:
    are_free.clear()
    result = await workbench.call("occupy", timeout=0.05)
    are_free.set()
    return result


async def unavailable(workbench: Bench, *phases: str, tool: str = "act") -> Result[Any]:
    workbench.broken.update(phases)
    return await workbench.call(tool)


async def cancelled(workbench: Bench, tool: str, **arguments: Any) -> Result[Any]:
    """Cancel a call from outside, as a closing server does."""
    messages = workbench.session.options(approvals="wait").invoke(workbench.session.message(tool, arguments))
    async with messages:
        await moment(0.1)
    return messages.result


CASES: list[tuple[str, Callable[[Bench], Awaitable[Result[Any]]]]] = [
    ("not_found", lambda workbench: workbench.call("nowhere")),
    ("permission_denied", lambda workbench: workbench.call("unlock")),
    ("permission_denied", lambda workbench: workbench.call("act", then="guarded")),
    ("approval_required", lambda workbench: workbench.call("pay")),
    ("limit_exceeded", limited),
    ("no_free_slot", no_thread),
    ("invalid_arguments", lambda workbench: workbench.call("act", then=1)),
    ("deadline_exceeded", lambda workbench: workbench.call("act", timeout=1e-9)),
    ("store_unavailable", lambda workbench: unavailable(workbench, "intent")),
    ("cancelled", lambda workbench: cancelled(workbench, "pay")),
    ("tool_error", lambda workbench: workbench.call("act", then="explain")),
    ("internal_error", lambda workbench: workbench.call("act", then="crash")),
    ("transient", lambda workbench: workbench.call("act", then="retry")),
    ("invalid_output", lambda workbench: workbench.call("act", then="misfit")),
    ("deadline_exceeded", lambda workbench: workbench.call("act", then="sleep", timeout=0.05)),
    ("deadline_exceeded", late),
    ("cancelled", lambda workbench: cancelled(workbench, "act", then="sleep")),
    ("permission_denied", lambda workbench: workbench.call("nest")),
    ("store_unavailable", lambda workbench: unavailable(workbench, "outcome")),
]


@pytest.mark.spec("P45")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{at}-{code}" for at, (code, _) in enumerate(CASES)])
async def test_a_call_is_refused_just_where_its_handler_was_never_started(number: int) -> None:
    code, make = CASES[number]
    async with bench() as workbench:
        ran.clear()
        result = await make(workbench)
        shape = call_data(result, result.data, workbench.session.id)
        assert (shape["success"], shape["error"]["code"]) == (False, code)
        assert shape["refused"] is (ran == [] or code == "limit_exceeded")

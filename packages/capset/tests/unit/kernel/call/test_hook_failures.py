"""Hooks that fail, hang or meddle: logged by their names, and no outcome is another (F23)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capset import Agent, Hooks, Kernel, Policy, Principal, ToolError, tool
from capset.definitions.governance.hooks import PolicyEvaluated, ToolExecuted
from capset.evaluation import containment as telling
from tests.helpers.evaluation.things import Trace
from tests.helpers.kernel.support import records_of, turns

WHO = Principal("ada", permissions=["a:b"])
pytestmark = pytest.mark.spec("F23")


def gate(id: str) -> Policy:
    return Policy(id, lambda request: True)


@tool(effect="write")
async def fails() -> int:
    """Fail."""
    raise ToolError("no such thing")


class Broken(RuntimeError):
    pass


def raises_now(event: object) -> None:
    raise Broken("now")


async def raises_later(event: object) -> None:
    await asyncio.sleep(0)
    raise Broken("later")


async def cancels(event: object) -> None:
    raise asyncio.CancelledError


def exits(event: object) -> None:
    raise SystemExit(3)


async def hangs(event: object) -> None:
    await asyncio.sleep(60)


async def swallows(event: object) -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return


def answers(event: object) -> Any:
    return "something"


class Callable_:
    def __call__(self, event: object) -> None:
        raise Broken("object")


@pytest.mark.parametrize(
    ("hook", "name"),
    [
        (raises_now, "raises_now"),
        (raises_later, "raises_later"),
        (cancels, "cancels"),
        (exits, "exits"),
        (hangs, "hangs"),
        (answers, "answers"),
        (Callable_(), "Callable_"),
    ],
    ids=lambda param: param if isinstance(param, str) else "",
)
async def test_a_hook_that_fails_is_logged_by_name_and_changes_nothing(
    hook: Any, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "HOOK_SECONDS", 0.02)
    trace = Trace()

    @tool(effect="write", policies=[gate("p")], hooks=Hooks(on_policy_evaluated=hook, on_tool_executed=hook))
    async def work() -> int:
        """Work."""
        return 1

    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[work]), principal=WHO, hooks=trace.hooks("run")) as session,
    ):
        assert await session.call(work) == 1
        assert trace.take() == ["run p@work allow", "run p@work allow", "run work()"], (
            "the next ones are told all the same"
        )
        assert [record.outcome for record in await records_of(kernel.audit)] == ["succeeded"]
    logged = [log_record.getMessage() for log_record in caplog.records if log_record.name == "capset.hooks"]
    assert logged == [
        f"the hook {name} failed on PolicyEvaluated",
        f"the hook {name} failed on PolicyEvaluated",
        f"the hook {name} failed on ToolExecuted",
    ]
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_hook_that_takes_its_cancellation_for_an_end_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "HOOK_SECONDS", 0.02)
    agent = Agent("agent", tools=[fails])
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=WHO, hooks=Hooks(on_tool_executed=swallows)) as session,
    ):
        result = await session.try_call(fails)
        assert isinstance(result.error, ToolError)


async def test_a_cancellation_from_outside_is_not_a_hooks_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(Agent("agent", tools=[fails]), principal=WHO, hooks=Hooks(on_tool_executed=hangs)) as session,
    ):
        call = asyncio.create_task(session.try_call(fails))
        await turns(50)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [record.outcome for record in await records_of(kernel.audit)] == ["failed"], "it had ended before"
    assert [log_record for log_record in caplog.records if log_record.name == "capset.hooks"] == []


async def test_hooks_cannot_change_what_is_decided_of_or_done() -> None:
    def meddle(event: PolicyEvaluated | ToolExecuted) -> None:
        if isinstance(event, ToolExecuted):
            with pytest.raises(TypeError):
                event.arguments["numbers"] = []  # pyright: ignore[reportIndexIssue]
        elif event.request.arguments is not None:
            event.request.arguments["numbers"].append(99)

    @tool(effect="read", policies=[gate("p")], hooks=Hooks(on_policy_evaluated=meddle, on_tool_executed=meddle))
    async def work(numbers: list[int]) -> int:
        """Work."""
        return sum(numbers)

    async with Kernel(store="memory://") as kernel, kernel.open(Agent("agent", tools=[work]), principal=WHO) as session:
        assert await session.call(work, [1, 2]) == 3
        assert "99" not in (await records_of(kernel.audit))[0].arguments

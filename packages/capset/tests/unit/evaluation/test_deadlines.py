"""One clock for all policies and dynamic toolkits of an evaluation: what is late denies, or fails it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capset import Policy, Request, Tool, Toolkit, ToolkitContext, Verdict
from capset.definitions.governance.hooks import Hooks, PolicyEvaluated
from capset.errors import ToolkitFailed
from tests.helpers.evaluation.things import Trace, failing, make, of, says, seen
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]

LATE = "the policy did not answer in time, so it denies"


async def never(request: object) -> Any:
    await asyncio.get_running_loop().create_future()


async def stubborn(request: object) -> Any:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return True


async def untidy(request: object) -> Any:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise RuntimeError("while cleaning up") from None


async def tidy(request: object) -> Any:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0)


async def nested(request: object) -> Any:
    async with asyncio.timeout(60):
        await asyncio.sleep(60)


def in_a_task(request: object) -> Any:
    return asyncio.ensure_future(stubborn(request))


LATE_ONES = pytest.mark.parametrize(
    "late", [never, stubborn, untidy, tidy, nested, in_a_task], ids=lambda function: function.__name__
)


@pytest.mark.spec("F17", "F23")
@LATE_ONES
async def test_a_policy_that_is_late_denies_and_so_do_those_after_it(
    late: Any, caplog: pytest.LogCaptureFixture
) -> None:
    last = Policy("last", lambda request: pytest.fail("it was asked"))
    composition = of(make("first", says("quick", True)), make("slow", Policy("slow", late)), make("last", last))
    trace, loop = Trace(), asyncio.get_running_loop()
    began = loop.time()
    snapshot = await seen(composition, timeout=5, hooks=trace.hooks("run"))
    assert loop.time() - began < 60
    assert set(snapshot.tools) == {"first"}
    for name in ("slow", "last"):
        assert snapshot.explain(name) == Verdict(False, LATE, (name,))
    assert trace.take() == ["run quick@first allow", "run slow@slow deny", "run last@last deny"]
    assert "policy 'slow' did not answer in time" in caplog.text
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0, "no cancellation is left to its caller"


@pytest.mark.spec("F15", "F17")
async def test_a_policys_own_timeout_is_its_own() -> None:
    async def gives_up(request: Request) -> bool:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)
        return True

    async def in_good_time(request: Request) -> bool:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            return True
        return False

    snapshot = await seen(of(make("a", Policy("gives_up", gives_up)), make("b", Policy("in_good_time", in_good_time))))
    assert set(snapshot.tools) == {"b"}
    assert snapshot.explain("a").reason == "the policy failed, so it denies"


@pytest.mark.spec("F17")
async def test_time_is_for_all_together() -> None:
    async def slow(request: Request) -> bool:
        await asyncio.sleep(0.1)
        return True

    tools = [make(f"tool_{number}", Policy(f"p{number}", slow)) for number in range(20)]
    assert set((await seen(of(*tools), timeout=0.25)).tools) == {"tool_0", "tool_1"}


@pytest.mark.spec("F17", "F23")
async def test_what_hooks_take_is_not_the_policies_time() -> None:
    async def dawdle(event: PolicyEvaluated) -> None:
        await asyncio.sleep(0.1)

    async def answer(request: Request) -> bool:
        await asyncio.sleep(0.01)
        return True

    tools = [make(f"tool_{number}", Policy(f"p{number}", answer)) for number in range(6)]
    snapshot = await seen(of(*tools), timeout=0.3, hooks=Hooks(on_policy_evaluated=dawdle))
    assert len(snapshot.tools) == 6


async def test_a_cancellation_from_outside_ends_the_evaluation() -> None:
    started = asyncio.Event()

    async def stuck(request: Request) -> bool:
        started.set()
        return await never(request)

    task = asyncio.create_task(seen(of(make("tool", Policy("stuck", stuck)))))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.spec("F22")
@LATE_ONES
async def test_a_dynamic_toolkit_that_is_late_fails_the_evaluation(late: Any) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(ToolkitFailed, match=r"the dynamic toolkit 'late'|'kit.late' was not made in time"):
        await seen(of(make("tool"), failing("late", late)), timeout=5)
    assert loop.time() - began < 60


def unmade(context: ToolkitContext) -> Any:
    pytest.fail("it was made")


@pytest.mark.spec("F22")
async def test_a_toolkit_that_was_not_begun_in_time_fails_it_too_for_nothing_may_be_missing_unsaid() -> None:
    with pytest.raises(ToolkitFailed, match=r"'kit.late' was not made in time"):
        await seen(of(make("slow", Policy("slow", never)), failing("late", unmade)), timeout=2)


@pytest.mark.spec("F18", "F22")
async def test_a_toolkit_whose_own_policy_is_late_is_denied_and_fails_nothing() -> None:
    kit = failing("late", unmade, policies=[Policy("slow", never)])
    behind = Toolkit("behind", [failing("inner", unmade, policies=[says("after", True)])])
    snapshot = await seen(of(make("tool"), kit, behind), timeout=2)
    assert set(snapshot.tools) == {"tool"}
    reasons = {path: verdict.reason for path, verdict in snapshot.toolkits.items()}
    assert reasons == {"kit.late": LATE, "kit.behind.inner": LATE}


@pytest.mark.spec("F22")
async def test_making_takes_of_the_same_time() -> None:
    async def makes(context: ToolkitContext) -> list[Tool[..., Any]]:
        await asyncio.sleep(0.1)
        return [make("made")]

    async def slow(request: Request) -> bool:
        await asyncio.sleep(0.2)
        return True

    composition = of(failing("kit", makes), make("tool", Policy("slow", slow)))
    assert set((await seen(composition, timeout=5)).tools) == {"made", "tool"}
    assert set((await seen(composition, timeout=0.2)).tools) == {"made"}

"""Progress of a turn's calls as its events: the newest of each call, few of many, and none after its end (R26)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from capset import Agent, Capability, Progress, Reply, tool
from capset.definitions.governance.settings import Governance
from capset.flows import as_tool
from capset_agents.models import ModelChoice
from capset_agents.playback.scripts import Call, Script, ScriptStep, ToolCall
from tests.helpers.agents.support import Moves, Shelf, site
from tests.virtual_time import anyio_backend

EVERY = 0.05

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.spec("R26")


@tool(effect="read")
async def count(to: int, pause: float = 0.0, message: str = "counting") -> AsyncIterator[Progress | Reply[str]]:
    """Count."""
    for number in range(to):
        yield Progress(number / to, message)
        await asyncio.sleep(pause)
    yield Reply("counted")


@tool(effect="read")
async def stall() -> AsyncIterator[Progress | Reply[str]]:
    """Report twice at once, and then work for long."""
    yield Progress(0.1)
    yield Progress(0.2, "the long part")
    await asyncio.sleep(6 * EVERY)
    yield Reply("stalled")


def counter(name: str = "counter") -> Agent:
    """Return an agent that counts."""
    return Agent(name, description="Counts.", uses=[Capability("counting", tools=[count, stall])])


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_agents.progress.MIN_INTERVAL_SECONDS", EVERY)


async def told(url: str, moves: Moves, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """Run a turn of the counter, and return its events of calls."""
    async with site(url, Shelf(), moves, agent=options.pop("agent", counter()), **options) as host:
        row = await host.session()
        await host.say(row, "go")
        assert (await host.last(row))[0] == "turn.ended"
        return [(kind, data) for kind, data in await host.told(row) if kind.startswith("tool.")]


async def test_of_many_reports_a_few_are_events(url: str) -> None:
    events = await told(url, [Call("count", to=300, pause=0.001), "Done."])
    reports = [data for kind, data in events if kind == "tool.progress"]
    call = events[0][1]["call"]
    assert reports[0] == {"call": call, "tool": "count", "fraction": 0.0, "message": "counting"}
    fractions = [report["fraction"] for report in reports]
    assert fractions == sorted(set(fractions))
    assert 2 <= len(reports) < 60, "300 steps take 0.3 to 2 seconds, of which each event has 0.05"
    assert [kind for kind, _ in events if kind != "tool.progress"] == ["tool.called", "tool.executed", "tool.result"]
    assert events[-1][1]["success"]


async def test_the_newest_report_is_told_while_the_tool_is_silent(url: str) -> None:
    events = await told(url, [Call("stall"), "Done."])
    assert [(data["fraction"], data["message"]) for kind, data in events if kind == "tool.progress"] == [
        (0.1, None),
        (0.2, "the long part"),
    ]
    assert events[-1][0] == "tool.result"


async def test_what_was_not_told_by_the_end_of_its_call_is_not_told(url: str) -> None:
    events = await told(url, [Call("count", to=5), Call("stall"), "Done."])
    counted = [data["fraction"] for kind, data in events if kind == "tool.progress" and data["tool"] == "count"]
    assert counted == [0.0]


async def test_calls_at_once_have_their_own_progress(url: str) -> None:
    events = await told(url, [[Call("stall"), Call("stall")], "Done."])
    reports = [(data["call"], data["fraction"]) for kind, data in events if kind == "tool.progress"]
    calls = [data["call"] for kind, data in events if kind == "tool.called"]
    assert len(set(calls)) == 2
    assert sorted(reports) == sorted((call, fraction) for call in calls for fraction in (0.1, 0.2))


async def test_messages_are_short_and_masked(url: str) -> None:
    move = Call("count", to=1, message="hush-7 " + "x" * 1_000)
    events = await told(url, [move, "Done."], governance=Governance(redact=["hush-[0-9]"]))
    (message,) = [data["message"] for kind, data in events if kind == "tool.progress"]
    assert message.startswith("[redacted] ")
    assert len(message) == 200


async def test_the_calls_of_an_agent_within_a_call_report_nothing(url: str) -> None:
    head = Agent("head", uses=[Capability("team", tools=[as_tool(counter("inner"))])])
    of_head = [ScriptStep(calls=[ToolCall(tool="inner", arguments={"input": "go"})]), ScriptStep(text="Done.")]
    of_inner = [ScriptStep(calls=[ToolCall(tool="stall")]), ScriptStep(text="Counted.")]
    model = ModelChoice(Script({"head": of_head, "inner": of_inner}))
    events = await told(url, [], agent=head, model=model)
    assert [kind for kind, _ in events if kind == "tool.progress"] == []
    assert [data["data"] for kind, data in events if kind == "tool.result"] == ["Counted."]

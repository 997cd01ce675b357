"""Runs as their operators see them: all of an organisation, as a list and each as a tree, on record."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset import Agent, Capability, tool
from capset.definitions.calls.contexts import Context
from capset.flows import as_tool
from capset_agents.models import ModelChoice
from capset_agents.playback.scripts import Script, ScriptStep, ToolCall
from capset_agents.runner import AgentRunner
from capset_server.client import Client
from capset_server.runs import traces
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.sse import events_of
from tests.helpers.server.support import Site, problem, site


@tool(effect="read")
async def look(place: str) -> str:
    """Look somewhere."""
    return f"seen {place}"


@tool(effect="write", approval="ask")
async def put(ctx: Context, text: str, password: str = "") -> str:
    """Put something there, after a look."""
    return f"{await ctx.call(look, place='there')}, put {text}"


shelf = Capability("shelf", tools=[look, put])
helper = Agent("helper", system_prompt="Help.", uses=[shelf])
helpers = Capability("helpers", tools=[as_tool(helper, effect="read", description="Helps.")])
LEAK = '{"password": "hunter2", "note": "done"}'
clerk = Agent("clerk", system_prompt="Say what you know.", uses=[shelf])
head = Agent("head", system_prompt="Have others work.", uses=[shelf, helpers])


def step(text: str = "", **calls: dict[str, Any]) -> ScriptStep:
    """Return a step with a text and a call of each tool."""
    listed = [ToolCall(tool=name, arguments=arguments) for name, arguments in calls.items()]
    return ScriptStep(text=text, calls=listed) if text else ScriptStep(calls=listed)


def runner() -> AgentRunner:
    """Return a runner whose models follow a script."""
    moves = {
        "head": [
            step("I ask.", helper={"input": "look around"}),
            step(put={"text": "milk", "password": "hunter2"}),
            step("All is done."),
        ],
        "clerk": [ScriptStep(text=LEAK, repeat=2)],
        "helper": [step(look={"place": "here"}), step("I have looked.")],
    }
    return AgentRunner(ModelChoice(Script(moves)))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Site]:
    """Give a server with the head and its helper, and keys for an operator and a stranger."""
    url = f"sqlite:///{tmp_path / 'capset.db'}"
    async with site(shelf, helpers, agents=[clerk, head], store=url, generator=runner()) as running:
        await running.key("olga", scopes=["capset:observe"])
        await running.key("boss", scopes=["capset:approve"])
        await running.key("eve", scopes=["capset:read", "capset:call"])
        await running.key("mallory", org="other", scopes=["capset:observe"])
        yield running


async def run(server: Site, ada: httpx2.AsyncClient) -> str:
    """Have ada take a turn, which the boss approves; return its id."""
    session = (await ada.post("/v1/sessions", json={"agent_id": "head"})).json()["id"]
    turn = (await send(ada, session, "put the milk there")).json()["turn"]
    request = (await read_until(ada, session, "turn.suspended"))[-2].data["data"]
    async with server.client("boss") as boss:
        assert (await boss.post(f"/v1/approvals/{request['id']}/approve", json={})).status_code == 200
    await read_until(ada, session, "turn.ended")
    return turn


@pytest.mark.spec("P99")
async def test_operators_see_all_runs_of_their_organisation_and_others_their_own(server: Site) -> None:
    async with server.client("ada") as ada, server.client("olga") as olga, server.client("eve") as eve:
        turn = await run(server, ada)
        (own,) = (await ada.get("/v1/runs")).json()["items"]
        assert (own["id"], own["state"], own["outcome"]) == (turn, "succeeded", {"output": "All is done."})
        assert own["usage"]["steps"] == 5
        (listed,) = (await olga.get("/v1/runs", params={"whose": "all"})).json()["items"]
        assert "outcome" not in listed or listed["outcome"] is None, "a list shows nothing that was said"
        assert (listed["id"], listed["principal"], listed["agent"]) == (turn, "ada", "head")
        minute = f"{own['created_at'][:16]}:00Z"
        for filters, count in (
            ({"principal": "ada"}, 1),
            ({"principal": "eve"}, 0),
            ({"agent": "head", "state": "succeeded", "session_id": own["session"]}, 1),
            ({"state": "failed"}, 0),
            ({"since": minute}, 1),
            ({"until": minute}, 0),
            ({"since": "2000-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}, 1),
        ):
            page = (await olga.get("/v1/runs", params={"whose": "all", **filters})).json()
            assert len(page["items"]) == count, filters
        sessions = (await olga.get("/v1/sessions", params={"whose": "all", "principal": "ada"})).json()["items"]
        assert [session["id"] for session in sessions] == [own["session"]]
        problem(await olga.get(f"/v1/sessions/{own['session']}"), 403, "permission_denied")
        for noun in ("runs", "sessions"):
            problem(await eve.get(f"/v1/{noun}", params={"whose": "all"}), 403, "permission_denied")
        problem(await eve.get("/v1/runs", params={"principal": "ada"}), 422, "invalid_arguments")
        assert (await eve.get("/v1/runs")).json()["items"] == []
        for path in ("", "/trace", "/events"):
            problem(await eve.get(f"/v1/runs/{turn}{path}"), 404, "not_found")
        async with server.client("mallory") as mallory:
            problem(await mallory.get(f"/v1/runs/{turn}/trace"), 404, "not_found")
            assert (await mallory.get("/v1/runs", params={"whose": "all"})).json()["items"] == []


@pytest.mark.spec("P99", "F36")
async def test_a_run_is_a_tree_of_steps_calls_and_agents(server: Site) -> None:
    async with server.client("ada") as ada, server.client("olga") as olga:
        turn = await run(server, ada)
        trace = (await olga.get(f"/v1/runs/{turn}/trace")).json()
        assert (trace["prompt"], trace["run"]["outcome"]) == ("put the milk there", {"output": "All is done."})
        first, second, third = trace["steps"]
        assert (first["text"], third["text"]) == ("I ask.", "All is done.")
        assert first["model"]["input_tokens"] > 0
        (asked,) = first["calls"]
        assert (asked["tool"], asked["outcome"], asked["decision"]) == ("helper", "succeeded", "allow")
        (inner,) = asked["agents"]
        assert (inner["agent"], [one["text"] for one in inner["steps"]]) == ("helper", [None, "I have looked."])
        (looked,) = inner["steps"][0]["calls"]
        assert (looked["tool"], looked["arguments"], looked["result"]) == ("look", {"place": "here"}, "seen here")
        (stored,) = second["calls"]
        assert stored["arguments"] == {"text": "milk", "password": "[redacted]"}
        assert stored["result"] == "seen there, put milk"
        assert [(one["status"], one["decided_by"]) for one in stored["approvals"]] == [("used", "user:boss")]
        assert [one["tool"] for one in stored["calls"]] == ["look"]
        assert stored["duration_us"] >= 0
        assert trace["calls"] == []
        assert trace["is_complete"]
        assert len(trace["waits"]) == 1
        (version,) = trace["versions"]
        async with server.client("ada") as reader:
            for name in ("static_hash", "runtime_hash", "prompt_hash"):
                assert (await reader.get(f"/v1/fingerprints/{version[name]}")).status_code == 200


@pytest.mark.spec("P99", "G39")
async def test_reading_the_run_of_another_is_on_record(server: Site) -> None:
    async with server.client("ada") as ada:
        turn = await run(server, ada)
        await ada.get(f"/v1/runs/{turn}/trace")
    async with Client(server.url, key=server.keys["olga"], plain_http=True) as olga:
        await olga.runs.get(turn)
        await olga.runs.trace(turn)
        async with olga.runs.events(turn) as events:
            kinds = [event.type async for event in events if event.type != "gap"]  # pyright: ignore[reportAttributeAccessIssue]  # none is a gap
        assert (kinds[0], kinds[-1]) == ("turn.started", "turn.ended")
    acts = await server.records(act="run.read", org="acme")
    assert [act.principal for act in acts] == ["olga"] * 3
    assert [part for act in acts for part in ("outcome", "trace", "events") if f'"{part}"' in act.arguments] == [
        "outcome",
        "trace",
        "events",
    ]
    async with server.client("ada") as ada:
        answer = await ada.get(f"/v1/runs/{turn}/events", params={"follow": False})
        assert events_of(answer.text)[-1].type == "turn.ended"


async def take_turn(client: httpx2.AsyncClient, session: str) -> str:
    """Have the clerk take a turn, and return its id."""
    turn = (await send(client, session, "what do you know?")).json()["turn"]
    await read_until(client, session, "turn.ended")
    return turn


@pytest.mark.spec("P99")
async def test_observers_see_no_secrets_in_arguments_outcomes_and_events(server: Site) -> None:
    masked, params = LEAK.replace("hunter2", "[redacted]"), {"follow": False}
    async with server.client("ada") as ada, server.client("olga") as olga:
        path = f"/v1/runs/{await run(server, ada)}/events"
        own, observed = [(await client.get(path, params=params)).text for client in (ada, olga)]
        assert ("hunter2" in own, "hunter2" in observed) == (True, False)
        assert [event.type for event in events_of(observed)] == [event.type for event in events_of(own)]
        session = (await ada.post("/v1/sessions", json={"agent_id": "clerk"})).json()["id"]
        path = f"/v1/runs/{await take_turn(ada, session)}"
        for client, output in ((ada, LEAK), (olga, masked)):
            assert (await client.get(path)).json()["outcome"] == {"output": output}
            ending = events_of((await client.get(f"{path}/events", params=params)).text)[-1]
            assert ending.data["data"] == {"output": output}
        trace = (await olga.get(f"{path}/trace")).json()
        assert (trace["run"]["outcome"], trace["steps"][0]["text"]) == ({"output": masked}, masked)


@pytest.mark.spec("P99")
async def test_a_trace_has_only_calls_of_its_session_and_its_own_versions(
    server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "_MAX_LINKS", 1)
    async with server.client("ada") as ada, server.client("eve") as eve:
        session = (await ada.post("/v1/sessions", json={"agent_id": "clerk"})).json()["id"]
        turns = [await take_turn(ada, session) for _ in range(2)]
        foreign = (await eve.post("/v1/sessions", json={"agent_id": "clerk"})).json()["id"]
        call = {"tool": "look", "arguments": {"place": "here"}}
        headers = {"X-Correlation-ID": turns[0]}
        assert (await eve.post(f"/v1/sessions/{foreign}/calls", json=call, headers=headers)).status_code == 200
        first, second = [(await ada.get(f"/v1/runs/{turn}/trace")).json() for turn in turns]
    assert first["calls"] == []
    assert (len(first["versions"]), len(second["versions"])) == (1, 1)
    assert first["versions"] != second["versions"]

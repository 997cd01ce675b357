"""``/v1/sessions/{id}/snapshot``: a decision with its reason for everything, and what was made at run time (F21)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from capset import (
    Agent,
    Capability,
    Policy,
    Preset,
    Principal,
    Toolkit,
    ToolkitContext,
    allow,
    compose,
    deny,
    dynamic_toolkit,
    evaluate,
    tool,
)
from capset.definitions.tools.toolkits import Member
from capset.fingerprint.hashes import invocation_hash, tool_hash
from capset.wire.snapshots import snapshot_shape
from tests.helpers.server.support import Site, call, site

everybody = Policy("everybody", lambda _: allow())
grown_ups = Policy("grown_ups", lambda _: deny("not before eighteen"))
failing = Policy("failing", lambda request: request.env["hunter2"])
at_calls = Policy("at_calls", lambda _: True, phase="call")


def named(name: str, *policies: Policy, **more: Any) -> Any:
    async def handler() -> str:
        """Do."""
        return name

    return tool(name=name, effect="read", policies=policies, **more)(handler)


@dynamic_toolkit(name="feeds")
def feeds(context: ToolkitContext) -> list[Member]:
    return [named(f"feed_of_{context.principal.id}"), Toolkit("by_agent", [named("own")])]


@dynamic_toolkit(name="secret", policies=[grown_ups])
def secret(context: ToolkitContext) -> list[Member]:
    raise AssertionError("it is not made")


club = Capability(
    "club",
    policies=[everybody],
    tools=[
        Toolkit("house", [named("sit", at_calls), Toolkit("bar", [named("drink", grown_ups)]), feeds, secret]),
        named("leave", failing),
    ],
)
guest = Agent("guest", uses=[club])


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    async with site(club, agents=[guest]) as server:
        yield server


async def shown(asker: httpx2.AsyncClient) -> tuple[str, dict[str, Any]]:
    session = (await asker.post("/v1/sessions", json={"agent_id": "guest"})).json()["id"]
    return session, (await asker.get(f"/v1/sessions/{session}/snapshot")).json()


@pytest.mark.spec("P8", "F21", "F15")
async def test_it_has_every_policy_s_decision_with_its_reason(asker: httpx2.AsyncClient) -> None:
    _, snapshot = await shown(asker)
    assert snapshot["decisions"] == [
        {"id": "everybody", "kind": "allow", "reason": None},
        {"id": "grown_ups", "kind": "deny", "reason": "not before eighteen"},
        {"id": "failing", "kind": "deny", "reason": "the policy failed, so it denies"},
    ]
    assert "hunter2" not in str(snapshot), "what a policy raised is for the record"


@pytest.mark.spec("P8", "F21")
async def test_every_tool_says_which_toolkits_and_gates_are_around_it(asker: httpx2.AsyncClient) -> None:
    _, snapshot = await shown(asker)
    tools = {tool["name"]: (tool["toolkits"], tool["policies"], tool["in_play"]) for tool in snapshot["tools"]}
    assert tools == {
        "sit": (["house"], ["everybody", "at_calls"], True),
        "drink": (["house", "bar"], ["everybody", "grown_ups"], False),
        "leave": ([], ["everybody", "failing"], False),
        "feed_of_ada": (["house", "feeds"], ["everybody"], True),
        "own": (["house", "feeds", "by_agent"], ["everybody"], True),
    }


@pytest.mark.spec("P8", "F5", "F18", "F21")
async def test_tools_that_were_made_for_it_are_there_and_can_be_called(asker: httpx2.AsyncClient) -> None:
    session, snapshot = await shown(asker)
    assert [tool["name"] for tool in snapshot["tools"] if tool["is_dynamic"]] == ["feed_of_ada", "own"]
    feed_toolkit, unmade = snapshot["toolkits"]
    assert feed_toolkit == {
        "path": "club.house.feeds",
        "in_play": True,
        "reason": "allowed by everybody",
        "policies": ["everybody"],
        "tools": ["feed_of_ada", "own"],
    }
    assert (unmade["path"], unmade["in_play"], unmade["tools"]) == ("club.house.secret", False, [])
    assert (unmade["reason"], unmade["policies"]) == ("not before eighteen", ["grown_ups"])
    called = (await call(asker, session, "feed_of_ada")).json()
    assert (called["data"], called["runtime_hash"]) == ("feed_of_ada", snapshot["runtime_hash"])


@pytest.mark.spec("P8", "F21")
async def test_its_labels_are_those_of_the_session_and_no_invocation_has_no_hash(asker: httpx2.AsyncClient) -> None:
    _, snapshot = await shown(asker)
    assert (snapshot["agent_id"], snapshot["agent_name"]) == ("guest", "guest")
    assert (snapshot["namespace"], snapshot["invocation_hash"]) == (None, None)


@pytest.mark.spec("F21", "F27")
async def test_what_a_dynamic_toolkit_makes_for_an_agent_is_made_for_its_id(asker: httpx2.AsyncClient) -> None:
    """The stored agent's id, as in a link; and the envelope has every gate of a tool that was made."""
    session, snapshot = await shown(asker)
    link = (await asker.post("/v1/links", json={"session_id": session})).json()
    assert link["agent_id"] == "guest"
    envelope = (await asker.get(f"/v1/envelopes/{link['envelope_id']}")).json()["envelope"]
    tools = {tool["name"]: tool for tool in envelope["runtime"]["tools"]}
    assert tools["own"]["policies"] == ["everybody"]
    assert {ref["name"]: ref["hash"] for ref in link["tool_refs"]} == {
        tool["name"]: tool["hash"] for tool in snapshot["tools"] if tool["in_play"]
    }


@pytest.mark.spec("F10", "F21")
async def test_labels_and_the_hash_of_an_invocation_are_shown_where_a_host_gives_them() -> None:
    plain = named("plain")
    composition = compose(Agent("a", uses=[Capability("c", tools=[plain])]))
    snapshot = await evaluate(
        composition, principal=Principal("ada"), namespace="north", agent_id="a-1", invocation={"tenant": "t"}
    )
    shape = snapshot_shape(snapshot)
    assert (shape.namespace, shape.agent_id, shape.agent_name) == ("north", "a-1", "a")
    assert shape.invocation_hash == invocation_hash({"tenant": "t"})
    assert (shape.decisions, shape.toolkits) == ([], [])
    assert [(tool.hash, tool.is_dynamic, tool.toolkits, tool.policies) for tool in shape.tools] == [
        (tool_hash(plain), False, [], [])
    ]


@pytest.mark.spec("F5", "F21")
async def test_each_dynamic_toolkit_has_the_tools_that_it_made_itself() -> None:
    """One of a preset's, one of an agent's own, and two whose names begin alike."""

    def making(name: str, tool_name: str) -> Any:
        return dynamic_toolkit(name=name)(lambda _: [named(tool_name)])

    kit = Capability("kit", presets={"more": Preset(tools=[making("feed", "a")])}, default=["more"])
    agent = Agent("kit_user", uses=[kit], tools=[making("own", "b"), making("own2", "c")])
    shape = snapshot_shape(await evaluate(compose(agent), principal=Principal("ada")))
    assert {toolkit.path: toolkit.tools for toolkit in shape.toolkits} == {
        "kit.more.feed": ["a"],
        "own": ["b"],
        "own2": ["c"],
    }

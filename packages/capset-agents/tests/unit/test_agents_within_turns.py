"""Agents that work within a call of a turn: their messages are kept with it, and the turn waits for them (R23, R25)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset import Agent, Capability, Decision, Request, allow, ask, policy
from capset.definitions.governance.approvals import Answer
from capset.errors import PermissionDenied
from capset.flows import Sequencer, as_tool, handler
from capset.stores.base import AuditQuery, SessionRow
from capset_agents.models import ModelChoice
from capset_agents.playback.scripts import Script, ScriptStep
from tests.helpers.agents.support import ADA, Shelf, Site, site
from tests.waiting import until


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """Return a call in a script."""
    return {"tool": tool, "arguments": arguments}


def calls(*several: dict[str, Any]) -> dict[str, Any]:
    """Return a step with calls."""
    return {"calls": list(several)}


def text(content: str) -> dict[str, Any]:
    """Return a step with a text."""
    return {"text": content}


def script(**agents: list[dict[str, Any]]) -> Any:
    """Return a model that follows a script for each of several agents."""
    return ModelChoice(Script({name: [ScriptStep(**step) for step in steps] for name, steps in agents.items()}))


def head_of(*agents: Agent, name: str = "head") -> Agent:
    """Return an agent whose tools are other agents."""
    tools = [as_tool(agent, effect="write", description="Works.") for agent in agents]
    return Agent(name, system_prompt="Have others work.", uses=[Capability(f"staff-of-{name}", tools=tools)])


async def outcomes(host: Site, row: SessionRow) -> list[tuple[str, str | None, str | None]]:
    """Return tool, outcome and causation of each record of a session, oldest first."""
    await host.kernel.audit.flush()
    records = (await host.kernel.audit.query(AuditQuery(session=row.id, limit=1_000))).items
    return [
        (record.tool, record.outcome, record.causation) for record in reversed(records) if record.phase == "outcome"
    ]


@pytest.fixture
def working() -> Any:
    """Give the model of a head whose helper puts something, burns something, and reports."""
    helper = [calls(call("put", text="a")), calls(call("burn", text="b")), text("It is burnt.")]
    return script(head=[calls(call("helper", input="go")), text("All is done.")], helper=helper)


@pytest.mark.spec("R25")
async def test_a_turn_waits_for_a_call_of_an_agent_that_works_for_another(url: str, shelf: Shelf, working: Any) -> None:
    """Also in another process, after a restart: the helper goes on where it was, and repeats nothing."""
    head = head_of(shelf.agent("helper"))
    async with site(url, shelf, [], agent=head, model=working) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, list(data["calls"])) == ("turn.suspended", ["call-1-1"]), "by the head's own call"
        assert shelf.done == ["put a"]
    async with site(url, shelf, [], agent=head, model=working) as second_host:
        await second_host.approve()
        await second_host.go_on()
        assert await second_host.last(row) == ("turn.ended", {"output": "All is done."})
        assert shelf.done == ["put a", "burn b"]
        assert await outcomes(second_host, row) == [
            ("put", "succeeded", "call-1-1/helper/call-1-1"),
            ("burn", "pending", "call-1-1/helper/call-2-1"),
            ("helper", "pending", "call-1-1"),
            ("burn", "succeeded", "call-1-1/helper/call-2-1"),
            ("helper", "succeeded", "call-1-1"),
        ]
        records = (await second_host.kernel.audit.query(AuditQuery(session=row.id))).items
        assert {record.correlation for record in records} == {turn}, "one correlation"
        rows = (await second_host.kernel.store.events.messages(row.id)).items
        inner = [json.loads(message_row.data) for message_row in rows if message_row.kind == "inner"]
        assert {inner_message["within"] for inner_message in inner} == {"call-1-1/helper"}
        assert "It is burnt." in json.dumps(inner[-1]["message"])
        head_messages = [json.loads(message_row.data) for message_row in rows if message_row.kind == "message"]
        assert '"put"' not in json.dumps(head_messages), "the head's conversation has only what the helper said"
        assert len(inner) == 6


@pytest.mark.spec("R25")
async def test_the_next_turn_reads_only_its_own_conversation(url: str, shelf: Shelf) -> None:
    helper = [calls(call("look", text="a")), text("Seen.")]
    model: Any = script(
        head=[calls(call("helper", input="go")), text("One."), calls(call("helper", input="again")), text("Two.")],
        helper=helper,
    )
    async with site(url, shelf, [], agent=head_of(shelf.agent("helper")), model=model) as host:
        row = await host.session()
        for output in ("One.", "Two."):
            await host.say(row, "go")
            assert await host.last(row) == ("turn.ended", {"output": output})
        assert shelf.done == ["look a", "look a"], "the helper begins again in each call"


@pytest.mark.spec("R25")
async def test_a_rejection_is_read_by_the_agent_that_asked(url: str, shelf: Shelf, working: Any) -> None:
    async with site(url, shelf, [], agent=head_of(shelf.agent("helper")), model=working) as host:
        row = await host.session()
        await host.say(row, "go")
        await host.approve(approved=False, note="not this one")
        await host.go_on()
        assert (await host.last(row))[0] == "turn.ended"
        assert shelf.done == ["put a"]
        rows = (await host.kernel.store.events.messages(row.id)).items
        kinds = [message_row.kind for message_row in rows if "not this one" in message_row.data]
        assert kinds == ["inner"]


@pytest.mark.spec("R25")
async def test_several_agents_wait_at_once_and_within_each_other(url: str, shelf: Shelf) -> None:
    """A head calls two, one of which has another work: both wait, and the turn goes on when both are decided."""
    deep = shelf.agent("deep")
    left, right = head_of(deep, name="left"), shelf.agent("right")
    model: Any = script(
        head=[calls(call("left", input="l"), call("right", input="r")), text("Both.")],
        left=[calls(call("deep", input="d")), text("Left is done.")],
        right=[calls(call("burn", text="r")), text("Right is done.")],
        deep=[calls(call("put", text="d"), call("burn", text="d")), text("Deep is done.")],
    )
    agent = head_of(left, right)
    async with site(url, shelf, [], agent=agent, model=model) as host:
        row = await host.session()
        await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, len(data["approvals"]), len(data["calls"])) == ("turn.suspended", 2, 2)
        await host.approve()
        await host.go_on()
        assert (await host.last(row))[0] == "turn.suspended"
    async with site(url, shelf, [], agent=agent, model=model) as second_host:
        await second_host.approve()
        await second_host.go_on()
        assert await second_host.last(row) == ("turn.ended", {"output": "Both."})
        assert sorted(shelf.done) == ["burn d", "burn r", "put d"]
        causes = {cause for tool, _, cause in await outcomes(second_host, row) if tool == "put"}
        assert causes == {"call-1-1/left/call-1-1/deep/call-1-1"}


@pytest.mark.spec("R25")
async def test_a_call_of_a_helper_whose_outcome_is_unknown_is_not_repeated(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.kernel.kernel.DRAIN_SECONDS", 0.1)
    helper = [calls(call("put", text="a")), calls(call("hang")), text("I stopped.")]
    model: Any = script(head=[calls(call("helper", input="go")), text("Done.")], helper=helper)
    head = head_of(shelf.agent("helper"))
    async with site(url, shelf, [], agent=head, model=model) as host:
        row = await host.session()
        await host.begin(row, "go")
        await until(lambda: "hang" in shelf.done)
    async with site(url, shelf, [], agent=head, model=model) as second_host:
        await second_host.go_on()
        assert await second_host.last(row) == ("turn.ended", {"output": "Done."})
        assert shelf.done == ["put a", "hang"]
        rows = (await second_host.kernel.store.events.messages(row.id)).items
        assert any("outcome_unknown" in message_row.data for message_row in rows if message_row.kind == "inner")


@pytest.mark.spec("R25", "T41")
async def test_no_agent_decides_for_those_it_works_for(url: str, shelf: Shelf, working: Any) -> None:
    """What a helper asks for is asked by the turn's principal, who decides no request of its own."""
    async with site(url, shelf, [], agent=head_of(shelf.agent("helper")), model=working) as host:
        row = await host.session()
        await host.say(row, "go")
        request = (await host.last(row))[1]["approvals"][0]
        approval = await host.kernel.store.approvals.get(None, request)
        assert approval is not None
        assert (approval.principal, approval.session, approval.agent) == ("user:ada", row.id, "helper")
        with pytest.raises(PermissionDenied):
            await host.kernel.approvals.decide(request, Answer(approved=True), by=ADA)
        assert (await host.last(row))[0] == "turn.suspended"


@pytest.mark.spec("R25")
async def test_a_flow_is_not_made_again_for_an_agent_in_it(url: str, shelf: Shelf) -> None:
    """Its own steps might be done twice: so the agent reads that an approval is needed, and the turn goes on."""
    model = script(
        head=[calls(call("flow", input="go")), text("Done.")],
        helper=[calls(call("burn", text="b")), text("I may not.")],
    )

    @handler()
    def note(content: str) -> str:
        shelf.done.append("noted")
        return content

    flow = Sequencer("flow", description="Notes, and has it burnt.").then(note).then(shelf.agent("helper"))
    head = Agent("head", uses=[Capability("staff", tools=[as_tool(flow, effect="write")])])
    async with site(url, shelf, [], agent=head, model=model) as host:
        row = await host.session()
        await host.say(row, "go")
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        assert shelf.done == ["noted"]


@policy
def helpers_are_asked_for(request: Request) -> Decision:
    return ask("a helper works") if request.arguments else allow()


@pytest.mark.spec("R25", "G3", "G16")
@pytest.mark.parametrize("rule", ["approval", "limit"])
async def test_a_call_that_goes_on_counts_once_and_needs_one_approval(url: str, shelf: Shelf, rule: str) -> None:
    burns = [calls(call("burn", text=text)) for text in "bc"]
    model = script(head=[calls(call("helper", input="go")), text("All is done.")], helper=[*burns, text("Burnt.")])
    policies = [helpers_are_asked_for] if rule == "approval" else []
    helper = as_tool(shelf.agent("helper"), effect="write", description="Works.", policies=policies)
    staff = Capability("staff", tools=[helper], limits=["1/1h"] if rule == "limit" else [])
    head = Agent("head", system_prompt="Have others work.", uses=[staff])
    async with site(url, shelf, [], agent=head, model=model) as host:
        row = await host.session()
        await host.say(row, "go")
        rounds = 0
        while (await host.last(row))[0] == "turn.suspended":
            rounds += 1
            await host.approve()
            await host.go_on()
        assert await host.last(row) == ("turn.ended", {"output": "All is done."})
        assert shelf.done == ["burn b", "burn c"]
        assert rounds == (3 if rule == "approval" else 2)

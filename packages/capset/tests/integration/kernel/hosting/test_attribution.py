"""Attribution: captured as a turn runs, recorded after it (spec 2, F24, F28, F29)."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Policy, Principal, tool
from capset.evaluation.snapshot.capture import envelope_of
from capset.evaluation.snapshot.envelope import SnapshotEnvelope, read_envelope
from capset.evaluation.snapshot.turns import record_turn
from capset.ext import SessionHooks, SessionTurn, TurnEnded
from capset.stores.base import LinkQuery
from tests.helpers.kernel.hosting.support import add, hosting
from tests.helpers.kernel.support import records_of

ADA = Principal("ada", org="acme")


@tool(policies=[Policy("pro", lambda request: request.env.get("tier") == "pro")])
async def export() -> str:
    """Export."""
    return "exported"


SELLER = Agent("seller", tools=[add, export], static_context={"shop": "north"})


async def capturing(turn: SessionTurn) -> SnapshotEnvelope:
    await turn.session.call(add, a=1, b=2)
    return envelope_of(turn.session.snapshot, session_context=dict(turn.context))


@pytest.mark.spec("F24", "F25", "F28", "F29")
async def test_each_turn_is_recorded_as_what_ran_and_a_move_of_its_runtime_hash_is_a_transition(store: str) -> None:
    async with hosting(store) as (kernel, host):

        async def attribute(turn: TurnEnded) -> None:
            about: Any = {"org": "acme", "metadata": {"said": turn.input}, "reason": "tier"}
            await record_turn(kernel.store, turn.output, session=turn.session.id, **about)

        hooks = SessionHooks(on_after_run=attribute)
        registered = await host.register(SELLER, agent_id="shop", org="acme", hooks=hooks, run=capturing)
        free = host.create_session("shop", principal=ADA, env={"tier": "free"}, invocation={"tenant": "acme"})
        await free.start("one")
        await free.start("two")
        pro = host.create_session("shop", principal=ADA, env={"tier": "pro"}, session_id=free.id)
        await pro.start("three")

        links = (await kernel.store.lineage.links(LinkQuery("acme", session=free.id))).items[::-1]
        assert [link.metadata for link in links] == ['{"said": "one"}', '{"said": "two"}', '{"said": "three"}']
        assert [[ref.name for ref in link.tool_refs] for link in links] == [["add"], ["add"], ["add", "export"]]
        owners = {(link.agent_id, link.agent_name, link.static_hash) for link in links}
        assert owners == {("shop", "seller", registered.static_hash)}
        assert [link.invocation_hash is None for link in links] == [False, False, True]
        (moved,) = await kernel.store.lineage.transitions("acme", free.id)
        assert (moved.from_link, moved.to_link, moved.reason) == (links[1].id, links[2].id, "tier")
        envelope = await kernel.store.lineage.envelope_of("acme", links[2].id)
        assert envelope is not None
        assert read_envelope(envelope.body).context == {"shop": "north"}
        recorded = [record.runtime_hash for record in await records_of(kernel.audit)]
        assert recorded == [link.runtime_hash for link in links]

"""Session attribution: which exact version answered each turn, captured as the turn ran and recorded after it."""

import asyncio
from dataclasses import dataclass

from capset import Agent, Kernel, Principal, Request, allow, deny, policy, tool
from capset.evaluation.snapshot.capture import envelope_of
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.evaluation.snapshot.turns import record_turn
from capset.ext import SessionHooks, SessionHost, SessionTurn, TurnEnded
from capset.stores.base import LinkQuery


@policy
def pro(request: Request):
    return allow() if request.env.get("tier") == "pro" else deny("export needs the pro tier")


@tool(effect="read")
def search(query: str) -> list[str]:
    """Search the notes."""
    return [note for note in ("buy milk", "call home") if query in note]


@tool(effect="read", policies=[pro])
def export() -> str:
    """Export the notes."""
    return "2 notes"


support = Agent("support", system_prompt="You help.", tools=[search, export], static_context={"language": "en"})


@dataclass
class Answer:
    text: str
    envelope: SnapshotEnvelope


async def run(turn: SessionTurn) -> Answer:
    # One evaluation: what is captured is what governs the calls of this turn, and what their records name.
    envelope = envelope_of(turn.session.snapshot, session_context=dict(turn.context))
    exported = await turn.session.try_call(export)
    matches = await turn.session.call(search, query=turn.input)
    return Answer(f"found {matches}; {exported.data or exported.error}", envelope)


async def main() -> None:
    async with Kernel(store="memory://") as kernel:

        async def attribute(turn: TurnEnded) -> None:
            tier = turn.session.snapshot.env["tier"]
            await record_turn(kernel.store, turn.output.envelope, session=turn.session.id, reason=f"the tier is {tier}")

        host = SessionHost(kernel)
        await host.register(
            support,
            hooks=SessionHooks(on_after_run=attribute),
            context=[{"channel": "chat"}, lambda text, so_far: {"words": len(text.split())}],
            run=run,
        )
        ada, invocation = Principal("ada"), {"tenant": "acme"}
        first = host.create_session("support", principal=ada, env={"tier": "free"}, invocation=invocation)
        print((await first.start("milk")).text)
        # The next day, in the pro tier: the same session goes on, and more of it is in play.
        resumed = host.create_session(
            "support", principal=ada, env={"tier": "pro"}, invocation=invocation, session_id=first.id
        )
        print((await resumed.start("home")).text)

        lineage = kernel.store.lineage
        for link in reversed((await lineage.links(LinkQuery(None, session=first.id))).items):
            envelope = await lineage.envelope_of(None, link.id)
            print(f"{link.agent_id} static {link.static_hash[:8]} runtime {link.runtime_hash[:8]}", end=" ")
            print("tools", [ref.name for ref in link.tool_refs], "envelope", envelope is not None)
        for moved in await lineage.transitions(None, first.id):
            print(f"moved from {moved.from_link[-4:]} to {moved.to_link[-4:]}: {moved.reason}")


asyncio.run(main())

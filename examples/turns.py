"""A session's agent takes a turn, and a client hears of it; then it comes again, and misses nothing."""

import asyncio

from capset import Agent, Capability, Context, Kernel, Principal, Registry, Resource, tool
from capset.wire.turns import EventShape
from capset_server.app import open_app
from capset_server.auth.callers import Caller
from capset_server.client import Client
from capset_server.http.request_rules import AllowedHosts
from capset_server.http.uvicorn_server import bind, make_server
from capset_server.service import Service
from capset_testing import Call, Say, ScriptedRunner

notes = Resource("notes", list[str], scope="session", default=list)


@tool(effect="write")
async def save_note(ctx: Context, text: str) -> int:
    """Save one note and return how many there are."""
    return len(await ctx.resource(notes).push(text))


note_taking = Capability("note_taking", tools=[save_note], resources=[notes], expose=["notes"])
scribe = Agent("scribe", system_prompt="Keep tidy notes.", uses=[note_taking])
runner = ScriptedRunner({"scribe": [Call(save_note, text="buy milk"), Say("noted")]})
anyone = Caller(Principal("ada"), frozenset({"capset:admin"}), None)


async def talk(client: Client) -> None:
    session = await client.sessions.create("scribe", invocation={"tenant": "acme"}, context={"ticket": 7})
    turn = await client.sessions.send(session.id, "remember the milk")
    async with client.sessions.events(session.id, after=turn.after) as events:
        async for event in events:
            if not isinstance(event, EventShape):
                continue  # a gap: more was told than is kept
            print(event.seq, event.type, event.data.get("tool") or event.data.get("output"))
            if event.type == "turn.ended":
                break
    async with client.sessions.events(session.id, after=1, follow=False) as replayed:
        print("missed nothing:", [event.type async for event in replayed if isinstance(event, EventShape)])
    print((await client.sessions.state(session.id)).plain())


async def main() -> None:
    async with Kernel(store="memory://", generator=runner) as kernel:
        service = Service(kernel, Registry.of([note_taking], [scribe]), anyone=anyone)
        async with open_app(service, AllowedHosts.of("127.0.0.1")) as app:
            socket = bind("127.0.0.1", 0)
            server = make_server(app, service.limits, lambda: None, service.turns.bell.close)
            serving = asyncio.create_task(server.serve([socket]))
            async with Client(f"http://127.0.0.1:{socket.getsockname()[1]}") as client:
                await talk(client)
            server.should_exit = True
            await serving


asyncio.run(main())

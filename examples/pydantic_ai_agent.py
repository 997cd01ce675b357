"""A pydantic-ai agent with governed tools: it reads its refusals, and everything is on record. No key, no network."""

import asyncio

import pydantic_ai
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from capset import Agent, Capability, Context, Decision, Kernel, Principal, Request, allow, deny, policy, tool
from capset.stores.base import AuditQuery
from capset_frameworks.pydantic_ai import CapsetCapability


@policy
async def only_food(request: Request) -> Decision:
    """Let nobody order fireworks."""
    is_food = (request.arguments or {}).get("article") != "fireworks"
    return allow() if is_food else deny("this shop sells food")


@tool(effect="write", permissions={"notes:write"})
async def save_note(ctx: Context, text: str) -> int:
    """Save one note and return how many there are."""
    notes = await ctx.files.list("/")
    await ctx.files.write(f"/note-{len(notes):04}.txt", text.encode())
    return len(notes) + 1


@tool(effect="external", permissions={"orders:write"}, policies=[only_food])
async def order(article: str, pieces: int = 1) -> str:
    """Order an article and return the order's number."""
    return f"{article}-{pieces}"


@tool(effect="destructive", permissions={"notes:delete"})
async def delete_notes(ctx: Context) -> int:
    """Delete every note and return how many there were."""
    notes = await ctx.files.list("/")
    for note in notes:
        await ctx.files.delete(note.path)
    return len(notes)


household = Capability("household", instructions="Note first, then order.", tools=[save_note, order, delete_notes])
butler = Agent("butler", system_prompt="You keep a household.", uses=[household])


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand in for a model, which would be named instead: pydantic_ai.Agent("anthropic:…")."""
    steps = [
        [
            ToolCallPart("save_note", {"text": "buy milk"}),
            ToolCallPart("order", '{"article": "milk", "pieces": "two"}'),
        ],
        [ToolCallPart("order", {"article": "milk", "pieces": 2}), ToolCallPart("order", {"article": "fireworks"})],
    ]
    step = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(steps[step] if step < len(steps) else [TextPart("Milk is on its way; fireworks are not.")])


async def main() -> None:
    agent = pydantic_ai.Agent(FunctionModel(scripted))
    ada = Principal("ada", permissions={"notes:write", "orders:write"})
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(butler, principal=ada) as session:
        print("delete_notes is not offered:", session.snapshot.explain("delete_notes").reason)
        result = await agent.run("Milk is out.", capabilities=[CapsetCapability(session)])
        for message in result.all_messages():
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    print(f"\n{part.tool_name} {part.outcome}: {part.content}")
        print(f"\n{result.output}\n")

        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery(correlation=result.run_id))).items):
            print(record.tool, record.outcome, "tool", str(record.tool_hash)[:12], "runtime", record.runtime_hash[:12])
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())

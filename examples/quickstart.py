"""Define a capability, give it to an agent, and make governed, recorded calls."""

import asyncio

from capset import Agent, Capability, Context, Decision, Kernel, Principal, Request, allow, deny, policy, tool


@policy
async def pro_tier(request: Request) -> Decision:
    """Let only the pro tier export."""
    return allow() if request.env["tier"] == "pro" else deny("export needs the pro tier")


@tool(effect="write", permissions={"notes:write"})
async def save_note(ctx: Context, text: str) -> int:
    """Save one note and return how many there are.

    Args:
        text: What to remember, in one line.
    """
    notes = await ctx.files.list("/")
    await ctx.files.write(f"/note-{len(notes):04}.txt", text.encode())
    return len(notes) + 1


@tool(effect="read", policies=[pro_tier])
async def export_notes(ctx: Context, heading: str) -> str:
    """Export every note as Markdown."""
    contents = [(await ctx.files.read(note.path))[1].decode() for note in await ctx.files.list("/")]
    return "\n".join([f"# {heading}", *(f"- {note}" for note in contents)])


note_taking = Capability(
    "note_taking",
    description="Keeps notes for as long as the session lives.",
    instructions="Save what the user wants to remember, one note a thought.",
    tools=[save_note, export_notes],
)
scribe = Agent("scribe", system_prompt="Keep tidy notes.", uses=[note_taking])


async def main() -> None:
    writer = Principal("user-1", permissions={"notes:write"})
    async with Kernel(store="sqlite:///capset.db") as kernel:
        async with kernel.open(scribe, principal=writer, env={"tier": "pro"}) as session:
            print("runtime hash", session.snapshot.runtime_hash)
            await session.call(save_note, "buy milk")
            count: int = await session.call(save_note, text="call home")
            print(count, "notes")
            print(await session.options(timeout=5).call(export_notes, heading="Today"))

        async with kernel.open(scribe, principal=writer, env={"tier": "free"}) as session:
            print("export_notes:", session.snapshot.explain("export_notes").reason)
            result = await session.try_call(export_notes, heading="Today")
            assert result.error is not None
            print(result.error.status, result.error.message)

        verification = await kernel.audit.verify()
        print(f"{verification.checked} records, chain holds: {verification.ok}")


asyncio.run(main())

"""A session's files under a quota: what does not fit is refused whole, and what goes makes room again."""

import asyncio

from capset import Agent, Context, Kernel, Principal, tool
from capset.definitions.governance.settings import Governance
from capset.errors import QuotaExceeded


@tool
async def keep(ctx: Context, name: str, text: str) -> int:
    """Keep a text, and return the version of its file."""
    stat, _ = await ctx.files.write(f"/inbox/{name}", text.encode())
    return stat.version


clerk = Agent("clerk", system_prompt="Keep what comes in.", tools=[keep])


async def main() -> None:
    small = Governance(file_bytes=40, session_bytes=60, session_files=3)
    async with (
        Kernel(store="sqlite:///clerk.db", governance=small) as kernel,
        kernel.open(clerk, principal=Principal("ada")) as session,
    ):
        await session.call(keep, "one.txt", "Bring your own mug.")
        await session.call(keep, "two.txt", "The kettle is on the third floor.")
        refused = await session.try_call(keep, "three.txt", "No more than this.")
        if refused.error is not None:
            print(refused.error.code, "-", refused.error.message)

        moved = await session.files.move("/inbox", "/read")
        print([f"{file.path} v{file.version}" for file in await session.files.list("/", recursive=True)])
        await session.files.delete(f"{moved.path}/two.txt")
        print("three.txt has version", await session.call(keep, "three.txt", "No more than this."))
        try:
            await session.files.write("/read/one.txt", b"x" * 41)
        except QuotaExceeded as error:
            print(error.status, error.message)
        files = await session.files.read_many(["/read/one.txt", "/read/two.txt", "/inbox/three.txt"])
        print([content.decode() for _, content in files])


asyncio.run(main())

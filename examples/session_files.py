"""A session's files: edits by several at once, a write that overwrites nobody, and a large file read in parts."""

import asyncio
from typing import Any

from capset import Agent, Kernel, Principal, Session, ToolError
from capset_tools.session_file_system import session_file_system


async def use(session: Session, name: str, **arguments: Any) -> Any:
    return await session.call(session.snapshot.tools[name].tool, **arguments)


async def main() -> None:
    clerk = Agent("clerk", uses=[session_file_system])
    ada = Principal("ada", permissions=["session_files:read", "session_files:write"])
    async with Kernel("sqlite:///files.db") as kernel, kernel.open(clerk, principal=ada) as session:
        await use(session, "write_file", path="/plan.md", content="- [ ] brew\n- [ ] pour\n- [ ] drink\n")
        # Three edits at one time: each is made in what the file holds by then, and none is lost.
        steps = [("[ ] brew", "[x] brew"), ("[ ] pour", "[x] pour"), ("[ ] drink", "[ ] drink slowly")]
        edits = [use(session, "edit_file", path="/plan.md", old_text=old, new_text=new) for old, new in steps]
        await asyncio.gather(*edits)
        plan = await use(session, "read_file", path="/plan.md")
        print(plan["content"], "version", plan["version"])

        for name, arguments in (
            ("edit_file", {"old_text": "[x]", "new_text": "[ ]"}),
            ("edit_file", {"old_text": "-  [x] pour", "new_text": ""}),
            ("write_file", {"content": "mine", "version": 1}),
        ):
            try:
                await use(session, name, path="/plan.md", **arguments)
            except ToolError as error:
                print(f"{error.code}: {error.message}")

        await use(session, "move_file", source="/plan.md", target="/done/tea.md")
        await use(session, "write_file", path="/log.txt", content="kettle on\n" * 20_000)
        offset: int | None = 0
        while offset is not None:
            part = await use(session, "read_file", path="/log.txt", offset=offset)
            print(f"lines {part['offset']} to {part['next_offset'] or part['total']} of {part['total']}")
            offset = part["next_offset"]
        listing = await use(session, "list_directory", recursive=True)
        print([entry["path"] for entry in listing["entries"]])


asyncio.run(main())

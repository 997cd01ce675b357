"""Read files of one folder of the host's, and of no other: neither by .. nor by a link."""

import asyncio
from pathlib import Path

from capset import Agent, Kernel, Principal
from capset_tools.files import FilesConfig, files

workspace = Path("workspace")
(workspace / "docs").mkdir(parents=True)
(workspace / "docs" / "readme.txt").write_text("Bring your own mug.\n")
Path("private.txt").write_text("nobody's business")
(workspace / "link.txt").symlink_to(Path("private.txt").resolve())

reader = Agent(
    "reader", system_prompt="You know the handbook.", uses=[files.with_config(FilesConfig(max_bytes=10_000))]
)


async def main() -> None:
    ada = Principal("ada", permissions={"file:read"})
    async with (
        Kernel(store="memory://", workspace=workspace) as kernel,
        kernel.open(reader, principal=ada) as session,
    ):
        read = session.snapshot.tools["file_read"].tool
        print((await session.call(read, path="docs/readme.txt"))["content"], end="")
        for path in ("../private.txt", "link.txt", "/etc/passwd", "docs"):
            result = await session.try_call(read, path=path)
            print(f"{path}:", result.error.message if result.error else result.data)


asyncio.run(main())

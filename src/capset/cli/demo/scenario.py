"""The agent of the demo, and the calls that it makes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from rich.console import Console

from capset.cli.demo.report import Findings, render_report
from capset.cli.demo.showing import show_call
from capset.definitions.agents import Agent
from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.kernel.results import Result
from capset.kernel.session import Session

CAPABILITIES: Final = ("session_file_system", "test_math", "stateless_todo_list")
ANALYST: Final = Principal("analyst", permissions={"session_files:read", "session_files:write"})
VISITOR: Final = Principal("visitor", permissions={"session_files:read"})
_STEPS: Final = (
    ("Look around", "Looking around"),
    ("Measure", "Measuring"),
    ("Write the report", "Writing the report"),
)


class _Stopped(Exception):
    """A call failed that the next ones build on; the surprises name it."""


class Demo:
    """One run: a session that may write, one that may not, its report, and whatever did not go as it should."""

    def __init__(self, kernel: Kernel, session: Session, visitor: Session) -> None:
        self.kernel = kernel
        self.session = session
        self.report = ""
        self.surprises: list[str] = []
        self._visitor = visitor

    async def run(self, console: Console) -> None:
        """Make every call, showing each; the first that fails, but should not, is the last."""
        self._console = console
        with contextlib.suppress(_Stopped):
            await self._work()

    async def _work(self) -> None:
        await self._ask("stateless_todo_list.write_todos", todos=_todos(0))
        listing = await self._ask("session_file_system.list_directory", path="/", recursive=True)
        files = [entry for entry in listing["entries"] if not entry["is_directory"]]
        files.sort(key=lambda entry: (-entry["size_bytes"], entry["path"]))
        sizes = [entry["size_bytes"] for entry in files[:3]] or [0]
        total = sizes[0]
        for size in sizes[1:]:
            total = (await self._ask("test_math.add", a=total, b=size))["result"]
        mean = (await self._ask("test_math.divide", a=total, b=len(sizes)))["result"]
        largest = files[0]["path"] if files else "/"
        await self._ask("session_file_system.stat_file", path=largest)
        hits = await self._ask("session_file_system.grep_files", pattern=r"(?i)\bhash(es|ed)?\b", context_lines=1)
        notes = await self._ask("session_file_system.grep_files", pattern="^#+ ", path_pattern="*.md", max_matches=20)
        opening = await self._ask("session_file_system.read_file", path=largest, limit=5) if files else {"content": ""}
        await self._ask("stateless_todo_list.write_todos", todos=_todos(2))
        self.report = render_report(Findings(files, total, mean, hits, notes, opening["content"]))
        await self._ask("session_file_system.write_file", path="/report.md", content=self.report)
        kept = await self._ask("session_file_system.read_file", path="/report.md")
        self.report = kept["content"]
        await self._ask("stateless_todo_list.write_todos", todos=_todos(3))
        await self._refused(self._visitor, 403, "session_file_system.write_file", path="/x.md", content="mine now")
        await self._refused(self.session, 422, "session_file_system.stat_file", path=7, pth="/report.md")

    async def _ask(self, tool: str, **arguments: Any) -> Any:  # JSON data, of whatever shape the tool has
        result, data = await self._call(self.session, tool, arguments)
        if result.error is not None:
            self.surprises.append(f"{tool} failed: {result.error.message}")
            raise _Stopped
        return data

    async def _refused(self, session: Session, status: int, tool: str, **arguments: Any) -> None:
        result, _ = await self._call(session, tool, arguments)
        if result.error is None or result.error.status != status:
            self.surprises.append(f"{tool} should have been refused with {status}")

    async def _call(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> tuple[Result[Any], Any]:
        data: Any = None
        async with session.invoke(session.message(tool, arguments)) as messages:
            async for message in messages:
                data = message.data if message.kind == "reply" else data
        show_call(self._console, tool, arguments, messages.result, data)
        return messages.result, data


@contextlib.asynccontextmanager
async def open_demo(store: str) -> AsyncGenerator[Demo]:
    """Open the demo's agent twice on one store: for a principal that may write, and for one that may only read."""
    registry = Registry.installed()
    agent = Agent(
        "librarian",
        system_prompt="You keep a library of files. Measure before you judge, and report what you found.",
        uses=[registry.get(name) for name in CAPABILITIES],
    )
    async with (
        Kernel(store=store) as kernel,
        kernel.open(agent, principal=ANALYST) as session,
        kernel.open(agent, principal=VISITOR) as visitor,
    ):
        yield Demo(kernel, session, visitor)


def _todos(done: int) -> list[dict[str, str]]:
    def status(position: int) -> str:
        return "completed" if position < done else "in_progress" if position == done else "pending"

    return [
        {"content": content, "activeForm": active, "status": status(position)}
        for position, (content, active) in enumerate(_STEPS)
    ]

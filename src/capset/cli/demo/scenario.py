"""The agent of the demo, and its calls."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from capset.cli.demo.display import Calls, Stopped
from capset.definitions.agents import Agent
from capset.definitions.principals import Principal
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry

CAPABILITIES: Final = ("session_file_system", "test_math", "stateless_todo_list")
ANALYST: Final = Principal("analyst", permissions={"session_files:read", "session_files:write"})
VISITOR: Final = Principal("visitor", permissions={"session_files:read"})
_STEPS: Final = (
    ("Look around", "Looking around"),
    ("Measure", "Measuring"),
    ("Write the report", "Writing the report"),
)


class Demo:
    """One run: a session that may write, one that may not, the calls of both, and the report."""

    def __init__(self, kernel: Kernel, session: Session, visitor: Session, calls: Calls) -> None:
        self.kernel = kernel
        self.session = session
        self.calls = calls
        self.report = ""
        self.sizes: list[int] = []
        """The sizes of the largest files, the subject of the report."""
        self._visitor = visitor

    async def run(self) -> None:
        """Make every call, showing each; stop at the first unexpected failure."""
        with contextlib.suppress(Stopped):
            await self._work()

    async def _work(self) -> None:
        await self._ask("stateless_todo_list.write_todos", todos=_todos(0))
        listing = await self._ask("session_file_system.list_directory", path="/", recursive=True)
        files = [entry for entry in listing["entries"] if not entry["is_directory"]]
        files.sort(key=lambda entry: (-entry["size_bytes"], entry["path"]))
        self.sizes = [entry["size_bytes"] for entry in files[:3]] or [0]
        total = self.sizes[0]
        for size in self.sizes[1:]:
            total = (await self._ask("test_math.add", a=total, b=size))["result"]
        mean = (await self._ask("test_math.divide", a=total, b=len(self.sizes)))["result"]
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
        write, stat = "session_file_system.write_file", "session_file_system.stat_file"
        await self.calls.refused(self._visitor, "permission_denied", write, path="/x.md", content="mine now")
        await self.calls.refused(self.session, "invalid_arguments", stat, path=7, pth="/report.md")

    async def _ask(self, tool: str, **arguments: Any) -> Any:  # JSON data, in the tool's own shape
        return await self.calls.ask(self.session, tool, **arguments)


@contextlib.asynccontextmanager
async def open_demo(store: str, console: Console) -> AsyncGenerator[Demo]:
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
        yield Demo(kernel, session, visitor, Calls(console))


def _todos(done: int) -> list[dict[str, str]]:
    def status(position: int) -> str:
        return "completed" if position < done else "in_progress" if position == done else "pending"

    return [
        {"content": content, "activeForm": active, "status": status(position)}
        for position, (content, active) in enumerate(_STEPS)
    ]


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of the calls, as JSON data: files by size, sums over the three largest, and search results."""

    files: list[dict[str, Any]]
    total: float
    mean: float
    hits: dict[str, Any]
    headings: dict[str, Any]
    opening: str


def render_report(found: Findings) -> str:
    """Return the findings as Markdown."""
    lines = ["# What is in these files", "", f"{len(found.files)} files. The largest:", ""]
    lines += ["| file | bytes |", "|---|---:|"]
    lines += [f"| {entry['path']} | {entry['size_bytes']:,} |" for entry in found.files[:3]]
    lines += ["", f"Together {found.total:,} bytes, {found.mean:,.1f} on average.", ""]
    many = " or more" if found.hits["truncated"] else ""
    lines += [f"The word *hash* stands in {found.hits['match_count']}{many} lines. The first:", ""]
    lines += [f"- `{hit['path']}:{hit['line']}`: {hit['text'].strip()}" for hit in found.hits["matches"][:5]]
    if found.headings["matches"]:
        lines += ["", "Headings met on the way:", ""]
        lines += [f"- {hit['text'].lstrip('# ').strip()}" for hit in found.headings["matches"][:10]]
    fence = "~~~~"
    lines += ["", "The largest file begins:", "", fence, *found.opening.splitlines(), fence, ""]
    return "\n".join(lines)

"""The last part of the demo: the agent runs by itself, offline, with a script in place of a model."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from capset.definitions.capabilities import Capability
from capset.definitions.governance.approvals import Answer
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import tool
from capset.extras import install_command
from capset.kernel.kernel import Kernel
from capset.stores.base import ApprovalQuery
from capset.wire.operations import GovernedCallShape
from capset.wire.turns import EventShape
from capset_cli.common.exits import missing_modules
from capset_cli.common.output import cell, err, escaped
from capset_cli.common.settings import Settings
from capset_cli.conversation.conversations import LocalConversation
from capset_cli.demo.scenario import ANALYST, librarian

MODULES: Final = ("pydantic_ai",)
EDITOR: Final = Principal("editor")
TASK: Final = "Find out what these files say about hashes, and file a report."
EXPECTED: Final = (
    *(("write_todos", None), ("grep_files", None), ("shred", "permission_denied")),
    *(("write_file", None), ("file_report", None)),
)
"""The agent's tool calls in order, each with the code of its expected refusal, if any."""
_PATTERN: Final = r"(?i)\bhash(es|ed)?\b"
_REPORT: Final = "# Hashes\n\nThe word stands in these files; grep_files lists the lines.\n"


@tool(effect="destructive", permissions=["archive:shred"])
async def shred(path: str) -> str:
    """Destroy a file for good.

    Args:
        path: The file.
    """
    return f"{path} is gone"


@tool(effect="external", approval="ask")
async def file_report(path: str) -> str:
    """File a report where everybody reads it.

    Args:
        path: The report.
    """
    return f"{path} is filed"


archive = Capability("archive", tools=[shred, file_report])


async def take_turn(console: Console, store: str, session: str) -> list[EventShape] | None:
    """Have the agent do a task in a session with files, and return the events; ``None`` if the extra is missing."""
    if missing_modules(*MODULES):
        needed = escaped(install_command("agent"))
        err().print(f"[yellow]skipped:[/] running an agent needs {needed}", soft_wrap=True)
        return None
    from capset_agents.playback.script_model import ScriptedModel
    from capset_agents.playback.scripts import Call
    from capset_agents.runner import AgentRunner
    from capset_cli.conversation.view import TurnView

    plan = [{"content": "Find the word", "activeForm": "Finding the word", "status": "in_progress"}]
    model = ScriptedModel(
        Call("write_todos", todos=plan),
        Call("grep_files", pattern=_PATTERN, max_matches=3),
        Call("shred", path="/report.md"),
        Call("write_file", path="/hashes.md", content=_REPORT),
        Call("file_report", path="/hashes.md"),
        "I found the word, was not allowed to shred the old report, and filed mine once the editor had approved it.",
    )
    events, view = list[EventShape](), TurnView(console=console)
    async with Kernel(store=store, generator=AgentRunner(model)) as kernel:
        row = await kernel.find_session(session)
        assert row is not None  # noqa: S101  # created in the first part
        conversation = LocalConversation(kernel, row, librarian(archive), Settings(store, ANALYST, env={}), EDITOR.id)
        console.print(f"[bold]task[/] {cell(TASK)}")
        async for event in conversation.events(*await conversation.send(TASK)):
            view.show(event)
            events.append(event)
            if event.type == "turn.suspended":
                await _approve(console, kernel, conversation, event)
    return events


async def _approve(console: Console, kernel: Kernel, conversation: LocalConversation, event: EventShape) -> None:
    """Have the editor approve the request that the turn waits for, and resume the turn."""
    (request, *_) = (await kernel.approvals.list(ApprovalQuery(None, "pending"))).items
    await conversation.decide(request.id, Answer(approved=True))
    console.print(f"[bold]editor[/] approves {cell(request.tool)} {cell(request.arguments)}")
    await conversation.turns.wait(event.turn)
    await conversation.turns.continue_due()


def calls_of(events: list[EventShape]) -> list[GovernedCallShape]:
    """Return the agent's calls; the approved one has its request."""
    approvals_by_tool = {event.data["tool"]: event.data["id"] for event in events if event.type == "approval.requested"}
    return [
        GovernedCallShape(
            tool=event.data["tool"],
            code=event.data["code"],
            approval=approvals_by_tool.get(event.data["tool"]),
            record=event.data["record"],
        )
        for event in events
        if event.type == "tool.result"
    ]


def surprises_of(events: list[EventShape]) -> list[str]:
    """Return the unexpected outcomes."""
    calls = [(call.tool, call.code) for call in calls_of(events)]
    surprises = [] if calls == [*EXPECTED] else [f"the agent's calls ended as {calls}"]
    if events[-1].type != "turn.ended":
        surprises.append(f"the agent's turn ended with {events[-1].type}")
    return surprises

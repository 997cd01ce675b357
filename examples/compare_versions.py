"""Two versions of an agent: what is other in the second, and who would notice."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from capset import Agent, Capability, Principal, Request, allow, deny, policy, tool
from capset.evaluation.compare.comparison import diff_envelopes
from capset.evaluation.compare.report import format_diff_report
from capset.evaluation.snapshot.capture import capture

NOTES = ["tea", "coffee"]
Few = Annotated[int, Field(le=10, description="How many notes at most.")]
Many = Annotated[int, Field(le=100, description="How many notes at most.")]


@policy
def pro_tier(request: Request) -> Any:
    return allow() if request.env.get("tier") == "pro" else deny("export needs the pro tier")


@tool(effect="read")
def find_notes(query: str, limit: Few = 5) -> list[str]:
    """Find notes."""
    return [note for note in NOTES if query in note][:limit]


@tool(name="find_notes", effect="read")
def find_more_notes(query: str, limit: Many = 5) -> list[str]:
    """Find notes by any word in them."""
    return [note for note in NOTES if query in note][:limit]


@tool(effect="destructive", permissions=["notes:write"])
def delete_note(name: str) -> None:
    """Delete a note for good."""
    NOTES.remove(name)


@tool(effect="read", policies=[pro_tier])
def export_notes() -> str:
    """Give all notes as one text."""
    return "\n".join(NOTES)


def librarian(prompt: str, *tools: Any) -> Agent:
    return Agent("librarian", system_prompt=prompt, uses=[Capability("notes", tools=tools)])


async def main() -> None:
    ann = Principal("ann", permissions=["notes:write"])
    first = librarian("You keep notes.", find_notes, delete_note)
    second = librarian("You keep notes. Delete nothing.", find_more_notes, export_notes)

    before = await capture(first, principal=ann, env={"tier": "pro"})
    after = await capture(second, principal=ann, env={"tier": "pro"})
    print(format_diff_report(diff_envelopes(before.envelope, after.envelope), width=100))

    # The same agent for somebody who pays nothing: not another definition, but a policy that flips.
    free = await capture(second, principal=ann, env={"tier": "free"})
    flipped = diff_envelopes(after.envelope, free.envelope)
    assert [(flipped_policy.id, flipped_policy.kind) for flipped_policy in flipped.policies or ()] == [
        ("pro_tier", "flipped")
    ]
    assert [changed_hash.name for changed_hash in flipped.links.hashes] == ["runtime"]

    # Whoever has the files can compare them. A build stops at what it did not expect: exit code 3.
    Path("pro.json").write_text(after.envelope.to_json(), encoding="utf-8")
    Path("free.json").write_text(free.envelope.to_json(), encoding="utf-8")
    print("\n$ capset diff pro.json free.json --exit-code", flush=True)
    done = subprocess.run(["capset", "diff", "pro.json", "free.json", "--exit-code"], check=False)
    assert done.returncode == 3


asyncio.run(main())

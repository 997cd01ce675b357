"""A replay as text, for people (spec 2, F33)."""

from __future__ import annotations

from collections.abc import Iterator

from capset.evaluation.compare.report import Line, plain, report_lines
from capset.evaluation.replay.evaluation import Replay


def replay_lines(replay: Replay, *, width: int = 120) -> Iterator[Line]:
    """Yield a replay line by line: the tools still in play, the comparison, why tools are gone, and the consequences.

    Texts of others in it contain no unprintable characters.
    """
    then, now = len(replay.then.link.tool_refs), len(replay.now.link.tool_refs)
    changed = {one.name for one in replay.changed}
    name = replay.then.link.agent_name
    yield Line("", 0, plain(f"{name} as seen by {replay.principal.id}: {_tools(then)} then, {now} now"))
    yield Line("", 0, "")
    sections = {
        "in play then and now, and the same": (Line("=", 0, plain(one)) for one in replay.both if one not in changed),
        "not in play any more": (Line("-", 0, plain(f"{one.name}  {one.reason}")) for one in replay.gone),
        "hydrate": _hydrate(replay),
        "env that was not kept": (Line("", 2, plain(path)) for path in replay.dropped),
        "left out": (Line("", 2, plain(note)) for note in replay.notes),
    }
    yield from report_lines(replay.diff, width=width)
    for heading, found in sections.items():
        if lines := list(found):
            yield Line("", 0, "")
            yield Line("#", 0, heading)
            yield from lines


def _tools(count: int) -> str:
    return f"{count} tool" if count == 1 else f"{count} tools"


def _hydrate(replay: Replay) -> Iterator[Line]:
    refusal = replay.refusal
    if refusal is None:
        yield Line("=", 0, "takes the envelope")
        return
    yield Line("~", 0, f"refuses the envelope{'' if refusal.fields else f': {plain(refusal.message)}'}")
    yield from (Line("", 4, plain(field.expected)) for field in refusal.fields)

from __future__ import annotations

import pytest

from capset import Agent, Capability, compose

NOTES = Capability("notes:main", instructions=["Keep notes.", "Keep <b>all</b> & more."])
SILENT = Capability("silent")
FILES = Capability("files", instructions="Read \u65e5\u672c.\nThen write.")
GONE = Capability("gone", status="retired", instructions="Never.")

WHOLE = """\
<capability id="notes:main">
Keep notes.

Keep <b>all</b> & more.
</capability>

<capability id="files">
Read \u65e5\u672c.
Then write.
</capability>

You are tidy.

First.

Second
line."""


@pytest.mark.spec("C21", "C17")
def test_the_system_text_is_each_part_in_its_place() -> None:
    agent = Agent(
        "a",
        system_prompt="\n You are tidy. \n",
        instructions=[" First. ", "", "Second\nline."],
        uses=[NOTES, SILENT, GONE, FILES, NOTES],
    )
    composition = compose(agent)
    assert composition.system_text == WHOLE
    assert composition.instructions == (*NOTES.part.instructions, *FILES.part.instructions, "First.", "Second\nline.")


@pytest.mark.spec("C21")
@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (Agent("a"), ""),
        (Agent("a", system_prompt=" \n"), ""),
        (Agent("a", system_prompt="Be."), "Be."),
        (Agent("a", instructions=["One.", "Two."]), "One.\n\nTwo."),
        (Agent("a", uses=[SILENT]), ""),
        (Agent("a", uses=[SILENT], system_prompt="Be."), "Be."),
        (Agent("a", uses=[FILES]), '<capability id="files">\nRead \u65e5\u672c.\nThen write.\n</capability>'),
    ],
)
def test_what_is_empty_leaves_no_trace(agent: Agent, text: str) -> None:
    assert compose(agent).system_text == text

"""The tutorials on the command line are followed as they are written, and print what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.packages import ROOT
from tests.helpers.consoles import File, Terminal, Typed, follow, steps

PAGES = ["acting-for-a-user", "auditor", "first-agent", "first-server", "gateway", "mcp-servers", "package"]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_can_be_followed(name: str, tmp_path: Path) -> None:
    assert follow(ROOT / "docs" / "guide" / f"{name}.md", tmp_path) >= 5


@pytest.mark.realtime
def test_what_is_not_as_shown_is_noticed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    terminal = Terminal(tmp_path)
    request.addfinalizer(terminal.close)
    terminal.type(Typed("echo one 0199c1f2-aaaa-7000-8000-0123456789ab", "one 01a2-…".replace("01a2", "01a209a6-c3c9")))
    terminal.type(Typed("echo 01a209a6-c3c9-…", "0199c1f2-aaaa-7000-8000-0123456789ab"))
    for wrong in ("two", "one\nmore", ""):
        with pytest.raises(AssertionError, match="the page shows"):
            terminal.type(Typed("echo one", wrong))
    with pytest.raises(AssertionError, match="the page shows"):
        terminal.type(Typed("echo 0199c1f2-bbbb-7000-8000-0123456789ab", "01a209a6-c3c9-…"))


def test_files_and_commands_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```yaml title="a.yaml"\na: 1\n```\n\n```text\n$ cat a.yaml\na: 1\n$ true\n```\n', encoding="utf-8")
    assert list(steps(page)) == [File("a.yaml", "a: 1\n"), Typed("cat a.yaml", "a: 1"), Typed("true", None)]

"""The pages whose snippets are one program, run as that; what a comment `#>` shows is what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.packages import ROOT
from tests.helpers.cli.forking import warm
from tests.helpers.cli.support import ENVIRON
from tests.helpers.snippets import CAPABILITIES, blocks

GUIDE = [
    "agent-budgets",
    "agents",
    "apis",
    "approvals",
    "audit",
    "using-capabilities",
    "approvals-where-people-are",
    "authoring-capabilities",
    "blocks",
    "extracting-capabilities",
    "first-agent-in-python",
    "fingerprints",
    "governance",
    "interop",
    "mcp-offers",
    "sessions",
    "streams",
    "toolkits",
    "turns",
]
PAGES = [
    ROOT / "docs" / "index.md",
    *(ROOT / "docs" / "guide" / f"{name}.md" for name in GUIDE),
    *(page for page in CAPABILITIES if blocks(page)),
]
RUN = Path(__file__).with_name("page.py")


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    program = "\n".join(blocks(page))
    file, folder = tmp_path / page.name, tmp_path / "here"
    file.write_text(program, encoding="utf-8")
    folder.mkdir()
    code, out, err = warm(RUN, ENVIRON, "capset_testing", doors=True).run([str(file)], folder, dict(ENVIRON), 60)
    assert code == 0, err
    expected = [line.split("#>", 1)[1].removeprefix(" ") for line in program.splitlines() if "#>" in line]
    assert expected or "assert " in program, "a page that shows nothing proves nothing"
    assert out.splitlines() == expected


def test_the_readme_begins_as_the_home_page_does() -> None:
    assert blocks(ROOT / "README.md")[0] == blocks(ROOT / "docs" / "index.md")[0]

"""The pages whose snippets are one program, run as that; what a comment `#>` shows is what is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_snippets import CAPABILITIES, ROOT, blocks

GUIDE = [
    "agent-budgets",
    "agents",
    "approvals",
    "audit",
    "using-capabilities",
    "authoring-capabilities",
    "blocks",
    "first-agent-in-python",
    "fingerprints",
    "governance",
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
RUN = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "page"}
sys.modules["page"] = type(sys)("page")
sys.modules["page"].__dict__.update(names)
found = eval(code, sys.modules["page"].__dict__)
if inspect.iscoroutine(found):
    asyncio.run(found)
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    program = "\n".join(blocks(page))
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", RUN, page.stem],
        input=program,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [line.split("#>", 1)[1].removeprefix(" ") for line in program.splitlines() if "#>" in line]
    assert said or "assert " in program, "a page that shows nothing proves nothing"
    assert done.stdout.splitlines() == said


def test_the_readme_begins_as_the_home_page_does() -> None:
    assert blocks(ROOT / "README.md")[0] == blocks(ROOT / "docs" / "index.md")[0]

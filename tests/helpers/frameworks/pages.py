"""Pages of the documentation about frameworks: the code on one, run as it stands but for the model that it names."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from scripts.packages import ROOT
from tests.helpers.snippets import blocks


async def run_page(
    name: str,
    models: Mapping[str, object],
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run the program of a page, and hold it to what it prints: ``#>`` in a comment.

    ``models`` has offline models in the place of those that the page names in quotes.
    """
    program = "\n".join(blocks(ROOT / "docs/guide" / f"{name}.md"))
    page = ModuleType("page")
    for position, (model, offline) in enumerate(models.items()):
        assert f'"{model}"' in program, f"{name}.md does not name the model {model}"
        program = program.replace(f'"{model}"', f"offline_{position}")
        setattr(page, f"offline_{position}", offline)
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "page", page)
    code = compile(program, f"{name}.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    returned = eval(code, page.__dict__)
    if inspect.iscoroutine(returned):
        await returned
    expected = [line.split("#>", 1)[1].removeprefix(" ") for line in program.splitlines() if "#>" in line]
    assert expected, "a page that shows nothing proves nothing"
    assert capsys.readouterr().out.splitlines() == expected

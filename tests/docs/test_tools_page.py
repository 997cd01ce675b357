"""The page about tools names every option of a tool, and no other."""

from __future__ import annotations

import inspect
import re

from capset import tool
from capset.definitions.tools.options import ToolOptions
from scripts.packages import ROOT


def test_every_option_has_a_row() -> None:
    page = (ROOT / "docs" / "guide" / "tools.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| option \| meaning \|\n.*?\n\n", page, re.MULTILINE | re.DOTALL)
    parameters = inspect.signature(tool).parameters.items()
    keyword_names = {name for name, parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {*ToolOptions.__annotations__, *keyword_names}

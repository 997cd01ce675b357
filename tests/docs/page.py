"""Runs the program of a page, `page.py FILE`, which may await outside of functions."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    file = Path(sys.argv[1])
    code = compile(file.read_text(encoding="utf-8"), file.stem, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    sys.modules["page"] = page = ModuleType("page")
    found = eval(code, page.__dict__)
    if inspect.iscoroutine(found):
        asyncio.run(found)

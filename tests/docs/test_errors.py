"""The page of errors lists every code that there is, with its status, and no other."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from capset.errors import CapsetError
from scripts.packages import import_folders
from tests.helpers.snippets import is_elsewhere

ROOT = Path(__file__).parents[2]
ROW = re.compile(r'^\| <a id="(\w+)"></a>`(\w+)` \| (\d+)( ↻)? \| [^|]+ \| [^|]+ \|$', re.MULTILINE)
WRITTEN = re.compile(r'(?:HttpRefusal|_LineError)\(\s*(\d{3}),\s*"([a-z_]+)"')
"""Errors of HTTP and of lines, whose code and status stand where they are raised."""


def subclasses(kind: type[CapsetError]) -> Iterator[type[CapsetError]]:
    """Yield all classes below one."""
    for subclass in kind.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def known() -> dict[str, tuple[int, bool | None]]:
    """Return the status of each code, and whether the same may succeed later, where that stands on its class."""
    names = [folder.name for folder in import_folders()]
    packages = [import_module(name) for name in names]
    for module in (
        module for package in packages for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ):
        if ".migrations" not in module.name and not is_elsewhere(module.name):
            import_module(module.name)
    statuses: dict[str, tuple[int, bool | None]] = {
        error.code: (error.status, error.retryable)
        for error in subclasses(CapsetError)
        if error.code != CapsetError.code and error.__module__.partition(".")[0] in names
    }
    for source in ROOT.glob("packages/*/src/**/*.py"):
        for status, code in WRITTEN.findall(source.read_text(encoding="utf-8")):
            statuses.setdefault(code, (int(status), None))
    return statuses


def test_the_page_lists_every_error_with_its_status() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = ROW.findall(page)
    assert len(rows) == page.count("<a id="), "a row has a code, a status, what it means and what to do"
    assert all(anchor == code for anchor, code, _, _ in rows)
    documented = {code: (int(status), retry != "") for _, code, status, retry in rows}
    assert len(documented) == len(rows), "each once"
    declared = known()
    assert sorted(documented) == sorted({*declared, "method_not_allowed"})
    for code, (status, retryable) in declared.items():
        assert documented[code][0] == status, code
        assert retryable is None or documented[code][1] == retryable, code

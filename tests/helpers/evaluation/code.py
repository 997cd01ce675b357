"""Code of tools as files, which is installed and changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from tests.distributions import install_wheel, make_wheel

TOOLS = '''
from capset import Agent, tool
from tinybox.sums import total


@tool(effect="write")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return total(a, b)


adder = Agent("adder", tools=[add])
'''
MORE = '''
from capset import tool


@tool(effect="read")
def double(a: int) -> int:
    """Double a number."""
    return 2 * a
'''
HONEST = "def total(a, b):\n    return a + b\n"
OTHER = "def total(a, b):\n    return a + b + 1\n"
FILES: Mapping[str, str | bytes] = {
    "tinybox/__init__.py": "",
    "tinybox/tools.py": TOOLS,
    "tinybox/more.py": MORE,
    "tinybox/sums.py": HONEST,
    "tinybox/_fast.so": b"\x7fELF",
    "tinybox/words.txt": "data\n",
}
CODE = ("tinybox/__init__.py", "tinybox/_fast.so", "tinybox/more.py", "tinybox/sums.py", "tinybox/tools.py")


def sums(files: Mapping[str, str | bytes], *paths: str) -> dict[str, str]:
    """Return the SHA-256 of some files."""
    raw = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
    return {path: hashlib.sha256(raw[path]).hexdigest() for path in paths}


def installed(tmp_path: Path, version: str = "1.0", **changes: str | bytes) -> Path:
    """Install a version of ``tinybox``, with some files changed that are named as modules are, into its own folder."""
    folder = tmp_path / f"site-{version}"
    folder.mkdir()
    files = {**FILES, **{f"tinybox/{name}.py": content for name, content in changes.items()}}
    return install_wheel(make_wheel(tmp_path, "tinybox", version, files), folder)

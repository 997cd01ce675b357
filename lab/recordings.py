"""``python -m lab.recordings``: write the recordings of a terminal in the documentation, from real runs."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).parents[1]
GUIDE: Final = ROOT / "docs" / "guide"
WIDTH: Final = 100
_FONTS: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""What rich would have a browser fetch from outside."""
_PROGRESS: Final = re.compile(r"^.*importing .*\n", re.MULTILINE)
"""The bars of an import, which a terminal erases."""
_BILLS: Final = (
    "def read_bill(params):\n    return {'number': params['number'], 'to': 'the plumber', 'amount': 120.0}\n\n\n"
    "def pay_bill(params):\n    return {'paid': params['amount']}\n"
)
_CONFIG: Final = """\
name: clerk
actions:
  - {name: read_bill, description: Read a bill., handler: ./bills.py:read_bill, effect: read, permissions: [],
     parameters: {number: {type: integer, required: true}}}
  - {name: pay_bill, description: Pay a bill., handler: ./bills.py:pay_bill, effect: external, approval: ask,
     permissions: ["bills:pay"], limits: 10/1d,
     parameters: {number: {type: integer, required: true}, amount: {type: number, required: true}}}
governance: {require_auth: true}
"""
_SCRIPT: Final = """\
steps:
  - text: I look at the bill.
    calls: [{tool: read_bill, arguments: {number: 7}}]
  - calls: [{tool: pay_bill, arguments: {number: 7, amount: 120}}]
  - text: The plumber is paid.
  - text: You are welcome.
"""


def recorded(title: str, command: str, printed: str) -> str:
    """Return the SVG of a terminal in which a command was typed, and what it printed, with its colours."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), command))
    console.print(Text.from_ansi(printed.rstrip()))
    return _FONTS.sub("", console.export_svg(title=title, theme=MONOKAI)) + "\n"


def run(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run capset in a folder, and return what it printed on its terminal."""
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "CAPSET_DB": "sqlite:///clerk.db"}
    command = [sys.executable, "-c", "from capset_cli import main; main()", *arguments]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(stdin.encode())
        process.stdin.close()
        printed = b"".join(_pieces(ours))
    assert process.returncode == 0, printed.decode()
    return _PROGRESS.sub("", printed.decode().replace("\r\n", "\n"))


def _pieces(terminal: int) -> Iterator[bytes]:
    """Yield what is printed on a terminal until its last process ends, and close it."""
    with suppress(OSError):  # the end, on Linux
        while piece := os.read(terminal, 65_536):
            yield piece
    os.close(terminal)


def _typed(printed: str, lines: list[str]) -> str:
    """Return what was printed with the lines that were typed, each after the prompt that asked for it."""
    parts = re.split(r"(^> |\[e\]dit: )", printed, flags=re.MULTILINE)
    pieces = [parts[0]]
    for prompt, rest, line in zip(parts[1::2], parts[2::2], [*lines, ""], strict=False):
        pieces += [prompt, f"{line}\n", rest.lstrip("\n")]
    return "".join(pieces)


def main() -> None:
    """Write both recordings."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("bills.py", _BILLS), ("capset.yaml", _CONFIG), ("script.yaml", _SCRIPT)):
            (folder / file).write_text(text, encoding="utf-8")
        chat = ("chat", "capset.yaml", "--model", "script:script.yaml", "--grant", "bills:pay", "--approver", "boss")
        typed = ["Pay bill 7.", "y", "Thank you."]
        printed = _typed(run(folder, *chat, stdin="\n".join([*typed, ""])), typed)
        (GUIDE / "chat.svg").write_text(recorded("capset chat", f"capset {' '.join(chat)}", printed), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        printed = run(Path(name), "demo")
        (GUIDE / "demo.svg").write_text(recorded("make demo", "make demo", printed), encoding="utf-8")


if __name__ == "__main__":
    main()

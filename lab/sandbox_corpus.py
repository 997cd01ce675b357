"""``python -m lab.sandbox_corpus``: run the corpus of the sandbox by its back ends, beside the real interpreters.

It prints a table, and each script that differs in silence, and ends with 0 only if the shares hold that the sandbox
promises, and nothing differs in silence by any back end. It needs a machine on which all of them run. Where the right
output of a script is written down, the sandbox is held to that, and so is the real interpreter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rich.console import Console
from rich.table import Table

from capset import ToolError
from capset_tools.sandbox.backends import backend_for
from capset_tools.sandbox.child.frames import Backend, Order
from capset_tools.sandbox.config import Isolation, Language, SandboxConfig
from capset_tools.sandbox.process import ChildRun, Outcome
from scripts.packages import ROOT

CORPUS: Final = ROOT / "tests/helpers/tools/sandbox/corpus"
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC"}
_IN_FOLDER: Final = {
    "python": "import os; os.mkdir('/work'); os.chdir('/work') ",
    "bash": "mkdir /work; cd /work; ",
}
"""Code before a script, on its first line, which is a comment: the corpus begins in an empty folder."""

Verdict = Literal["same", "refused", "different"]
"""``refused`` says so, by its exit code, its error or its limit; ``different`` does not."""


class Row(NamedTuple):
    """A back end of a language, and the share that it has to reach; ``None`` if it is only reported."""

    language: Language
    setting: Isolation
    share: float | None


ROWS: Final = (
    Row("python", "isolated-cpython", 0.98),
    Row("python", "monty", None),
    Row("bash", "isolated-cpython", 0.95),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """One script by one back end."""

    script: Path
    backend: Backend
    verdict: Verdict


class Ended(NamedTuple):
    """The output of a script, and its exit code."""

    stdout: str
    code: int | None


def main(arguments: Sequence[str]) -> int:
    """Run the corpus, or every ``--each``-th script of it."""
    parser = argparse.ArgumentParser(prog="sandbox-corpus")
    parser.add_argument("--each", type=int, default=1, help="run only each n-th script")
    each: int = parser.parse_args(arguments).each
    try:
        rows = [(row, compare(row, scripts_of(row.language)[::each])) for row in ROWS]
    except ToolError as error:
        print(f"sandbox-corpus: {error.message}", file=sys.stderr)
        return 1
    Console(width=120).print(_table(rows))
    for one in (one for _, comparisons in rows for one in comparisons if one.verdict == "different"):
        print(f"sandbox-corpus: {one.script.name} differs in silence by {one.backend}", file=sys.stderr)
    return 0 if all(is_met(row, comparisons) for row, comparisons in rows) else 1


def scripts_of(language: Language) -> list[Path]:
    """Return the scripts of a language, in the order of their numbers."""
    return sorted((CORPUS / ("shell" if language == "bash" else "python")).glob("[0-9]*"))


def compare(row: Row, scripts: Sequence[Path]) -> list[Compared]:
    """Run scripts by a back end and by the real interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(_compared, row), scripts))


def is_met(row: Row, comparisons: Sequence[Compared]) -> bool:
    """Return whether a row reaches its share, with nothing that differs in silence."""
    counts = Counter(comparison.verdict for comparison in comparisons)
    return not counts["different"] and (row.share is None or counts["same"] >= row.share * len(comparisons))


def _compared(row: Row, script: Path) -> Compared:
    config = SandboxConfig(backend=row.setting, output_bytes=1 << 20)
    backend, command = backend_for(row.language, config)
    code = script.read_text(encoding="utf-8")
    if "from __future__" not in code:
        code = _IN_FOLDER[row.language] + code
    order = Order(backend=backend, code=code, limits=config.limits, files=[])
    outcome = ChildRun(order, {}, command).outcome()
    return Compared(script, backend, _verdict(_right(row.language, script), outcome))


def _right(language: Language, script: Path) -> Ended:
    """Return what a script should print: as the real interpreter does, which is held to what is written down."""
    real, output = _real(language, script), CORPUS / "outputs" / f"{script.name}.txt"
    if output.exists() and real != Ended(output.read_text(encoding="utf-8"), 0):
        print(f"sandbox-corpus: the {language} of this machine is wrong in {script.name}", file=sys.stderr)
        return Ended(output.read_text(encoding="utf-8"), 0)
    return real


def _real(language: Language, script: Path) -> Ended:
    """Return what the real interpreter makes of a script."""
    program = [getattr(sys, "_base_executable", sys.executable), "-I", "-B"] if language == "python" else ["bash"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(  # a script of the corpus
            [*program, str(script)],
            cwd=folder,
            env={**_ENVIRONMENT, "HOME": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    return Ended(done.stdout.decode(errors="replace"), done.returncode)


def _verdict(real: Ended, outcome: Outcome) -> Verdict:
    ending = outcome.ending
    if ending is None or ending["stopped"] is not None:
        return "refused"
    if (outcome.stdout.decode(errors="replace"), ending["exit_code"]) == real:
        return "same"
    return "refused" if ending["error"] is not None or ending["exit_code"] != real.code else "different"


def _table(rows: Sequence[tuple[Row, Sequence[Compared]]]) -> Table:
    table = Table("scripts", "back end", "number", "same", "refused", "different", "share", "asked for", "")
    for row, comparisons in rows:
        counts = Counter(comparison.verdict for comparison in comparisons)
        target = "–" if row.share is None else f"{row.share:.0%}"
        share = counts["same"] / len(comparisons)
        status = "met" if is_met(row, comparisons) else "not met"
        numbers = (str(counts[verdict]) for verdict in ("same", "refused", "different"))
        table.add_row(
            row.language, comparisons[0].backend, str(len(comparisons)), *numbers, f"{share:.1%}", target, status
        )
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``python -m lab.guardbench``: play MCP-GuardBench's cases, and print what capset detects and prevents.

With ``--write``, the tables of the guide's page are made of it. It ends with 1 if a case could not be played, and with
0 where there is no Python for GuardBench.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from lab.guardbench import Failed, environment, report

PAGE: Final = environment.ROOT / "docs" / "guide" / "guardbench.md"
BEGIN: Final = "<!-- Made by make lab-guardbench ARGS=--write; what is below is not written by hand. -->"
_REASONS: Final = "What of capset stopped or found each attack under pins and rules, and what happened before it did:"


def main(arguments: list[str]) -> int:
    """Do all of it."""
    if arguments not in ([], ["--write"]):
        print(f"guardbench: the only option is --write; got {' '.join(arguments)}", file=sys.stderr)
        return 2
    uv = Path(sys.executable).with_name("uv")
    python = environment.find_python(uv, dict(os.environ))
    if python is None:
        needed = f"{environment.NAME} needs Python {environment.LEAST} or newer"
        print(f"guardbench: nothing was run: {needed}, and there is none")
        return 0
    try:
        findings = _play(environment.make(uv, python))
    except Failed as error:
        print(f"guardbench: {error}", file=sys.stderr)
        return 1
    print(report.plain(findings.marks()))
    print("D: detected; P: prevented, by what the servers' own ledgers say", end="\n\n")
    print(report.plain(findings.reasons()))
    for problem in findings.errors:
        print(f"guardbench: {problem}", file=sys.stderr)
    if arguments and not findings.errors:
        PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), findings), encoding="utf-8")
    return 1 if findings.errors else 0


def render(page: str, findings: report.Report) -> str:
    """Return the page with the tables of a report."""
    by_hand, _, _ = page.partition(BEGIN)
    return (
        f"{by_hand}{BEGIN}\n\n{report.markdown(findings.marks())}\n{_REASONS}\n\n{report.markdown(findings.reasons())}"
    )


def _play(python: Path) -> report.Report:
    """Play all cases in the environment of GuardBench. Raises ``Failed`` if that does not end well."""
    capset = Path(sys.executable).with_name("capset")
    done = subprocess.run(
        [python, "-m", "lab.guardbench.lab", capset, environment.CASES],
        cwd=environment.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"the lab ended with {done.returncode}")
    return report.read(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

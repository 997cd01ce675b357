"""Run the suite, say a line of every scenario, and end with 1 unless everything is just as expected.

The suite is a pre-release, since no other one knows the revision 2026-07-28. Its scenarios for authorization servers
are not run: capset is none. Nor are those of extensions that capset does not have.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.conformance import Failed, suite
from lab.conformance.client import answering
from lab.conformance.server import TOOLS, serving
from lab.conformance.verdicts import Verdict, expectations, judge, read_results, unused

EXPECTED: Final = TOOLS / "expected-failures.yaml"


def main() -> int:
    """Do all of it."""
    started = time.monotonic()
    verdicts: list[Verdict] = []
    wrong: list[str] = []
    try:
        suite.install()
        for side in suite.SIDES:
            with tempfile.TemporaryDirectory(prefix="capset-conformance-") as folder:
                side_verdicts, more = judged(side, Path(folder))
            verdicts += side_verdicts
            wrong += more
    except Failed as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    counts = ", ".join(f"{count} {word}" for word, count in Counter(verdict.word for verdict in verdicts).items())
    print(f"conformance: {len(verdicts)} scenarios: {counts}; {time.monotonic() - started:.1f} s", flush=True)
    for problem in wrong:
        print(f"conformance: {problem}", file=sys.stderr)
    return 1 if wrong else 0


def judged(side: suite.Side, folder: Path) -> tuple[list[Verdict], list[str]]:
    """Run one side, say a line of every scenario, and return what is to be said of each and what is wrong."""
    expected = expectations(EXPECTED, side)
    verdicts: list[Verdict] = []
    wrong: list[str] = []
    for revision, results in run_server(folder) if side == "server" else run_client(folder):
        about, passed = f"{side} {revision}", set[str]()
        for scenario, checks in read_results(results).items():
            verdict = judge(scenario, checks, expected)
            print(f"{about}  {verdict.word:8}  {scenario}: {verdict.said}", flush=True)
            verdicts.append(verdict)
            wrong += [f"{about}  {problem}" for problem in verdict.wrong]
            if not any(check.has_failed for check in checks):
                passed.add(scenario)
        if required := suite.required(side, revision):
            met = len(passed.intersection(required))
            print(f"{about}  {met} of {len(required)} required scenarios pass", flush=True)
    wrong += [f"{side}  {name} is expected to fail, and fails nowhere" for name in unused(expected, verdicts)]
    return verdicts, wrong


def run_server(folder: Path) -> Iterator[tuple[str, Path]]:
    """Test a server, and yield the results of each revision."""
    with serving(folder) as url:
        for revision in suite.REVISIONS:
            suite.run("server", url, revision, folder / revision)
            yield revision, folder / revision


def run_client(folder: Path) -> Iterator[tuple[str, Path]]:
    """Test the client, and yield the results of each revision."""

    async def run() -> None:
        async with answering(folder) as command:
            for revision in suite.REVISIONS:
                await asyncio.to_thread(suite.run, "client", command, revision, folder / revision)

    asyncio.run(run())
    yield from ((revision, folder / revision) for revision in suite.REVISIONS)


if __name__ == "__main__":
    sys.exit(main())

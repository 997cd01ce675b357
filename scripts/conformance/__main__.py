"""Run the suite, say a line of every scenario, and end with 1 unless everything is just as expected.

The suite is a pre-release, since no other one knows the revision 2026-07-28. Its scenarios for authorization are not
run: they test an OAuth server, which capset is not. Nor are those of extensions that capset does not have.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from scripts.conformance import Failed, suite
from scripts.conformance.server import TOOLS, serving
from scripts.conformance.verdicts import Verdict, expectations, judge, read_results, unused


def main() -> int:
    """Do all of it."""
    started = time.monotonic()
    expected = expectations(TOOLS / "expected-failures.yaml")
    verdicts: list[Verdict] = []
    wrong: list[str] = []
    try:
        suite.install()
        with tempfile.TemporaryDirectory(prefix="capset-conformance-") as folder, serving(Path(folder)) as url:
            for revision in suite.REVISIONS:
                results = Path(folder) / revision
                suite.run(url, revision, results)
                passed: set[str] = set()
                for scenario, checks in read_results(results).items():
                    found = judge(scenario, checks, expected)
                    print(f"{revision}  {found.word:8}  {scenario}: {found.said}", flush=True)
                    verdicts.append(found)
                    wrong += [f"{revision}  {one}" for one in found.wrong]
                    if not any(one.has_failed for one in checks):
                        passed.add(scenario)
                if required := suite.required(revision):
                    met = len(passed.intersection(required))
                    print(f"{revision}  {met} of {len(required)} required scenarios pass", flush=True)
    except Failed as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 1
    wrong += [f"{name} is expected to fail, and fails nowhere" for name in unused(expected, verdicts)]
    counts = ", ".join(f"{count} {word}" for word, count in Counter(one.word for one in verdicts).items())
    print(f"conformance: {len(verdicts)} scenarios: {counts}; {time.monotonic() - started:.1f} s", flush=True)
    for one in wrong:
        print(f"conformance: {one}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

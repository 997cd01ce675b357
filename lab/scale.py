"""``python -m lab.scale``: write the page of scale from saved runs of ``make lab-load`` and ``make lab-mixed-soak``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from lab.siege.load.replicas import SHARE, TARGET, ratios
from lab.siege.mixed.chart import chart
from lab.siege.mixed.soak import problems

DOCS: Final = Path(__file__).parents[1] / "docs"
LOAD: Final = DOCS / "reference" / "load.json"
SOAK: Final = DOCS / "reference" / "soak.json"
CHART: Final = DOCS / "reference" / "soak.svg"
PAGE: Final = DOCS / "guide" / "scale.md"
TEXT: Final = Path(__file__).with_name("scale.txt")
"""The page, with a line ``@name`` where a table or a figure stands."""
_CROWDS: Final = {"crowd-sqlite": "SQLite", "crowd-postgres": "PostgreSQL"}

Found = dict[str, Any]


def page(load: Found, soak: Found) -> str:
    """Return the page of the saved runs."""
    parts = {
        "@machine": _machine(load, soak),
        "@crowd": _crowd(load),
        "@replicas": _replicas(load["replicas"]),
        "@ratios": _ratios(load["replicas"]),
        "@workers": _workers(load["workers"]),
        "@writers": _writers(load["writers"]),
        "@soak": _soak(soak),
        "@verdict": _verdict(soak),
    }
    lines = TEXT.read_text(encoding="utf-8").splitlines()
    return "\n".join(parts.get(line, line) for line in lines) + "\n"


def _machine(load: Found, soak: Found) -> str:
    machine = soak["machine"]
    loads = ", ".join(f"{name} {part['machine']['load']:g}" for name, part in load.items())
    peak_load = max(sample["load"] for sample in soak["samples"])
    return (
        f"Measured on {machine['cores']} cores, {machine['system']}, Python {machine['python']}, "
        "with other work running at the same time; server, PostgreSQL and clients shared the cores. "
        f"The load of the machine at the start of each part: {loads}. "
        f"During the soak it rose to {peak_load:g}, including its own."
    )


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _crowd(load: Found) -> str:
    rows: list[tuple[object, ...]] = []
    for part, engine in _CROWDS.items():
        crowd = load[part]
        calls, followers = crowd["calls"], crowd["followers"]
        rows.append(
            (
                engine, f"{crowd['sessions']['made']:,}", f"{followers['complete']:,} of {followers['opened']:,}",
                f"{crowd['rate']:g}/s for {crowd['seconds']:g} s", f"{calls['p50']:g} ms", f"{calls['p99']:g} ms",
                f"{crowd['peak_rss'] / 1e6:.0f} MB", f"{crowd['descriptors']:,}", f"{crowd['server_cores']:g}",
                sum(crowd["odd"].values()),
            )
        )  # fmt: skip
    head = "", "sessions", "complete streams", "calls", "p50", "p99", "memory", "descriptors", "cores", "failed calls"
    return _table(head, rows)


def _replicas(report: Found) -> str:
    rows: list[tuple[object, ...]] = []
    for row in report["rows"]:
        share = "both, shared by all" if row["cores_each"] is None else f"{row['cores_each']:g} for each server"
        cost, cores = row["microseconds_a_call"], row["cores"]
        used = ", ".join(f"{name} {value:g}" for name, value in cores.items())
        each = f"{cost['server']} + {cost['postgres']} µs"
        rows.append((row["servers"], share, f"{row['rate']:g}/s", f"{row['calls']['p99']:g} ms", used, each))
    return _table(("servers", "cores", "calls", "p99", "cores used", "CPU of a call: server + PostgreSQL"), rows)


def _ratios(report: Found) -> str:
    ratios_by_count = ratios(report)
    free = ratios_by_count[None, 2]
    text = f"Where all share two cores, two servers handled {free:.2f} times the calls of one. "
    if (SHARE, 2) in ratios_by_count:
        two = ratios_by_count[SHARE, 2]
        several = [
            f"{count} servers handled {ratio:.2f} times"
            for (share, count), ratio in ratios_by_count.items()
            if share and count > 1
        ]
        text += f"With {SHARE:g} cores each, {', '.join(several)} the calls of one. "
        text += _target(two)
    acknowledged, recorded = f"{report['acknowledged']:,}", f"{report['written']:,}"
    return text + f" {acknowledged} calls were acknowledged, and {recorded} are on record; the chain verifies."


def _target(two: float) -> str:
    """Return what the run says about the target, which asks for cores of its own for each server."""
    text = (
        f"The target is {TARGET:g} times for two servers that each have their own cores. It is **not met**: "
        "this machine has two cores for servers, PostgreSQL and callers together, so it cannot be measured here. "
    )
    if two > 2:
        return text + "The ratio with a quota says nothing: more than twice means that other work slowed one server."
    return text + "The ratio with a quota is the nearest measurement."


def _workers(report: Found) -> str:
    rows: list[tuple[object, ...]] = []
    for row in report["rows"]:
        share = "both, shared by all" if row["cores_each"] is None else f"{row['cores_each']:g} for each worker"
        rows.append((row["workers"], share, f"{row['rate']:g}/s", f"{row['milliseconds_of_cpu']:g} ms"))
    summary = f"{report['queued']:,} runs were queued, and {report['written']:,} are on record; the chain verifies."
    return _table(("workers", "cores", "runs", "CPU of a run, in its worker"), rows) + "\n\n" + summary


def _writers(report: Found) -> str:
    rows: list[tuple[object, ...]] = [
        (row["writers"], row["chains"], f"{row['records']:,}/s", f"{row['lock_held']:.0%}", f"{row['others_wait']:.0%}")
        for row in report["rows"]
    ]
    return _table(("writer processes", "chains", "records", "lock held", "others wait for it"), rows)


def _soak(soak: Found) -> str:
    rows: list[tuple[object, ...]] = [
        (name, *(f"{times[column]:,}" for column in ("count", "p50", "p95", "p99", "max")))
        for name, times in soak["kinds"].items()
    ]
    return _table(("kind", "count", "p50, ms", "p95", "p99", "longest"), rows)


def _verdict(soak: Found) -> str:
    growth, failed = soak["growth"], sum(soak["errors"].values())
    count = sum(kind["count"] for kind in soak["kinds"].values())
    closed = sum(times for error, times in soak["errors"].items() if error.strip().endswith("closed"))
    text = (
        f"This run took {soak['seconds'] / 60:.0f} minutes on {soak['engine']}: {count:,} operations, "
        f"at most {soak['peak_rss'] / 1e6:.0f} MB. Memory grew by {growth['rss'] / 1e6:.1f} MB by its slope, "
        f"descriptors by {growth['descriptors']}, threads by {growth['threads']}; "
        "the record verifies."
    )
    if not problems(soak):
        return text + " It passed."
    return text + f" It **failed**: {failed} operations failed, {closed} of them because their connection was closed."


def main() -> None:
    """Write the page and the chart."""
    load, soak = (json.loads(path.read_text(encoding="utf-8")) for path in (LOAD, SOAK))
    PAGE.write_text(page(load, soak), encoding="utf-8")
    CHART.write_text(chart(soak), encoding="utf-8")


if __name__ == "__main__":
    main()

"""``python -m lab.performance``: write the pages and the charts of saved runs of the benchmarks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from lab import growth

DOCS: Final = Path(__file__).parents[1] / "docs"
RESULT: Final = DOCS / "reference" / "benchmarks.json"
PAGE: Final = DOCS / "guide" / "performance.md"
ROWS: Final = DOCS / "guide" / "benchmarks.md"
CHART: Final = DOCS / "guide" / "performance.svg"
CURVES: Final = DOCS / "reference" / "curves.json"
LOAD: Final = DOCS / "reference" / "load.json"
GROWTH: Final = DOCS / "guide" / "growth.svg"

Scale = Callable[[float], float]
"""Where a number of microseconds stands, in pixels from the left."""
Result = dict[str, Any]
"""What ``python -m lab.benchmarks --save`` writes: the machine, the packages, and the rows."""

_CALLS: Final = ("times a bare validated await", "times a governed call with every stage on")
"""How the units of the rows begin that compare calls."""
_BARE: Final = "bare"
_SUSPENDED: Final = "bare, after one suspension"
_WHOLE: Final = "governed call, three policies, one suspends"
_INK, _OWN, _PLAIN, _PEER = "#767676", "#4f7cff", "#8a8f98", "#c07f2c"
"""Colours that are readable on white and on black."""
_LABELS, _WIDTH, _STEP, _BAR = 330, 820, 30, 16
"""Pixels: of the labels, the whole, from bar to bar, and of a bar."""

_HEAD: Final = """\
# Performance

What governance costs, what each setting adds, and how to measure your own tools. Each measurement and its baseline run
in one process, in turns, so that both see the same noise. A time is the median of a round, in the best of several
rounds. The ratios matter most, because they also hold on other machines.

This page is generated from [one saved run](../reference/benchmarks.json). [Benchmarks](benchmarks.md) has all of its
rows, and those that miss their target.
"""

_ROWS_HEAD: Final = """\
# Benchmarks

Everything that `make lab-bench` measures, beside what it is compared with in the same run. Targets come from the
[requirements](../spec/4-governance.md#speed), if these name any; the others only guard against regressions. A missed
target is reported, but fails no build. [Scale](scale.md) shows what one server and several servers carry.

This page is generated from [one saved run](../reference/benchmarks.json).
"""

_COST: Final = "CPU of a governed call and its record"
"""The row that the headline is made of."""

_OWN_TOOLS: Final = """\
## Your own tools

`capset bench` measures your tool on your machine: its handler alone, the governed call, the call with its record, and
the share of each phase of the [pipeline](how-it-works.md).

```sh
capset bench test_math.add --args '{"a": 2, "b": 3}'
```

It really calls the tool, some thousand times, as the principal that `--grant` and `--attribute` describe. Records go to
a temporary database, or to your own with `--db`. A tool that changes something needs `--effects`.
`--json` prints the same for programs.

| setting | phase and cost |
|---|---|
| `effect="write"` or `"destructive"` | admit, begin and end: two commits, for the intent and for the outcome |
| `effect="read"` | on record: the record is queued, and written by another thread; `record_reads=False` omits it |
| policies | arguments: one function call each; a policy that awaits something also gives the event loop a turn |
| `limits` | admit: a microsecond with `scope="process"`; a transaction if the store counts them |
| `approval="ask"`, budgets | admit: rows in the store |
| a handler that is not `async def` | run: two thread switches |
| `timeout`, deadlines | run: one timer of the event loop |
| results that are pydantic models | result: they are validated, and written as JSON |
| an OpenTelemetry SDK | begin and end: one span each |
"""

_AGAIN: Final = """\
## Measure again

```sh
make lab-bench ARGS="--save docs/reference/benchmarks.json"
.venv/bin/python -m lab.benchmarks.curves --save docs/reference/curves.json
.venv/bin/python -m lab.performance
.venv/bin/python -m lab.benchmarks.compare before.json after.json
```

The last command compares two saved runs of one machine, and names what became worse by more than 5 %.

The peers are installed into a separate environment, `.venv-bench`; without them, only capset is measured.
The measurements use no network and no key, and the peers' telemetry is off.
"""


def page(result: Result) -> str:
    """Return the page about performance."""
    parts = [
        _HEAD,
        _where(result),
        "## What a call costs\n",
        _headline(result),
        _MEANS,
        "![Microseconds of one call, by library](performance.svg)\n",
        _suspension(_times(result)),
        _table([row for row in result["rows"] if _is_of_calls(row)]),
        _OWN_TOOLS,
    ]
    return "\n".join(parts)


def rows_page(result: Result, grown: Result, load: Result) -> str:
    """Return the page of all rows, and of what was measured as numbers grow."""
    parts = [
        _ROWS_HEAD,
        _where(result),
        _not_met(result["rows"]),
        "## All rows\n",
        _table(result["rows"]),
        growth.section(grown, load),
        _AGAIN,
    ]
    return "\n".join(parts)


_MEANS: Final = """\
The tool adds two numbers. A governed call has every stage on: permission, validation, a limit, three policies of which
one suspends, validation of the output, and a record in the chained audit log, written to SQLite by the writer's thread.
The bare call is an `await` of the same function after the same validation by pydantic. Peers call the same tool in
process, without governance (agent-os-kernel evaluates its own three policies). They never suspend, so they are
compared with the call whose policies do not suspend either.
"""


def _not_met(rows: list[Result]) -> str:
    """Return the list of rows that miss their target, and by how much."""
    missed = [row for row in rows if not row["met"]]
    if not missed:
        return "Every target is met.\n"
    lines = [f"## Not met\n\n{len(missed)} of {len(rows)} rows miss their target. {_WHY}\n"]
    for row in missed:
        share = max(row["value"], row["target"]) / min(row["value"], row["target"]) - 1
        target = f"{row['direction']} {row['target']:g}"
        lines.append(f"- {row['name']}: {row['value']:g} {row['unit']}; target {target}, missed by {share:.0%}")
    return "\n".join([*lines, ""])


_WHY: Final = (
    "These pages say what was tried, and calculate what remains: [How a call goes](../adr/pipeline.md), "
    "[Turns](../adr/turns.md), [The MCP interface](../adr/mcp-server.md), [Packages](../adr/packages.md) "
    "and [The HTTP API](../adr/http-api.md)."
)


def _where(result: Result) -> str:
    machine, packages = result["machine"], result["packages"]
    named = ", ".join(f"{name} {version}" for name, version in packages.items())
    rough = " It was a quick run, of a few rounds only, so its numbers are rough." if result["quick"] else ""
    return f"Measured on {machine['cores']} cores, {machine['system']}, Python {machine['python']}; {named}.{rough}\n"


def _is_of_calls(row: Result) -> bool:
    return row["unit"].startswith(_CALLS)


def _headline(result: Result) -> str:
    (row,) = [row for row in result["rows"] if row["name"] == _COST]
    bare, governed = (float(row["peers"][name].removesuffix(" µs")) for name in (_BARE, _WHOLE))
    return (
        f"**{governed - bare:.0f} µs of processor time**: all checks, three policies and the record add this to a "
        "call in process. The rest of this page shows its parts, in time and by setting; "
        "[Scale](scale.md#how-many-replicas) has what a call costs on a server with PostgreSQL.\n"
    )


def _suspension(times: dict[str, float]) -> str:
    turn = times[_SUSPENDED] - times[_BARE]
    return (
        "A policy that suspends gives the event loop a turn. A bare call that does the same takes "
        f"{turn:.1f} µs longer, {times[_SUSPENDED] / times[_BARE]:.1f} times as long. So the call with a suspension is "
        "also compared with that bare call.\n"
    )


def _table(rows: list[Result]) -> str:
    lines = ["| what | measured | target | met | in the same run |", "|---|---|---|---|---|"]
    for row in rows:
        beside = ", ".join(f"{name} {value}" for name, value in row["peers"].items())
        target = f"{row['direction']} {row['target']:g}"
        met = "yes" if row["met"] else "**no**"
        lines.append(f"| {row['name']} | {row['value']:g} {row['unit']} | {target} | {met} | {beside} |")
    return "\n".join([*lines, ""])


def _times(result: Result) -> dict[str, float]:
    """Return the microseconds of every call that was measured, the shortest first; CPU times are not among them."""
    times: dict[str, float] = {}
    for row in result["rows"]:
        if _is_of_calls(row) and not row["name"].startswith("CPU"):
            for name, text in row["peers"].items():
                if text.endswith(" µs"):
                    times[name] = float(text.removesuffix(" µs"))
    return dict(sorted(times.items(), key=lambda entry: entry[1]))


def chart(result: Result) -> str:
    """Return the chart of a result: one bar for each call, on a logarithmic scale."""
    times = _times(result)
    lowest, highest = 10 ** math.floor(math.log10(min(times.values()))), max(times.values()) * 1.5
    height = _STEP * (len(times) + 2)

    def x(microseconds: float) -> float:
        share = math.log10(microseconds / lowest) / math.log10(highest / lowest)
        return _LABELS + share * (_WIDTH - _LABELS - 70)

    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'font-family="sans-serif" font-size="13" fill="{_INK}">',
            "<title>Microseconds of one call, on a logarithmic scale</title>",
            *_scale(lowest, highest, height, x),
            *(line for place, (name, took) in enumerate(times.items()) for line in _bar(place, name, took, x)),
            "</svg>",
            "",
        ]
    )


def _scale(lowest: float, highest: float, height: int, x: Scale) -> Iterator[str]:
    mark = lowest
    while mark <= highest:
        at, foot = f"{x(mark):.1f}", height - _STEP
        yield f'<line x1="{at}" y1="10" x2="{at}" y2="{foot}" stroke="{_INK}" stroke-opacity="0.3"/>'
        yield f'<text x="{at}" y="{foot + 18}" text-anchor="middle">{mark:g} µs</text>'
        mark *= 10


def _bar(place: int, name: str, took: float, x: Scale) -> Iterator[str]:
    top = 14 + place * _STEP
    colour = _OWN if name.startswith("governed") else _PLAIN if name.startswith("bare") else _PEER
    width = x(took) - _LABELS
    yield f'<text x="{_LABELS - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'
    yield f'<rect x="{_LABELS}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2" fill="{colour}"/>'
    yield f'<text x="{x(took) + 6:.1f}" y="{top + 13}">{took:.3g} µs</text>'


def main() -> None:
    """Write both pages and their charts."""
    result, grown, load = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULT, CURVES, LOAD))
    PAGE.write_text(page(result), encoding="utf-8")
    ROWS.write_text(rows_page(result, grown, load), encoding="utf-8")
    GROWTH.write_text(growth.chart(grown, load), encoding="utf-8")
    CHART.write_text(chart(result), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What came of the cases, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

CONTROLS: Final = {
    "no-defense-baseline": "nothing",
    "reference-static": "static",
    "reference-runtime": "runtime",
    "capset-pins": "pins",
    "capset-rules": "pins, rules",
}
"""The heads of the columns, by the names of the controls: GuardBench's own three, and capset's two."""
_OURS: Final = "capset-rules"
"""The control whose reasons are told."""
_RULES: Final = {
    "pin": "the pin of {}",
    "problem": "a text of {} with hidden characters",
    "approval_required": "an approval of {}",
    "invalid_arguments": "the arguments that were approved of {}",
    "result_bytes": "`result_bytes` at {}",
}
"""What of capset a rule is, with a place for the tools."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case before one control."""

    case: str
    control: str
    is_detected: bool
    is_prevented: bool
    is_false_alarm: bool
    unsafe: Sequence[str]
    """What happened that should not have, in GuardBench's words."""
    by: Sequence[str]
    """What of capset stopped or found something."""
    error: str | None
    """Why there is no result, if there is none."""

    @property
    def mark(self) -> str:
        """The outcome in a few letters."""
        if self.error is not None:
            return "error"
        if self.is_false_alarm:
            return "alarm"
        return " ".join(letter for letter, is_so in (("D", self.is_detected), ("P", self.is_prevented)) if is_so) or "–"


@dataclass(frozen=True, slots=True)
class Report:
    """All outcomes, in the order of the cases."""

    cases: Mapping[str, str]
    """The names of the cases, by their ids."""
    attacks: frozenset[str]
    outcomes: Sequence[Outcome]

    @property
    def errors(self) -> list[str]:
        """What could not be measured, and why."""
        return [
            f"{outcome.case} before {outcome.control}: {outcome.error}"
            for outcome in self.outcomes
            if outcome.error is not None
        ]

    def marks(self) -> list[list[str]]:
        """Return the outcomes: a row of heads, one for each case, and one of sums."""
        marks_by_case = {(outcome.case, outcome.control): outcome.mark for outcome in self.outcomes}
        rows = [
            [f"{case} {name}", *(marks_by_case[case, control] for control in CONTROLS)]
            for case, name in self.cases.items()
        ]
        return [["case", *CONTROLS.values()], *rows, ["attacks detected, prevented", *map(self._sum, CONTROLS)]]

    def reasons(self) -> list[list[str]]:
        """Return what of capset stopped or found something, and what happened all the same, for each attack."""
        ours = [outcome for outcome in self.outcomes if outcome.control == _OURS and outcome.case in self.attacks]
        rows = [
            [
                outcome.case,
                "; ".join(outcome.by) or "–",
                ", ".join(name.replace("_", " ") for name in outcome.unsafe) or "–",
            ]
            for outcome in ours
        ]
        return [["case", "stopped or found by", "happens all the same"], *rows]

    def _sum(self, control: str) -> str:
        attacks = [outcome for outcome in self.outcomes if outcome.control == control and outcome.case in self.attacks]
        return f"{sum(outcome.is_detected for outcome in attacks)}, {sum(outcome.is_prevented for outcome in attacks)}"


def read(document: Mapping[str, Any]) -> Report:  # the JSON of lab.guardbench.lab
    """Return the report of what the lab found."""
    return Report(
        {case["id"]: case["name"] for case in document["cases"]},
        frozenset(case["id"] for case in document["cases"] if case["is_attack"]),
        [
            Outcome(
                outcome["case"],
                outcome["control"],
                outcome["detected"],
                outcome["prevented"],
                outcome["false_positive"],
                outcome["unsafe"],
                _by(outcome["said"]),
                None if outcome["status"] == "completed" else outcome["error"] or outcome["status"],
            )
            for outcome in document["results"]
        ],
    )


def _by(reports: Iterable[Mapping[str, str]]) -> list[str]:
    tools: dict[str, list[str]] = {}
    for report in reports:
        tools.setdefault(report["rule"], []).append(f"`{report['tool']}`")
    return [
        _RULES.get(rule, f"{rule} at {{}}").format(", ".join(dict.fromkeys(named))) for rule, named in tools.items()
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table of Markdown."""
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *rest]) + "\n"


def plain(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines, with their columns below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)

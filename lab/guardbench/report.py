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
        return [f"{one.case} before {one.control}: {one.error}" for one in self.outcomes if one.error is not None]

    def marks(self) -> list[list[str]]:
        """Return the outcomes: a row of heads, one for each case, and one of sums."""
        found = {(one.case, one.control): one.mark for one in self.outcomes}
        rows = [[f"{case} {name}", *(found[case, one] for one in CONTROLS)] for case, name in self.cases.items()]
        return [["case", *CONTROLS.values()], *rows, ["attacks detected, prevented", *map(self._sum, CONTROLS)]]

    def reasons(self) -> list[list[str]]:
        """Return what of capset stopped or found something, and what happened all the same, for each attack."""
        ours = [one for one in self.outcomes if one.control == _OURS and one.case in self.attacks]
        rows = [
            [one.case, "; ".join(one.by) or "–", ", ".join(name.replace("_", " ") for name in one.unsafe) or "–"]
            for one in ours
        ]
        return [["case", "stopped or found by", "happens all the same"], *rows]

    def _sum(self, control: str) -> str:
        attacks = [one for one in self.outcomes if one.control == control and one.case in self.attacks]
        return f"{sum(one.is_detected for one in attacks)}, {sum(one.is_prevented for one in attacks)}"


def read(found: Mapping[str, Any]) -> Report:  # the JSON of lab.guardbench.lab
    """Return the report of what the lab found."""
    return Report(
        {one["id"]: one["name"] for one in found["cases"]},
        frozenset(one["id"] for one in found["cases"] if one["is_attack"]),
        [
            Outcome(
                one["case"],
                one["control"],
                one["detected"],
                one["prevented"],
                one["false_positive"],
                one["unsafe"],
                _by(one["said"]),
                None if one["status"] == "completed" else one["error"] or one["status"],
            )
            for one in found["results"]
        ],
    )


def _by(said: Iterable[Mapping[str, str]]) -> list[str]:
    tools: dict[str, list[str]] = {}
    for one in said:
        tools.setdefault(one["rule"], []).append(f"`{one['tool']}`")
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

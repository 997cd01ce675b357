"""The lists of attacks beside this file, read so that no class of them can be empty."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

LEAST = 3
"""Cases of each class."""


@cache
def _listed(file: str) -> dict[str, list[dict[str, Any]]]:
    return yaml.safe_load((Path(__file__).parent / file).read_text("utf-8"))


def attacks(file: str, *classes: str, in_gate: int | None = None) -> list[Any]:
    """Return the cases of some classes of a list as parameters of a test; each is told its ``class``.

    Cases of a class beyond the first ``in_gate`` are left to the night.
    """
    all_cases = _listed(file)
    parameters: list[Any] = []
    for name in classes:
        cases = all_cases[name]
        assert len({case["name"] for case in cases}) == len(cases) >= LEAST, (
            f"{file}: {name} has too few cases, or two alike"
        )
        parameters += [
            pytest.param(
                {**case, "class": name},
                id=f"{name}: {case['name']}",
                marks=[pytest.mark.nightly] if in_gate is not None and number >= in_gate else [],
            )
            for number, case in enumerate(cases)
        ]
    return parameters


def classes_of(file: str) -> set[str]:
    """Return the names of the classes in a list."""
    return set(_listed(file))

"""Arguments that a tool takes, made up by hypothesis, which is imported where they are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from capset.definitions.tools.definition import AnyTool
from capset.schemas.validation_errors import VALIDATION_ERRORS
from capset_testing.capability_suite.schema_fit import Data

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

CASES: Final = 100
"""How many arguments are made up for each tool; the same ones every time."""


def valid(tool: AnyTool, examples: Sequence[Data] = ()) -> SearchStrategy[Any]:
    """Return what makes arguments that a tool takes, as JSON data: one of those that are known, if any are."""
    from hypothesis import strategies as st

    from capset_testing.capability_suite.strategies import fitting

    if examples:
        return st.sampled_from(examples)
    schema = tool.arguments.json_schema
    return fitting(schema, schema).filter(lambda candidate: fits(tool, candidate))


def fits(tool: AnyTool, candidate: Data) -> bool:
    """Whether a call with these arguments is let through."""
    try:
        arguments = tool.arguments.check_json(json.dumps(candidate).encode())
        if tool.contract is not None:
            tool.contract.receive(arguments)
    except VALIDATION_ERRORS:
        return False
    return True


def each(strategy: SearchStrategy[Any], use: Callable[[Any], None], cases: int = CASES) -> None:
    """Use some of what a strategy makes, the same in every run; a failure is told by its smallest case."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.errors import Unsatisfiable

    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(strategy)
    def run(case: Any) -> None:
        use(case)

    try:
        run()
    except Unsatisfiable:
        raise AssertionError("no arguments could be made up that fit a tool's schema; give examples of it") from None

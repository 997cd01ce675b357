"""The schema of limits allows just the windows and the numbers that a limit may have (spec 4, G36; spec 5, P31)."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from capset.definitions.governance.limits import MAX_REQUESTS, MAX_WINDOW_SECONDS, UNIT_SECONDS, limit_of
from capset.errors import DefinitionError
from capset.wire.allowances import LIMIT_SCHEMA, USAGE_SCHEMA

MOST = (MAX_REQUESTS, *(MAX_WINDOW_SECONDS // size for size in UNIT_SECONDS.values()))
NUMBERS = sorted(
    {0, 1, *(number for maximum in MOST for number in (maximum // 10, maximum - 1, maximum, maximum + 1, maximum * 10))}
)


def is_limit(value: object) -> bool:
    try:
        limit_of(value)
    except DefinitionError:
        return False
    return True


@pytest.mark.spec("P31")
@pytest.mark.parametrize("unit", UNIT_SECONDS)
def test_a_number_fits_the_schema_if_a_limit_may_have_it(unit: str) -> None:
    limit, usage = Draft202012Validator(LIMIT_SCHEMA), Draft202012Validator(USAGE_SCHEMA)
    for number in NUMBERS:
        assert limit.is_valid(f"{number}/1{unit}") is is_limit(f"{number}/1{unit}"), number
        window = f"{number}{unit}"
        fits = is_limit(f"3/{window}")
        assert limit.is_valid(f"3/{window}") is limit.is_valid({"requests": 3, "window": window}) is fits, window
        assert usage.is_valid(f"tokens=3/{window}") is usage.is_valid({"tokens": 3, "window": window}) is fits, window

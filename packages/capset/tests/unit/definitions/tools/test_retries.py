from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError, tool
from capset.definitions.tools.retries import MAX_ATTEMPTS, Retry

ATTEMPTS, SECONDS = st.integers(2, MAX_ATTEMPTS), st.floats(0, 1e300)


async def again() -> int:
    """Do it again."""
    return 1


@pytest.mark.spec("G25")
def test_the_longest_pause_doubles_up_to_a_cap() -> None:
    retry = Retry(10, base=0.5, cap=3.0)
    assert [retry.max_delay(attempt) for attempt in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert Retry(5, base=0).max_delay(4) == 0


@given(ATTEMPTS, SECONDS, SECONDS, st.integers(1, MAX_ATTEMPTS))
def test_whatever_the_numbers_a_pause_is_within_the_cap(attempts: int, base: float, cap: float, attempt: int) -> None:
    longest = Retry(attempts, base=base, cap=cap).max_delay(attempt)
    assert 0 <= longest <= cap
    assert math.isfinite(longest)


@pytest.mark.spec("G25")
def test_a_number_is_that_of_the_attempts() -> None:
    assert tool(idempotent=True, retry=3)(again).retry == Retry(3, base=0.1, cap=10.0)


@pytest.mark.spec("G25")
@pytest.mark.parametrize("attempts", [1, 0, -1, 101, 2.0, True, "3", {"max_attempts": 3}])
def test_attempts_are_a_whole_number_of_at_least_two(attempts: Any) -> None:
    with pytest.raises(DefinitionError, match="max_attempts is a whole number, 2 to 100; got"):
        Retry(attempts)
    with pytest.raises(DefinitionError, match=r"tool 'again'.*: retry: max_attempts is a whole number"):
        tool(idempotent=True, retry=attempts)(again)


@pytest.mark.parametrize("seconds", [-0.1, math.inf, math.nan, True, "1", None])
@pytest.mark.parametrize("name", ["base", "cap"])
def test_seconds_are_a_number(name: str, seconds: Any) -> None:
    with pytest.raises(DefinitionError, match=f"a retry's {name} is a number of seconds, 0 or more; got"):
        Retry(3, **{name: seconds})


@pytest.mark.spec("G25")
@pytest.mark.parametrize("effect", ["read", "write", "external", "destructive"])
def test_a_tool_that_does_not_say_that_it_is_idempotent_has_no_retry(effect: Any) -> None:
    with pytest.raises(DefinitionError, match="tool 'again' is not idempotent, so it is never retried"):
        tool(effect=effect, retry=3)(again)

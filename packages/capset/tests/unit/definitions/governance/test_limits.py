from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError, Tool, tool
from capset.definitions.governance.allowances import Allowance, allowance_of, lowest_allowance
from capset.definitions.governance.limits import Budget, Limit, window_seconds


def limited(limits: Any) -> Tool[[], None]:
    async def look() -> None:
        """Look."""

    return tool(limits=limits)(look)


@pytest.mark.spec("G13")
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("100/1h", [Limit(100, "1h")]),
        ({"requests": 100, "window": "1h"}, [Limit(100, "60m")]),
        ({"requests": 5, "window": "90s", "per": "org"}, [Limit(5, "90s", per="org")]),
        (Limit(1, "1d", per="all"), [Limit(1, "24h", per="all")]),
        (["1/1s", "10/1m", "1/1s"], [Limit(1, "1s"), Limit(10, "1m")]),
        ((), []),
    ],
)
def test_a_limit_is_written_in_several_ways(limits: Any, expected: list[Limit]) -> None:
    assert list(limited(limits).limits) == expected


@pytest.mark.spec("G13")
@given(st.integers(1, 366), st.sampled_from("smhd"))
def test_a_window_is_a_number_and_a_unit(number: int, unit: str) -> None:
    assert window_seconds(f"{number}{unit}") == number * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]


@pytest.mark.spec("G13")
@pytest.mark.parametrize(
    "wrong",
    [
        *(0, 100, True, False, None, 1.5, "", "100", "/1h", "100/", "0/1h", "-1/1h", "1.5/1h", "1e3/1h", "100 per 1h"),
        *("100/h", "100/0s", "100/01s", "100/1w", "100/1H", "100/1 h", " 100/1h", "100/1h\n", "١/1h", "1/１h"),
        *("100/367d", "9999999999/1h", "1000001/1h", {"requests": 100}, {"window": "1h"}, {}, [0], [None], [["1/1s"]]),
        *({"requests": "100", "window": "1h"}, {"requests": True, "window": "1h"}, {"requests": 100, "window": 3600}),
        *({"requests": 100, "window": "1h", "per": "everybody"}, {"requests": 100, "window": "1h", "burst": 5}),
    ],
)
def test_what_is_no_limit_is_refused_with_the_tools_name(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="tool 'look': limits: "):
        limited(wrong)


@pytest.mark.spec("G13")
@given(st.integers(1, 1_000_000), st.integers(1, 400_000), st.sampled_from(["principal", "session", "org", "all"]))
def test_what_a_limit_prints_reads_as_the_limit(requests: int, seconds: int, per: Any) -> None:
    limit = Limit(requests, f"{seconds}s", per=per)
    text, _, scope = str(limit).partition(" per ")
    written = {"requests": requests, "window": text.partition("/")[2], "per": scope or "principal"}
    assert limited(written).limits == (limit,)


@pytest.mark.spec("G15")
@pytest.mark.parametrize(
    "wrong", [{}, {"calls": -1}, {"calls": True}, {"calls": 1.0}, {"cost": -0.1}, {"cost": float("nan")}, {"cost": "1"}]
)
def test_what_is_no_budget_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="budget"):
        Budget(**wrong)


FULL = Allowance(
    limits=["100/1h", {"requests": 3, "window": "60s", "per": "all", "scope": "process"}],
    session=Budget(100, 2.5),
    run=Budget(calls=0),
)


@pytest.mark.spec("G36")
def test_an_allowance_is_written_as_it_is_read() -> None:
    assert FULL.plain() == {
        "limits": ["100/1h", {"requests": 3, "window": "1m", "per": "all", "scope": "process"}],
        "session": {"calls": 100, "cost": 2.5},
        "run": {"calls": 0},
    }
    assert allowance_of(FULL.plain()) == FULL
    assert str(FULL) == "100/1h; 3/1m per all in each process; session calls=100,cost=2.5; run calls=0"
    assert Allowance().plain() == {}


@pytest.mark.spec("G36")
def test_the_lowest_of_several_grants_what_all_of_them_grant() -> None:
    other = Allowance(limits=["5/1m", "100/1h"], session=Budget(calls=200, cost=0.5), run=Budget(cost=1))
    lowest = Allowance(limits=[*FULL.limits, "5/1m"], session=Budget(100, 0.5), run=Budget(0, 1))
    assert lowest_allowance((FULL, None, other)) == lowest
    assert lowest_allowance((None, None)) is None
    assert lowest_allowance((None, FULL)) == FULL


@pytest.mark.spec("G36")
@pytest.mark.parametrize(
    "wrong",
    [
        {"limits": [f"{count}/1h" for count in range(1, 22)]},
        {"limits": ["1/1w"]},
        *({"session": {"calls": 2**53 + 1}}, {"session": {"cost": 10**400}}, {"run": {"tokens": 1}}),
        *({"day": {"calls": 1}}, "100/1h"),
    ],
)
def test_what_is_no_allowance_is_refused(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"an allowance|a budget"):
        allowance_of(wrong)

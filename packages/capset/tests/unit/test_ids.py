from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.ids import Ids, time_of

START = 1_700_000_000_000_000_000
MOMENTS = st.integers(0, (2**48 - 1) * 1_000_000)


@dataclass
class StillClock:
    """A clock that stands where it is put."""

    now: int

    def time_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


def ids_at(*moments: int, each: int = 1) -> list[str]:
    """Return identifiers that one source gave at these moments, in this order."""
    clock = StillClock(START)
    ids = Ids(clock)
    identifiers: list[str] = []
    for clock.now in moments:
        identifiers += [ids.new() for _ in range(each)]
    return identifiers


@given(MOMENTS)
def test_an_identifier_is_a_uuid_of_version_7_that_holds_its_time(moment: int) -> None:
    ids = Ids(StillClock(moment))
    mark = ids.mark()
    text = ids.text(mark)
    uuid = UUID(text)
    assert (time_of(mark), uuid.version, uuid.variant, str(uuid)) == (moment, 7, RFC_4122, text)
    assert (uuid.int >> 80, uuid.int >> 64 & 0xFFF) == (moment // 1_000_000, moment % 1_000_000 * 4096 // 1_000_000)
    assert ids.text(mark) == text


def test_the_time_of_an_identifier_is_that_of_the_machine() -> None:
    assert abs(time_of(Ids().mark()) - time.time_ns()) < 10_000_000_000


@pytest.mark.parametrize("ids", [Ids(), Ids(StillClock(START))])
def test_identifiers_of_one_source_increase_and_are_never_the_same(ids: Ids) -> None:
    identifiers = [ids.new() for _ in range(20_000)]
    assert identifiers == sorted(set(identifiers))


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=50))
def test_they_increase_with_time(steps: list[int]) -> None:
    identifiers = ids_at(*accumulate(steps, initial=START))
    assert identifiers == sorted(identifiers)


def test_a_clock_that_goes_back_gives_no_identifier_twice() -> None:
    identifiers = ids_at(*(START + moment for moment in (0, 10**9, 0, 5, 0, 10**9)), each=100)
    assert len(set(identifiers)) == len(identifiers)


def test_two_sources_at_one_moment_do_not_meet() -> None:
    identifiers = [identifier for _ in range(200) for identifier in ids_at(*[START] * 5)]
    assert len(set(identifiers)) == len(identifiers)

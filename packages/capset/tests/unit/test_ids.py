from __future__ import annotations

import time
from uuid import RFC_4122, UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from capset.ids import Ids, time_of


class Still:
    """A clock that stands where it is put."""

    def __init__(self, time_ns: int) -> None:
        self.now = time_ns

    def time_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now


MOMENTS = st.integers(0, (2**48 - 1) * 1_000_000)


@settings(deadline=None)
@given(MOMENTS)
def test_an_identifier_is_a_uuid_of_version_7_that_holds_its_time(moment: int) -> None:
    ids = Ids(Still(moment))
    mark = ids.mark()
    text = ids.text(mark)
    assert time_of(mark) == moment
    assert UUID(text).version == 7
    assert UUID(text).variant == RFC_4122
    assert str(UUID(text)) == text
    assert UUID(text).int >> 80 == moment // 1_000_000
    fraction = UUID(text).int >> 64 & 0xFFF
    assert fraction == moment % 1_000_000 * 4096 // 1_000_000


def test_formatting_a_mark_twice_gives_the_same() -> None:
    ids = Ids()
    mark = ids.mark()
    assert ids.text(mark) == ids.text(mark)
    assert abs(time_of(mark) - time.time_ns()) < 10_000_000_000


def test_identifiers_of_one_source_increase_and_are_never_the_same() -> None:
    for ids in (Ids(), Ids(Still(1_700_000_000_000_000_000))):
        identifiers = [ids.new() for _ in range(20_000)]
        assert identifiers == sorted(set(identifiers))


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=50))
def test_they_increase_with_time(steps: list[int]) -> None:
    clock = Still(1_700_000_000_000_000_000)
    ids = Ids(clock)
    identifiers: list[str] = []
    for step in steps:
        clock.now += step
        identifiers.append(ids.new())
    assert identifiers == sorted(identifiers)


def test_a_clock_that_goes_back_gives_no_identifier_twice() -> None:
    clock = Still(1_700_000_000_000_000_000)
    ids = Ids(clock)
    identifiers: list[str] = []
    for moment in (0, 10**9, 0, 5, 0, 10**9):
        clock.now = 1_700_000_000_000_000_000 + moment
        identifiers += [ids.new() for _ in range(100)]
    assert len(set(identifiers)) == len(identifiers)


def test_two_sources_at_one_moment_do_not_meet() -> None:
    sources = [Ids(Still(10**18)) for _ in range(200)]
    identifiers = [ids.new() for ids in sources for _ in range(5)]
    assert len(set(identifiers)) == len(identifiers)

"""Connections make room for one another, each address at its own expense (spec 5, P46)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from capset_server.shield.connections import Connections

LIMIT = 6
steps = st.tuples(st.sampled_from(["open", "open", "work", "rest", "end"]), st.sampled_from("abc"), st.integers(0, 20))


@given(st.lists(steps, max_size=60))
def test_a_connection_is_refused_only_if_all_others_work(script: list[tuple[str, str, int]]) -> None:
    connections, closed = Connections(LIMIT), list[int]()
    idle: list[tuple[int, str]] = []  # longest first
    working: list[tuple[int, str]] = []
    for number, (step, address, choice) in enumerate(script):
        if step == "open":
            is_full = len(idle) + len(working) == LIMIT
            was_added = connections.add(number, address, lambda number=number: closed.append(number))
            assert was_added is (not is_full or bool(idle))
            if is_full and idle:
                counts = Counter(place for _, place in idle)
                last = closed[-1]
                (place,) = (place for candidate, place in idle if candidate == last)
                assert counts[place] == max(counts.values()), "it is of the address with the most"
                assert last == next(candidate for candidate, other in idle if other == place), (
                    "and idle for longer than its others"
                )
                idle.remove((last, place))
            if was_added:
                idle.append((number, address))
        elif step == "work" and idle:
            connection = idle.pop(choice % len(idle))
            connections.work(*connection)
            working.append(connection)
        elif step == "rest" and working:
            connection = working.pop(choice % len(working))
            connections.rest(*connection)
            idle.append(connection)
        elif step == "end" and (everything := [*idle, *working]):
            connection = everything[choice % len(everything)]
            connections.remove(*connection)
            (idle if connection in idle else working).remove(connection)
    assert len(closed) == len({*closed})

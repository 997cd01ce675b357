"""The short forms of ``make lab-load`` and ``make lab-mixed-soak``: what is correct; times are for the long ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.siege.load import crowd, replicas, workers, writers
from lab.siege.mixed.samples import GROWTH, growth
from lab.siege.mixed.soak import problems, soak
from lab.siege.pace import percentiles
from tests.databases import require_scheme

pytestmark = pytest.mark.xdist_group("siege")


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D60")
def test_every_follower_of_a_crowd_gets_the_events_of_its_session() -> None:
    measurement = crowd.measure("sqlite", crowd.Sizes(sessions=60, followers=40, rate=20, seconds=1))
    assert (measurement["odd"], measurement["calls"]["count"]) == ({}, 20)
    assert measurement["followers"] == {"opened": 40, "complete": 40, "events": 160}
    assert measurement["peak_rss"] < crowd.TARGET_BYTES


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D61")
def test_two_servers_write_one_chain_and_lose_no_call() -> None:
    require_scheme()
    measurement = replicas.measure(replicas.Sizes((2,), 1, 0.5), shares=(None,))
    assert measurement["acknowledged"] == measurement["written"] > 0
    assert replicas.misses(measurement) == []


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D12")
def test_two_workers_do_every_run_once() -> None:
    require_scheme()
    measurement = workers.measure(workers.Sizes((2,), 10, 1), shares=(None,))
    assert measurement["queued"] == measurement["written"] == 10
    assert workers.misses(measurement) == []


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D62")
def test_several_writers_take_turns_on_one_chain() -> None:
    require_scheme()
    (row,) = writers.measure(writers.Sizes((1,), 1, 0.5))["rows"]
    assert row["records"] > 0
    assert 0 < row["lock_held"] <= 1


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("D64")
def test_a_soak_makes_every_kind_of_load_and_verifies_the_record() -> None:
    report = soak("sqlite", 1.5, every=0.5)
    assert report["errors"] == {}
    assert report["verified"]
    assert [problem for problem in problems(report) if "grew" not in problem] == []
    assert len(report["samples"]) >= 2


@pytest.mark.spec("D64")
def test_a_soak_fails_by_what_grows_and_by_odd_answers() -> None:
    samples = [
        {"at": float(at), "rss": 10**8 + at * 10**6, "descriptors": 20 + at % 3, "threads": 9} for at in range(100)
    ]
    grown = {name: growth(samples, name) for name in GROWTH}
    assert grown == {"rss": 74_000_000, "descriptors": 0, "threads": 0}
    report = {
        "errors": {"file: 500": 2},
        "growth": grown,
        "before": {"descriptors": 20},
        "left": {"descriptors": 500},
        "rates": {"read call": 8},
        "kinds": {},
    }
    failures = problems(report)
    assert failures[:3] == [
        "2 times file: 500",
        "rss grew by 74,000,000, more than 20,000,000",
        "500 descriptors were left, 20 before",
    ]
    assert "no read call was made" in failures


def test_percentiles_are_in_milliseconds() -> None:
    assert percentiles([number / 1000 for number in range(1, 101)]) == {
        "count": 100, "p50": 50.5, "p95": 95.1, "p99": 99.0, "max": 100.0,
    }  # fmt: skip
    assert percentiles([])["p99"] == 0


@pytest.mark.spec("D66")
@pytest.mark.parametrize("part", ["crowd-sqlite", "crowd-postgres"])
def test_the_saved_run_of_a_crowd_holds_its_targets(part: str) -> None:
    """A time is no test: the run that the documentation shows was measured on a machine that did nothing else."""
    measurement = json.loads((Path(__file__).parents[2] / "docs/reference/load.json").read_text())[part]
    assert crowd.misses(measurement) == []
    sizes = crowd.Sizes()
    assert (measurement["sessions"]["made"], measurement["followers"]["opened"]) == (sizes.sessions, sizes.followers)
    assert (measurement["rate"], measurement["seconds"]) == (sizes.rate, sizes.seconds)

"""The short form of the matrix of faults, and that it would notice (spec 10, D40–D47); `make lab-faults` runs all."""

from __future__ import annotations

import errno
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import AsyncGenerator

import pytest

from lab.faults.load import EFFECTS, note
from lab.faults.matrix.book import Book
from lab.faults.matrix.cells import ROWS, Row
from lab.faults.matrix.moments import MOMENTS
from lab.faults.matrix.report import cells_of, report_of
from lab.faults.matrix.run import Run, machine, run, site_for
from lab.faults.matrix.site import Site

SEED = os.environ.get("CAPSET_SEED", "1")
SHORT = (("server: killed, PostgreSQL", "load"), ("PostgreSQL: a backend killed, PostgreSQL", "approval"))
LONG = (
    ("server: killed, SQLite", "files"),
    ("PostgreSQL: killed, PostgreSQL", "starting"),
    ("PostgreSQL: a backend killed, PostgreSQL", "turn"),
    ("worker: killed, PostgreSQL", "runs"),
    ("worker: frozen, SQLite", "runs"),
    ("Redis: killed, PostgreSQL", "turn"),
    ("disk: full, SQLite", "load"),
    ("disk: full, PostgreSQL", "load"),
    ("disk: slow, SQLite", "approval"),
    ("clock: an hour back, PostgreSQL", "approval"),
    ("clients: vanish, half open, PostgreSQL", "load"),
)


def named(name: str) -> Row:
    """Return the row of a name."""
    return next(row for row in ROWS if row.name == name)


@pytest.fixture(scope="module")
async def site() -> AsyncGenerator[Site]:
    """Give two servers on a PostgreSQL server of their own, for all tests of the short form: a start takes longest."""
    with machine() as host:
        async with site_for(host, named(SHORT[0][0])) as opened_site:
            yield opened_site


@pytest.mark.realtime
@pytest.mark.spec("D40", "D41", "D42", "D43", "D44")
@pytest.mark.parametrize(("name", "moment"), SHORT)
async def test_a_fault_loses_and_doubles_nothing(site: Site, name: str, moment: str) -> None:
    hold(await run(site, named(name), moment, SEED, 0))


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(180)
@pytest.mark.spec("D40", "D41", "D42", "D43", "D44", "D45", "D46")
@pytest.mark.parametrize(("name", "moment"), LONG)
async def test_nothing_is_lost_or_doubled(name: str, moment: str) -> None:
    row = named(name)
    with machine() as host:
        if missing := host.missing(row.needs):
            pytest.skip(f"{missing} is not installed")
        async with site_for(host, row) as site:
            hold(await run(site, row, moment, SEED, 0))


def hold(outcome: Run) -> None:
    """Hold a run to all that is promised but the time, which other tests share: `make lab-faults` measures that."""
    assert outcome.wrongs == []
    assert outcome.acknowledged > 2, "more than the calls that show that the site is back"


@pytest.mark.realtime
@pytest.mark.spec("D47")
async def test_what_is_lost_or_doubled_is_noticed(site: Site) -> None:
    book = Book(site, await site.session(), "noticed-0", random.Random(1))
    for number in range(3):
        assert await book.call(number % 2, "act", f"noticed-0-{number}") == 200
    findings = await book.check()
    assert (findings.lost, findings.doubled, findings.problems) == ([], [], []), "nothing yet"
    note(site.folder, EFFECTS, "noticed-0-0")
    note(site.folder, EFFECTS, "noticed-0-strange")
    book.told["noticed-0-1"] = book.told["noticed-0-2"] = "no-record"
    book.files["/never.bin"] = "digest"
    findings = await book.check()
    assert findings.doubled == ["noticed-0-0"]
    assert [line.partition(":")[0] for line in findings.lost] == ["the file /never.bin", "noticed-0-1", "noticed-0-2"]
    assert findings.problems == ["the effect noticed-0-strange has no intent"]


@pytest.mark.realtime
@pytest.mark.spec("D47")
def test_a_disk_is_full_and_a_clock_is_off_where_they_are_told_to_be() -> None:
    script = """
import os, sys, time
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
try:
    told = os.write(file, b"x")
except OSError as error:
    told = -error.errno
print(told, time.time(), time.monotonic())
"""
    with machine() as host:
        if missing := host.missing("disk"):
            pytest.skip(f"{missing} is not installed")

        def run_script(needs: str, path: str) -> list[float]:
            environ = {**os.environ, **host.variables(needs)}
            done = subprocess.run([sys.executable, "-c", script, path], env=environ, capture_output=True, check=True)
            return [float(word) for word in done.stdout.split()]

        inside, outside = str(host.databases / "file"), str(host.folder / "file")
        assert run_script("disk", inside)[0] == 1
        host.disk.write_bytes(struct.pack("ii", 1, 0))
        assert run_script("disk", inside)[0] == -errno.ENOSPC
        assert run_script("disk", outside)[0] == 1
        host.clock.write_bytes(struct.pack("ii", -3600, 0))
        _, wall, monotonic = run_script("clock", outside)
        assert wall == pytest.approx(time.time() - 3600, abs=60)
        assert monotonic == pytest.approx(time.monotonic(), abs=60)


@pytest.mark.spec("D47")
def test_a_report_counts_what_did_not_hold() -> None:
    good = Run("1 0", 2.0, 10, [], [], 0, "", [])
    slow = Run("1 1", 11.0, 10, [], [], 0, "", [])
    worse = Run("1 2", 1.0, 10, ["a call"], ["an effect"], 3, "a link is missing", ["a server ended"])
    report = report_of({("server: killed, SQLite", "load"): [good, slow, worse]}, 1)
    (cell,) = cells_of(report, "server", "killed", "SQLite")
    sums = {key: cell[key] for key in ("runs", "recovery", "lost", "doubled", "open", "chains", "held")}
    assert sums == {"runs": 3, "recovery": 11.0, "lost": 1, "doubled": 1, "open": 3, "chains": 2, "held": 1}
    assert cell["misses"] == [
        "seed 1 1: recovered after 11.0 s", "seed 1 2: a call", "seed 1 2: twice: an effect",
        "seed 1 2: a link is missing", "seed 1 2: a server ended", "seed 1 2: 3 open intents",
    ]  # fmt: skip


@pytest.mark.realtime
@pytest.mark.spec("D47")
def test_the_matrix_has_enough_cells_for_three_hundred_runs() -> None:
    assert 3 * sum(len(row.moments) for row in ROWS) >= 300
    assert {moment for row in ROWS for moment in row.moments} == {*MOMENTS}
    assert len({row.name for row in ROWS}) == len(ROWS)

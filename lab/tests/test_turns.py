"""Jobs take turns, and each is measured; peers that are not installed are named."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from lab.benchmarks import peers
from lab.benchmarks.turns import Job, in_turns, together


async def test_every_job_takes_its_turn_in_every_round() -> None:
    turns: list[str] = []

    def job(name: str) -> Job:
        async def run() -> None:
            turns.append(name)

        return run

    async def before() -> None:
        turns.append("before")

    took = await in_turns({"one": job("one"), "two": job("two")}, rounds=3, before=before)
    assert took.keys() == {"one", "two"}
    assert all(0 < microseconds < 1_000_000 for microseconds in took.values())
    assert list(dict.fromkeys(turns[turns.index("before") :])) == ["before", "one", "two"]
    assert Counter(turns)["before"] == 6


async def test_together_makes_all_calls_in_as_many_tasks() -> None:
    tasks: Counter[object] = Counter()

    async def job() -> None:
        tasks[asyncio.current_task()] += 1
        await asyncio.sleep(0)

    await together(job, tasks=4, calls=3)
    assert sorted(tasks.values()) == [3, 3, 3, 3]


async def test_a_peer_that_is_not_installed_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> Job:
        raise AssertionError("it is not there to be made")

    monkeypatch.setattr(peers, "PEERS", {"nobody": ("no_such_module_of_a_peer", make)})
    monkeypatch.setattr("os.environ", {})
    assert await peers.installed() == ({}, ["nobody"])


async def test_a_peer_whose_own_import_fails_is_no_missing_peer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "half_a_peer.py").write_text("import what_half_a_peer_needs\n", encoding="utf-8")

    async def make() -> Job:
        raise AssertionError("it cannot be imported")

    monkeypatch.setattr(peers, "PEERS", {"half": ("half_a_peer", make)})
    monkeypatch.setattr("os.environ", {})
    with pytest.raises(ModuleNotFoundError, match="what_half_a_peer_needs"):
        await peers.installed()

"""Checkpoints: a removed tail and a chain that was computed anew are found, and where (spec 4, G21, G22)."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from capset.fingerprint.chain import GENESIS, seal, verify
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, Unsound, checkpoints_in, digest_of, signed
from tests.fingerprint.test_chain import links

KEY, OTHER = CheckpointKey.generate(), CheckpointKey.generate()
KEYS = (KEY.public,)
NOW = "2026-01-01T00:00:00.000000Z"


def sealed(rows: list[dict[str, Any]], *seqs: int, since: int = 1, key: CheckpointKey = KEY) -> list[Checkpoint]:
    found: list[Checkpoint] = []
    for seq in seqs:
        before = found[-1] if found else None
        found.append(signed(key, before, seq=seq, hash=rows[seq - 1]["hash"], since=since, now=NOW))
    return found


def plain(checkpoints: list[Checkpoint]) -> list[dict[str, Any]]:
    return [asdict(one) for one in checkpoints]


def recompute(rows: list[dict[str, Any]], start: int) -> None:
    """Change the record ``start`` and compute every hash from there on anew, as somebody with the database can."""
    previous = rows[start - 2]["hash"] if start > 1 else GENESIS
    rows[start - 1]["tool"] = "another"
    for row in rows[start - 1 :]:
        row["previous"] = previous
        previous = seal(row)["hash"]


@pytest.mark.spec("G21", "T15")
def test_a_sound_chain_says_how_far_it_is_covered() -> None:
    rows = links(9)
    found = verify(rows, plain(sealed(rows, 4, 7)), keys=KEYS)
    assert (found.ok, found.checked, found.covered, found.since) == (True, 9, 7, 1)
    assert verify(rows, plain(sealed(rows, 4, 7))).covered is None, "whose signatures nobody checked"


@pytest.mark.spec("G21", "G22")
@pytest.mark.parametrize("left", [0, 3, 4, 6])
def test_a_tail_that_was_cut_off_is_found(left: int) -> None:
    rows = links(9)
    found = verify(rows[:left], plain(sealed(rows, 4, 7)), keys=KEYS)
    assert (found.ok, found.checked, found.seq) == (False, left, left + 1)
    assert "missing at the end: checkpoint" in str(found.problem)


@pytest.mark.spec("G21", "G22")
@pytest.mark.parametrize(("start", "where"), [(1, 1), (4, 1), (5, 5), (7, 5)])
def test_a_chain_that_was_computed_anew_is_found_between_two_checkpoints(start: int, where: int) -> None:
    rows = links(9)
    checkpoints = plain(sealed(rows, 4, 7))
    recompute(rows, start)
    assert verify(rows).ok, "all hashes hold"
    found = verify(rows, checkpoints, keys=KEYS)
    assert (found.ok, found.seq) == (False, where)
    assert f"recomputed from some record after {where - 1} on" in str(found.problem)


@pytest.mark.spec("G21")
def test_what_came_after_the_newest_checkpoint_it_cannot_tell() -> None:
    rows = links(9)
    checkpoints = plain(sealed(rows, 7))
    recompute(rows, 8)
    found = verify(rows, checkpoints, keys=KEYS)
    assert (found.ok, found.covered) == (True, 7)


@pytest.mark.spec("G21")
@pytest.mark.parametrize("column", ["number", "seq", "hash", "since", "time", "previous", "key", "signature"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_change_of_any_column_of_a_checkpoint_is_found(column: str, index: int) -> None:
    rows = links(9)
    checkpoints = plain(sealed(rows, 4, 7))
    for value in (None, 5, "x", KEY.sign(b"other"), OTHER.public.id, b"\xff", "\ud800"):
        changed = [dict(one) for one in checkpoints]
        changed[index][column] = value
        assert not verify(rows, changed, keys=KEYS).ok, value


@pytest.mark.spec("G21")
def test_checkpoints_are_a_chain_of_their_own() -> None:
    rows = links(9)
    one, two, three = plain(sealed(rows, 3, 5, 7))
    for given, problem in (
        ([two, three], "checkpoint 1 is missing; found 2"),
        ([one, three], "checkpoint 2 is missing; found 3"),
        ([one, two, two], "checkpoint 3 is missing; found 2"),
        ([], "there is no checkpoint over any of the records"),
    ):
        found = verify(rows, given, keys=KEYS)
        assert not found.ok
        assert problem in str(found.problem)
    forged = plain(sealed(rows, 3, 5, 7, key=OTHER))
    assert "checkpoint 1 is signed by another key" in str(verify(rows, forged, keys=KEYS).problem)
    assert verify(rows, forged, keys=(*KEYS, OTHER.public)).covered == 7
    grafted = signed(KEY, replace(Checkpoint(**one), time="x"), seq=5, hash=rows[4]["hash"], since=1, now=NOW)
    assert "does not follow the one before" in str(verify(rows, [one, asdict(grafted)], keys=KEYS).problem)
    back = signed(KEY, Checkpoint(**one), seq=2, hash=rows[1]["hash"], since=1, now=NOW)
    assert "goes back behind" in str(verify(rows, [one, asdict(back)], keys=KEYS).problem)


@pytest.mark.spec("G21")
def test_one_that_was_kept_elsewhere_tells_when_the_log_lost_its_own() -> None:
    rows = links(9)
    kept = sealed(rows, 4, 7)[1:]
    assert verify(rows, kept=kept, keys=KEYS).covered == 7
    assert "records 6–7 are missing at the end" in str(verify(rows[:5], kept=kept, keys=KEYS).problem)
    recompute(rows, 6)
    own = plain(sealed(rows, 8, key=KEY))
    assert verify(rows, own, keys=KEYS).ok, "the log's own were signed anew"
    assert "record 7 is not the one of checkpoint 2" in str(verify(rows, own, kept=kept, keys=KEYS).problem)
    lie = [replace(kept[0], seq=6)]
    assert "its signature does not hold" in str(verify(rows, own, kept=lie, keys=KEYS).problem)


@pytest.mark.spec("G21")
def test_a_pruned_log_verifies_from_the_checkpoint_on_that_it_was_cut_at() -> None:
    rows = links(9)
    first, second = sealed(rows, 4, 7)
    note = signed(KEY, second, seq=9, hash=rows[8]["hash"], since=5, now=NOW)
    left, own = rows[4:], plain([first, second, note])
    found = verify(left, own, since=5, keys=KEYS)
    assert (found.ok, found.checked, found.since, found.covered) == (True, 5, 5, 9)
    assert "checkpoint 1 is missing; found 2" in str(verify(left, own[1:], since=5).problem)
    assert "record 1 is missing: no checkpoint" in str(verify(left, [], since=5).problem)
    later = [asdict(second), asdict(signed(KEY, second, seq=9, hash=rows[8]["hash"], since=8, now=NOW))]
    assert verify(rows[7:], later, since=8, keys=KEYS).ok, "checkpoints before the cut go with their records"
    for more in (5, 6):
        assert "is missing; found" in str(verify(rows[more:], own, since=5, keys=KEYS).problem)
    assert "no checkpoint that was kept covers record 9" in str(
        verify(rows[8:], plain(sealed(rows, 4, 8)), since=9, kept=[first]).problem
    )


@pytest.mark.spec("G22", "G42")
@pytest.mark.parametrize("statement", [None, 5, ["x"], "5", "{", '{"id": 1}', "[" * 100_000])
def test_a_succession_that_states_nothing_is_followed_by_no_key(statement: object) -> None:
    rows = links(3)
    rows[2] |= {"act": "checkpoint_key.succeed", "arguments": statement}
    seal(rows[2])
    checkpoints = [*sealed(rows, 2), *sealed(rows, 3, key=OTHER)]
    found = verify(rows, plain(checkpoints[:1]), keys=KEYS)
    assert found.ok
    assert found.covered == 2
    assert not verify(rows, plain(checkpoints), keys=KEYS).ok


def test_checkpoints_are_read_from_lines_of_json() -> None:
    checkpoints = sealed(links(9), 4, 7)
    text = "\n".join(json.dumps(one) for one in plain(checkpoints)) + "\n\n"
    assert checkpoints_in(text) == checkpoints
    assert checkpoints[1].previous == digest_of(checkpoints[0])
    for bad in ("[]", "{}", "nonsense", '{"number": "1"}'):
        with pytest.raises(Unsound, match="checkpoint"):
            checkpoints_in(bad)

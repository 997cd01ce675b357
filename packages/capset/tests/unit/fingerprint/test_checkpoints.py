from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from capset.fingerprint.chain import GENESIS, Verification, seal, verify
from capset.fingerprint.checkpoints import (
    Checkpoint,
    CheckpointKey,
    TrustedKey,
    sign_checkpoint,
    succession,
)
from tests.helpers.fingerprint.chain import links

KEY, OTHER, THIRD = (CheckpointKey.generate() for _ in range(3))
KEYS = (KEY.public,)
NOW = "2026-01-01T00:00:00.000000Z"


def signed_by(rows: list[dict[str, Any]], *marks: tuple[int, CheckpointKey]) -> list[Checkpoint]:
    """Return checkpoints over records, each by a key."""
    checkpoints: list[Checkpoint] = []
    for seq, key in marks:
        before = checkpoints[-1] if checkpoints else None
        checkpoints.append(sign_checkpoint(key, before, seq=seq, hash=rows[seq - 1]["hash"], since=1, now=NOW))
    return checkpoints


def sealed(rows: list[dict[str, Any]], *seqs: int, key: CheckpointKey = KEY) -> list[Checkpoint]:
    return signed_by(rows, *((seq, key) for seq in seqs))


def plain(checkpoints: list[Checkpoint]) -> list[dict[str, Any]]:
    return [asdict(checkpoint) for checkpoint in checkpoints]


def checked(rows: list[dict[str, Any]], logged: list[Checkpoint] | None = None, **more: Any) -> Verification:
    """Verify records by the checkpoints in their log, signed by the keys that are trusted, or by ``KEY``."""
    options: dict[str, Any] = {"keys": KEYS, **more}
    return verify(rows, plain(logged or []), **options)


def rewrite(rows: list[dict[str, Any]], start: int, **changes: Any) -> None:
    """Change the record ``start`` and compute every hash from there on anew, as somebody with the database can."""
    rows[start - 1] |= changes or {"tool": "another"}
    previous = rows[start - 2]["hash"] if start > 1 else GENESIS
    for row in rows[start - 1 :]:
        row["previous"] = previous
        previous = seal(row)["hash"]


def hand_over(
    rows: list[dict[str, Any]], seq: int, to: CheckpointKey, before: CheckpointKey, *, is_signed: bool = True
) -> None:
    """Have a record say that a key takes over from the one before, signed by that or not."""
    statement = succession(to.public, before.public.id, before if is_signed else None)
    rewrite(rows, seq, act="checkpoint_key.succeed", arguments=json.dumps(statement))


@pytest.mark.spec("G21", "T15")
def test_a_sound_chain_says_how_far_it_is_covered() -> None:
    rows = links(9)
    verification = checked(rows, sealed(rows, 4, 7))
    assert (verification.ok, verification.checked, verification.covered, verification.since) == (True, 9, 7, 1)
    assert checked(rows, sealed(rows, 4, 7), keys=()).covered is None, "whose signatures nobody checked"


@pytest.mark.spec("G21", "G22")
@pytest.mark.parametrize("remaining", [0, 3, 4, 6])
def test_a_tail_that_was_cut_off_is_found(remaining: int) -> None:
    rows = links(9)
    verification = checked(rows[:remaining], sealed(rows, 4, 7))
    assert (verification.ok, verification.checked, verification.seq) == (False, remaining, remaining + 1)
    assert "missing at the end: checkpoint" in str(verification.problem)


@pytest.mark.spec("G21", "G22")
@pytest.mark.parametrize(("start", "where"), [(1, 1), (4, 1), (5, 5), (7, 5)])
def test_a_chain_that_was_computed_anew_is_found_between_two_checkpoints(start: int, where: int) -> None:
    rows = links(9)
    checkpoints = sealed(rows, 4, 7)
    rewrite(rows, start)
    assert verify(rows).ok, "all hashes hold"
    verification = checked(rows, checkpoints)
    assert (verification.ok, verification.seq) == (False, where)
    assert f"recomputed from some record after {where - 1} on" in str(verification.problem)


@pytest.mark.spec("G21")
def test_what_came_after_the_newest_checkpoint_is_not_covered() -> None:
    rows = links(9)
    checkpoints = sealed(rows, 7)
    rewrite(rows, 8)
    verification = checked(rows, checkpoints)
    assert (verification.ok, verification.covered) == (True, 7)


@pytest.mark.spec("G21")
@pytest.mark.parametrize("column", ["number", "seq", "hash", "since", "time", "previous", "key", "signature"])
@pytest.mark.parametrize("index", [0, 1])
def test_a_change_of_any_column_of_a_checkpoint_is_found(column: str, index: int) -> None:
    rows = links(9)
    checkpoints = plain(sealed(rows, 4, 7))
    for value in (None, 5, "x", KEY.sign(b"other"), OTHER.public.id, b"\xff", "\ud800"):
        changed = [dict(row) for row in checkpoints]
        changed[index][column] = value
        assert not verify(rows, changed, keys=KEYS).ok, value


@pytest.mark.spec("G21")
def test_checkpoints_are_a_chain_of_their_own() -> None:
    rows = links(9)
    first, second, third = sealed(rows, 3, 5, 7)
    forged = sealed(rows, 3, 5, 7, key=OTHER)
    grafted = sign_checkpoint(KEY, replace(first, time="x"), seq=5, hash=rows[4]["hash"], since=1, now=NOW)
    for checkpoints, problem in (
        ([second, third], "checkpoint 1 is missing; found 2"),
        ([first, third], "checkpoint 2 is missing; found 3"),
        ([first, second, second], "checkpoint 3 is missing; found 2"),
        ([], "there is no checkpoint over any of the records"),
        (forged, "checkpoint 1 is signed by another key"),
        ([first, grafted], "does not follow the one before"),
        (sealed(rows, 3, 2), "goes back to earlier records"),
    ):
        verification = checked(rows, checkpoints)
        assert not verification.ok
        assert problem in str(verification.problem)
    assert checked(rows, forged, keys=(*KEYS, OTHER.public)).covered == 7


@pytest.mark.spec("G21")
def test_a_checkpoint_that_was_kept_elsewhere_counts_when_the_log_lost_its_own() -> None:
    rows = links(9)
    saved = sealed(rows, 4, 7)[1:]
    assert verify(rows, external=saved, keys=KEYS).covered == 7
    assert "records 6–7 are missing at the end" in str(verify(rows[:5], external=saved, keys=KEYS).problem)
    rewrite(rows, 6)
    logged = sealed(rows, 8)
    assert checked(rows, logged).ok, "the log's own were signed anew"
    assert "record 7 is not the one of checkpoint 2" in str(checked(rows, logged, external=saved).problem)
    assert "its signature is invalid" in str(checked(rows, logged, external=[replace(saved[0], seq=6)]).problem)


@pytest.mark.spec("G21")
def test_a_pruned_log_verifies_from_the_checkpoint_on_that_it_was_cut_at() -> None:
    rows = links(9)
    first, second = sealed(rows, 4, 7)
    note = sign_checkpoint(KEY, second, seq=9, hash=rows[8]["hash"], since=5, now=NOW)
    remaining, logged = rows[4:], [first, second, note]
    verification = checked(remaining, logged, since=5)
    assert (verification.ok, verification.checked, verification.since, verification.covered) == (True, 5, 5, 9)
    assert "checkpoint 1 is missing; found 2" in str(checked(remaining, logged[1:], since=5, keys=()).problem)
    assert "record 1 is missing: no checkpoint" in str(checked(remaining, [], since=5, keys=()).problem)
    later = [second, sign_checkpoint(KEY, second, seq=9, hash=rows[8]["hash"], since=8, now=NOW)]
    assert checked(rows[7:], later, since=8).ok, "checkpoints before the cut go with their records"
    for more in (5, 6):
        assert "is missing; found" in str(checked(rows[more:], logged, since=5).problem)
    uncovered = checked(rows[8:], sealed(rows, 4, 8), since=9, external=[first], keys=())
    assert "no checkpoint stored elsewhere covers record 9" in str(uncovered.problem)


@pytest.mark.spec("G22", "G42")
@pytest.mark.parametrize("statement", [None, 5, ["x"], "5", "{", '{"id": 1}', "[" * 100_000])
def test_a_succession_that_states_nothing_is_followed_by_no_key(statement: object) -> None:
    rows = links(3)
    rows[2] |= {"act": "checkpoint_key.succeed", "arguments": statement}
    seal(rows[2])
    verification = checked(rows, sealed(rows, 2))
    assert (verification.ok, verification.covered) == (True, 2)
    assert not checked(rows, signed_by(rows, (2, KEY), (3, OTHER))).ok


@pytest.mark.spec("G42", "T15")
def test_a_key_is_trusted_up_to_its_succession_and_its_successor_from_there_on() -> None:
    rows = links(9)
    hand_over(rows, 5, OTHER, KEY)
    verification = checked(rows, signed_by(rows, (4, KEY), (5, KEY), (5, OTHER), (7, OTHER)))
    assert (verification.problem, verification.covered) == (None, 7)
    trusted = [(key.key.id, key.since, key.until) for key in verification.keys]
    assert trusted == [(KEY.public.id, 1, 5), (OTHER.public.id, 5, None)]
    for keys in (KEYS, (KEY.public, OTHER.public), verification.keys):
        refused = checked(rows, sealed(rows, 4, 7), keys=keys)
        assert (refused.ok, refused.seq) == (False, 6)
        assert f"its key {KEY.public.id} handed over at record 5" in str(refused.problem)
    early = checked(rows, sealed(rows, 4, key=OTHER), keys=verification.keys)
    assert (early.ok, "took over at record 5" in str(early.problem)) == (False, True)
    hand_over(rows, 8, THIRD, KEY)  # by one that has handed over already
    assert "signed by another key" in str(checked(rows, sealed(rows, 9, key=THIRD)).problem)


@pytest.mark.spec("G42", "T15")
def test_a_succession_without_a_signature_counts_if_its_reader_trusts_both_keys() -> None:
    rows = links(9)
    hand_over(rows, 5, OTHER, KEY, is_signed=False)
    by_both = signed_by(rows, (4, KEY), (7, OTHER))
    both = (KEY.public, OTHER.public)
    assert "signed by another key" in str(checked(rows, by_both).problem)
    assert checked(rows, by_both, keys=both).ok
    assert "handed over at record 5" in str(checked(rows, sealed(rows, 4, 7), keys=both).problem)


@pytest.mark.spec("G42")
def test_what_is_known_of_keys_outlives_the_record_of_their_succession() -> None:
    rows = links(9)
    hand_over(rows, 5, OTHER, KEY)
    anchor = sign_checkpoint(OTHER, None, seq=6, hash=rows[5]["hash"], since=1, now=NOW)
    note = sign_checkpoint(OTHER, anchor, seq=8, hash=rows[7]["hash"], since=7, now=NOW)
    stolen = sign_checkpoint(KEY, note, seq=9, hash=rows[8]["hash"], since=7, now=NOW)
    pinned = (TrustedKey(KEY.public, 1, 5), TrustedKey(OTHER.public, 5))
    assert checked(rows[6:], [anchor, note], since=7, keys=pinned).ok
    assert "handed over at record 5" in str(checked(rows[6:], [anchor, note, stolen], since=7, keys=pinned).problem)


@pytest.mark.spec("G42")
@hypothesis.given(
    handed=st.lists(st.integers(2, 10), max_size=2, unique=True).map(sorted),
    marks=st.lists(st.tuples(st.integers(1, 10), st.integers(0, 2)), min_size=1, max_size=5).map(sorted),
)
def test_each_checkpoint_is_by_the_key_of_its_record_or_the_log_is_refused(
    handed: list[int], marks: list[tuple[int, int]]
) -> None:
    holders, rows = (KEY, OTHER, THIRD), links(10)
    for number, seq in enumerate(handed):
        hand_over(rows, seq, holders[number + 1], holders[number])
    spans = list(zip([1, *handed], [*handed, 10], strict=True))  # of the keys that were the log's
    is_sound = all(holder < len(spans) and spans[holder][0] <= seq <= spans[holder][1] for seq, holder in marks)
    verification = checked(rows, signed_by(rows, *((seq, holders[holder]) for seq, holder in marks)))
    assert verification.ok is is_sound, verification.problem


@pytest.mark.spec("G42", "T15")
def test_a_log_that_has_lost_checkpoints_that_were_kept_is_refused() -> None:
    rows = links(9)
    logged = sealed(rows, 4, 7)
    assert checked(rows, logged, external=logged[1:]).ok
    for count, problem in ((0, "checkpoints 1–2 are missing"), (1, "checkpoint 2 is missing")):
        verification = checked(rows, logged[:count], external=logged[1:])
        assert not verification.ok
        assert problem in str(verification.problem)
        assert not checked(rows, logged[:count], external=logged[1:], keys=()).ok, "by what was kept alone"
    assert verify(rows, keys=KEYS, external=logged).ok, "a file has none of its own"

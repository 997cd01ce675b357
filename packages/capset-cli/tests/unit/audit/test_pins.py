"""``capset audit pin|succeed``: what a caller trusts of a log, and a key that takes over (G41, G42)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey
from capset.fingerprint.checkpoints import sign_checkpoint as sign
from tests.helpers.cli.audit.changing import change
from tests.helpers.cli.support import ADD, Run


@pytest.fixture
def signed(run: Run) -> Run:
    """Give the command where there are two records, and a checkpoint over them by ``audit.key``."""
    for _ in range(2):
        assert run(*ADD).code == 0
    for name in ("audit.key", "new.key"):
        assert run("audit", "keygen", name).code == 0
    assert run("audit", "checkpoint", "--key", "audit.key").code == 0
    return run


@pytest.mark.spec("G42")
def test_a_pin_is_trusted_from_then_on_and_moves_forward(signed: Run) -> None:
    assert signed("audit", "pin").code == 2, "the log has adopted no key, and none is named"
    first = signed("audit", "pin", "--key", "audit.key.pub", "--json").json
    assert first["seq"] == 2
    assert signed("audit", "verify").out == "verified: 2 records, every hash holds\n"
    signed(*ADD)
    signed("audit", "checkpoint", "--key", "audit.key")
    assert signed("audit", "pin", "--json").json == {**first, "seq": 3}
    change("DELETE FROM records WHERE seq = 3", "DELETE FROM checkpoints WHERE seq = 3")
    cut = signed("audit", "verify")
    assert (cut.code, "record 3 is missing at the end" in cut.said) == (3, True)
    assert signed("audit", "pin").code == 3
    assert signed("audit", "verify", "--pins", "elsewhere.json").code == 0, "nobody vouches for it there"
    for damaged in (b"[]", b"\xff\xfe"):
        Path(first["pins"]).write_bytes(damaged)
        done = signed("audit", "verify")
        assert (done.code, "cannot be read" in done.said) == (2, True), "pins that are damaged are not passed over"


def test_a_pin_that_another_log_does_not_hold_to_is_named_and_can_be_removed(signed: Run) -> None:
    pins = signed("audit", "pin", "--key", "audit.key.pub", "--json").json["pins"]
    change("DELETE FROM records", "DELETE FROM checkpoints")
    for command in ("verify", "pin"):
        refused = signed("audit", command)
        assert refused.code == 3
        assert f"this database is pinned in {pins}; if its log" in " ".join(refused.said.split())
    assert signed("audit", "pin", "--forget", "--key", "new.key.pub").code == 2
    assert signed("audit", "pin", "--forget").code == 0
    assert signed("audit", "pin", "--forget").code == 2, "there is none any more"
    signed(*ADD)
    signed("audit", "checkpoint", "--key", "new.key")
    assert signed("audit", "pin", "--key", "new.key.pub").code == 0
    assert signed("audit", "verify").code == 0
    assert "pinned" not in signed("audit", "verify", "--pins", "none.json").said


@pytest.mark.spec("G42", "T15")
def test_a_pinned_log_that_has_lost_its_checkpoints_is_not_verified(signed: Run) -> None:
    assert signed("audit", "pin", "--key", "audit.key.pub").code == 0
    change("DELETE FROM checkpoints")
    lost = signed("audit", "verify")
    assert (lost.code, "verified" in lost.out) == (3, False)
    assert "checkpoint 1 is missing from the log, but stored elsewhere" in lost.said
    assert signed("audit", "pin").code == 3


@pytest.mark.spec("G41", "G42", "T15")
def test_who_finds_a_key_that_has_handed_over_cannot_sign_with_it(signed: Run) -> None:
    signed("audit", "pin", "--key", "audit.key.pub")
    assert signed("audit", "succeed", "--to", "new.key", "--key", "audit.key").code == 0
    assert signed("audit", "pin").code == 0
    signed(*ADD)
    refused = signed("audit", "checkpoint", "--key", "audit.key")
    assert (refused.code, "has handed over to another" in refused.said) == (2, True)
    back = signed("audit", "succeed", "--to", "audit.key", "--key", "new.key")
    assert (back.code, "already is or was its key" in back.said) == (2, True)
    assert signed("audit", "verify").code == 0
    with closing(sqlite3.connect("capset.db", isolation_level=None)) as database:  # as one with the file can
        database.row_factory = sqlite3.Row
        newest = Checkpoint(**database.execute("SELECT * FROM checkpoints ORDER BY number DESC LIMIT 1").fetchone())
        seq, head = database.execute("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1").fetchone()
        stolen = CheckpointKey.read("audit.key")
        forged = asdict(sign(stolen, newest, seq=seq, hash=head, since=1, now=newest.time))
        names = ", ".join(forged)
        marks = ", ".join("?" * len(forged))
        database.execute(f"INSERT INTO checkpoints ({names}) VALUES ({marks})", tuple(forged.values()))
    for options in ((), ("--key", "audit.key.pub"), ("--pins", "none.json", "--key", "audit.key.pub")):
        verification = signed("audit", "verify", *options)
        assert (verification.code, "handed over at record 3" in verification.said) == (3, True), options


@pytest.mark.spec("G42")
def test_an_emptied_log_is_empty_and_not_verified(signed: Run) -> None:
    signed("audit", "pin", "--key", "audit.key.pub")
    change("DELETE FROM records", "DELETE FROM checkpoints")
    assert signed("audit", "verify").code == 3
    alone = signed("audit", "verify", "--pins", "none.json")
    assert alone.code == 0
    assert alone.out.splitlines() == [
        "no key was given: nothing vouches for what follows",
        "empty: there are no records, and nothing says whether there were any",
    ]


@pytest.mark.spec("G41", "G42")
def test_a_successor_is_trusted_if_the_key_before_has_signed_it(signed: Run) -> None:
    signed("audit", "pin", "--key", "audit.key.pub")
    assert signed("audit", "succeed", "--to", "audit.key").code == 2, "no key succeeds itself"
    missing = signed("audit", "succeed", "--to", "next.key.pub")
    assert (missing.code, "capset audit keygen next.key creates" in missing.said) == (2, True)
    done = signed("audit", "succeed", "--to", "new.key", "--key", "audit.key", "--json").json
    assert done["signed"] is True
    signed(*ADD)
    signed("audit", "checkpoint", "--key", "new.key")
    assert signed("audit", "verify").out.startswith("verified: 4 records")
    assert signed("audit", "pin", "--json").json["key"] == done["key"], "the pin follows"
    assert signed("audit", "verify").code == 0


@pytest.mark.spec("G41", "G42")
def test_a_successor_that_the_key_before_has_not_signed_is_a_stranger(signed: Run) -> None:
    signed("audit", "pin", "--key", "audit.key.pub")
    wrong = signed("audit", "succeed", "--to", "new.key.pub", "--key", "new.key")
    assert (wrong.code, "the log is signed by the key" in wrong.said) == (2, True)
    done = signed("audit", "succeed", "--to", "new.key.pub")
    assert (done.code, "has not signed this" in done.said) == (0, True)
    (act,) = signed("audit", "query", "--act", "checkpoint_key.succeed", "--json").json["items"]
    assert act["arguments"]["signature"] is None
    signed("audit", "checkpoint", "--key", "new.key")
    verification = signed("audit", "verify")
    assert (verification.code, "signed by another key" in verification.said) == (3, True)

"""``capset audit keygen|checkpoint|checkpoints|verify|prune``: signing, checking by it, and cutting (spec 4, G21)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli.audit.changing import change
from tests.helpers.cli.support import ADD, Run


@pytest.fixture
def keyed(run: Run) -> Run:
    """Give the command where there are three records, a pair of keys, and a checkpoint that was copied elsewhere."""
    for _ in range(3):
        assert run(*ADD).code == 0
    assert run("audit", "keygen", "audit.key").code == 0
    checkpoint = run("audit", "checkpoint", "--key", "audit.key")
    assert checkpoint.code == 0
    Path("kept.ndjson").write_text(checkpoint.out, encoding="utf-8")
    return run


SOUND = {"ok": True, "vouched": True}
BY_KEY = ("audit", "verify", "--key", "audit.key.pub")


def without_keys(verified: dict[str, object]) -> dict[str, object]:
    assert len(str(verified.pop("keys"))) == len("['0123456789abcdef']")
    return verified


def test_a_pair_of_keys_is_made_once_and_the_private_one_is_private(run: Run) -> None:
    key_pair = run("audit", "keygen", "audit.key", "--json").json
    assert key_pair == {"id": key_pair["id"], "private": "audit.key", "public": "audit.key.pub"}
    assert Path("audit.key").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" in Path("audit.key").read_text()
    assert "PUBLIC KEY" in Path("audit.key.pub").read_text()
    repeated = run("audit", "keygen", "audit.key")
    assert (repeated.code, "the file 'audit.key' already exists" in repeated.said) == (2, True)


@pytest.mark.spec("G21")
def test_a_checkpoint_is_made_shown_and_verified_by(keyed: Run) -> None:
    assert without_keys(keyed(*BY_KEY, "--json").json) == {**SOUND, "checked": 3, "covered": 3}
    same = keyed("audit", "checkpoint", "--key", "audit.key", "--json").json
    assert same == json.loads(Path("kept.ndjson").read_text())
    assert (same["number"], same["seq"], same["since"]) == (1, 3, 1)
    keyed(*ADD)
    verification = keyed(*BY_KEY)
    assert verification.out == "verified: 4 records, every hash holds\n"
    assert verification.said == (
        "signed checkpoints cover records up to 3; the newest records after it may be missing "
        "records alone are verified, not agents, keys, people or settings; "
        "capset db check --verify compares the first three with their acts"
    )
    second = keyed("audit", "checkpoint", "--key", "audit.key", "--json").json
    lines = keyed("audit", "checkpoints", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [same, second]
    assert [line.split()[0] for line in keyed("audit", "checkpoints", "--after", "1").out.splitlines()] == [
        "NUMBER",
        "2",
    ]


@pytest.mark.spec("G21", "G22")
def test_without_a_key_it_says_what_it_cannot_see(keyed: Run) -> None:
    verification = keyed("audit", "verify")
    first, second = verification.out.splitlines()
    assert verification.code == 0
    assert first == "no key was given: nothing vouches for what follows"
    assert second == "consistent in itself: 3 records, every hash holds"
    assert "a log that was emptied, truncated or recomputed looks the same" in verification.said


@pytest.mark.spec("G21", "G22")
def test_a_tail_that_was_cut_off_is_found_though_the_checkpoints_are_gone(keyed: Run) -> None:
    change("DELETE FROM records WHERE seq = 3")
    cut = keyed(*BY_KEY, "--json")
    assert (cut.code, cut.json["seq"]) == (3, 3)
    assert cut.json["problem"] == "record 3 is missing at the end: checkpoint 1 covers more"
    change("DELETE FROM checkpoints")
    assert keyed("audit", "verify").code == 0, "which is what a checkpoint is for"
    none = keyed(*BY_KEY)
    assert (none.code, "there is no checkpoint over any of the records" in none.said) == (3, True)
    for options in ((), ("--key", "audit.key.pub")):
        verification = keyed("audit", "verify", "--checkpoint", "kept.ndjson", *options)
        assert (verification.code, "record 3 is missing at the end" in verification.said) == (3, True)


@pytest.mark.spec("G21")
def test_another_key_verifies_nothing(keyed: Run) -> None:
    keyed("audit", "keygen", "other.key")
    done = keyed("audit", "verify", "--key", "other.key.pub")
    assert (done.code, "checkpoint 1 is signed by another key" in done.said) == (3, True)
    assert keyed("audit", "verify", "--key", "other.key.pub", "--key", "audit.key.pub").code == 0


@pytest.mark.spec("G21")
def test_records_are_cut_up_to_a_checkpoint(keyed: Run) -> None:
    keyed(*ADD)
    prune = ("audit", "prune", "--key", "audit.key", "--before", "2999-01-01")
    assert keyed(*prune, "--json").json == {"removed": 3, "since": 4}
    assert without_keys(keyed(*BY_KEY, "--json").json) == {**SOUND, "checked": 2, "since": 4, "covered": 4}
    verification = keyed("audit", "verify")
    assert (verification.code, "earlier records were pruned" in verification.said) == (0, True)
    assert keyed("audit", "prune", "--key", "audit.key", "--keep", "90d", "--json").json == {"removed": 0, "since": 4}
    young = keyed("audit", "prune", "--key", "audit.key", "--keep", "90d")
    assert (young.code, young.out) == (0, "nothing is old enough: the log begins with 4\n")
    assert keyed(*prune).out == "pruned: 1 record; the log begins with 5\n", "at the checkpoint that pruning made"
    keyed(*ADD)
    keyed("audit", "keygen", "other.key")
    refused = keyed("audit", "prune", "--key", "other.key", "--before", "2999-01-01")
    assert (refused.code, "no checkpoint of this key covers records" in refused.said) == (3, True)
    change("DELETE FROM records WHERE seq = 5", "UPDATE checkpoints SET since = 4")
    assert keyed("audit", "verify").code == 3


@pytest.mark.spec("G21", "G22")
def test_what_was_changed_is_evidence_and_is_not_cut(keyed: Run) -> None:
    keyed(*ADD)
    change("UPDATE records SET tool = 'another' WHERE seq = 2")
    refused = keyed("audit", "prune", "--key", "audit.key", "--before", "2999-01-01", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "conflict")
    assert "not sound: record 2 was changed" in refused.json["error"]["message"]
    change("DELETE FROM records WHERE seq = 3")
    signed = keyed("audit", "checkpoint", "--key", "audit.key")
    assert (signed.code, "record 3 is not the one of checkpoint 1" in signed.said) == (1, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("checkpoint --key nowhere", "there is no file 'nowhere'"),
        ("checkpoint --key audit.key.pub", "this is a public one"),
        ("verify --key audit.key", "this is a private one"),
        ("verify --key kept.ndjson", "a public key must be PEM, or 32 bytes in base64"),
        ("verify --checkpoint audit.key", "there are no checkpoints in 'audit.key'"),
        ("prune --key audit.key", "one of --before and --keep"),
        ("prune --key audit.key --before 2026-01-01 --keep 1d", "one of --before and --keep"),
        ("prune --key audit.key --keep 3months", "a window is a whole number"),
        (
            "prune --key audit.key --before soon",
            "--before must be a time, such as 2026-01-31T12:00Z, 2h or yesterday; got 'soon'",
        ),
        ("prune --before 2026-01-01", "Missing option '--key'"),
        ("checkpoint", "Missing option '--key'"),
        (f"checkpoints --after {2**63}", "Invalid value for '--after'"),
    ],
)
def test_bad_input_ends_with_2(line: str, message: str, keyed: Run) -> None:
    done = keyed("audit", *line.split())
    assert done.code == 2
    assert message in " ".join(f"{done.out} {done.err}".replace("│", " ").split())

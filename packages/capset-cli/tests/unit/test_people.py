"""``capset people``: entered, listed and removed, on record (spec 9, N30)."""

from __future__ import annotations

import json

import pytest

from tests.helpers.cli.support import Run

BEA = ("people", "add", "T1", "U1", "--principal", "bea", "--org", "acme")


@pytest.mark.spec("N30", "G39")
def test_people_are_entered_listed_and_removed(run: Run) -> None:
    assert run("key", "create", "ci", "--principal", "bot").code == 0, "a database"
    created = run(*BEA, "--grant", "deploy:run", "--attribute", "tier=gold", "--json")
    assert created.code == 0, created.err
    assert (created.json["principal"], created.json["org"], created.json["attributes"]) == (
        "bea",
        "acme",
        {"tier": "gold"},
    )
    assert created.json["makers"] == [], "a person who is entered on the database has no maker"
    repeated = run(*BEA)
    assert repeated.code == 2
    assert "was already added" in repeated.said
    assert "U1" in run("people", "list", "--org", "acme").out
    assert run("people", "list", "--json").json["items"] == [], "of no organisation"
    gone = run("people", "remove", created.json["id"], "--org", "acme")
    assert (gone.code, gone.out) == (0, f"removed {created.json['id']}\n")
    assert run("people", "remove", created.json["id"], "--org", "acme").code == 2
    rows = [json.loads(line) for line in run("audit", "export").out.splitlines()]
    acts = [row["act"] for row in rows if row.get("act")]
    assert [act for act in acts if act.startswith("person.")] == ["person.add", "person.remove"]


@pytest.mark.spec("N30")
@pytest.mark.parametrize(
    "words",
    [
        ("people", "add", "acme", "U1", "--principal", "bea"),
        ("people", "add", "T1", "ada@example.org", "--principal", "bea"),
        ("people", "add", "T1", "U1", "--principal", "bea", "--kind", "anonymous"),
        ("people", "add", "T1", "U1", "--principal", "bea", "--grant", "everything"),
    ],
)
def test_what_is_no_person_is_refused(run: Run, words: tuple[str, ...]) -> None:
    assert run("key", "create", "ci", "--principal", "bot").code == 0
    refused = run(*words)
    assert refused.code == 2
    assert "invalid person" in refused.said or "permission" in refused.said
    assert run("people", "list", "--json").json["items"] == []

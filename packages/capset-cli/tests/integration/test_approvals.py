"""``capset approvals``, and calls that wait for one (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import capset
from capset_server.client import Client
from tests.helpers.cli.support import Command, Done, Run, clean_environment, install
from tests.helpers.cli.till import TILL
from tests.helpers.server.running import running

SOURCE = str(Path(capset.__file__).parents[1])
PAY = ("call", "till.pay", "--args", '{"to": "bob"}')
BOSS = ("--principal", "boss")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    install(folder, "tillshop", TILL, capabilities={"till": "tillshop:till"}, agents={"clerk": "tillshop:clerk"})
    return folder


@pytest.fixture
def shop(run: Run, packages: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Run]:
    """Give the command as a function, where the till is installed."""
    monkeypatch.syspath_prepend(str(packages))
    yield run
    sys.modules.pop("tillshop", None)


def asked(run: Run) -> dict[str, Any]:
    """Ask for a payment that is not waited for, and return the call."""
    done = run(*PAY, "--defer", "--json")
    assert done.code == 3, done.err
    return done.json


def again(run: Run, call: dict[str, Any], *more: str) -> Done:
    """Make the payment once more, by its approval."""
    return run(*PAY, "--session", call["session"], "--approval", call["approval"], "--defer", *more)


@pytest.mark.spec("G16", "G17", "G18")
def test_a_call_is_asked_for_approved_and_made_again(shop: Run) -> None:
    call = asked(shop)
    assert (call["success"], call["refused"], call["error"]["code"]) == (False, True, "approval_required")
    assert call["error"]["approval"] == call["approval"]
    (request,) = shop("approvals", "list", "--json").json["items"]
    assert (request["id"], request["status"], request["call"]) == (call["approval"], "pending", call["record"])
    assert request["arguments"] == {"to": "bob", "amount": 5}
    assert shop("approvals", "show", call["approval"], "--json").json == request
    self_approval = shop("approvals", "approve", call["approval"], "--json")
    assert (self_approval.code, self_approval.json["error"]["code"]) == (3, "permission_denied")
    assert again(shop, call).code == 3
    done = shop("approvals", "approve", call["approval"], *BOSS, "--note", "only this once", "--json")
    assert (done.code, done.json["status"], done.json["decided_by"]) == (0, "approved", "user:boss")
    passed = again(shop, call)
    assert (passed.code, passed.out) == (0, "bob has 5\n")
    second = again(shop, call, "--json")
    assert (second.code, second.json["error"]["code"]) == (3, "approval_void")
    assert shop("approvals", "list", "--status", "used", "--json").json["items"][0]["note"] == "only this once"


@pytest.mark.spec("G17")
def test_rejecting_changing_and_approving_for_the_session(shop: Run) -> None:
    call = asked(shop)
    rejected = shop("approvals", "reject", call["approval"], *BOSS, "--note", "not today")
    assert (rejected.code, "status        rejected" in rejected.out, "refusal" in rejected.out) == (0, True, False)
    refused = again(shop, call)
    assert refused.code == 3
    assert "rejected by user:boss: not today" in refused.said
    other = asked(shop)
    changed = shop("approvals", "approve", other["approval"], *BOSS, "--args", '{"to": "bob", "amount": 4}', "--json")
    assert changed.json["modified"] == {"to": "bob", "amount": 4}
    assert again(shop, other).out == "bob has 4\n"
    standing = asked(shop)
    assert shop("approvals", "approve", standing["approval"], "--session", *BOSS, "--json").json["scope"] == "session"
    for _ in range(2):
        assert shop(*PAY, "--session", standing["session"], "--defer").out == "bob has 5\n"


def test_people_read_what_is_asked_and_what_to_do(shop: Run) -> None:
    done = shop(*PAY, "--defer", "--db", "my till.db")
    assert done.code == 3
    assert "this needs an approval first: every call of 'pay' has to be approved" in done.said
    listing = shop("approvals", "list", "--db", "my till.db")
    (row,) = [line for line in listing.out.splitlines() if "pending" in line]
    id = row.split()[0]  # noqa: A001
    assert f"capset approvals approve {id} --principal WHO --db 'my till.db'; then repeat the call with" in done.said
    assert "--approval" not in done.said, "the same call in the same session uses it"
    assert '{"amount": 5, "to": "bob"}' in row
    details = shop("approvals", "show", id, "--db", "my till.db").out
    assert "principal     user:local\n" in details
    assert 'arguments     {"amount": 5, "to": "bob"}\n' in details


@pytest.mark.realtime
@pytest.mark.spec("G18")
@pytest.mark.parametrize("as_json", [False, True])
def test_a_call_waits_and_says_how_it_is_approved(shop: Run, packages: Path, tmp_path: Path, as_json: bool) -> None:
    path = os.pathsep.join([str(packages), SOURCE])
    command = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=path))
    with command.start(*PAY, *(["--json"] if as_json else [])) as process:
        assert process.stderr is not None
        hint = ""
        while "capset approvals approve" not in hint:
            line = process.stderr.readline()
            assert line, hint
            hint = line.strip()
        words = shlex.split(hint)
        assert words[:3] == ["capset", "approvals", "approve"]
        done = shop(*(word if word != "WHO" else "boss" for word in words[1:]))
        assert done.code == 0, done.err
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ('"data": "bob has 5"' if as_json else "bob has 5\n") in out


@pytest.mark.realtime
@pytest.mark.spec("G18")
def test_a_call_that_is_interrupted_while_it_waits_says_how_it_goes_on(
    shop: Run, packages: Path, tmp_path: Path
) -> None:
    command = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=os.pathsep.join([str(packages), SOURCE])))
    with command.start(*PAY) as process:
        assert process.stderr is not None
        while "capset approvals approve" not in (hint := process.stderr.readline()):
            assert hint
        asked_for = shlex.split(hint.strip())[3]
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    session = shop("approvals", "show", asked_for, "--json").json["session"]
    assert " ".join(stderr.split()) == (
        f"the request {asked_for} stays open unless decided; once approved, it is used when the same call with "
        f"--session {session} is made"
    )
    assert shop("approvals", "approve", asked_for, *BOSS).code == 0
    assert shop(*PAY, "--session", session).out == "bob has 5\n"


def test_what_makes_no_sense_is_bad_input(shop: Run) -> None:
    assert shop("approvals", "list").code == 2
    assert list(Path().glob("*.db")) == [], "looking makes no database"
    call = asked(shop)
    wrongs: list[tuple[str, ...]] = [
        ("list", "--status", "open"),
        ("list", "--limit", "0"),
        ("show", "nowhere"),
        ("approve", "nowhere", *BOSS),
        ("approve", call["approval"], *BOSS, "--session", "--args", "{}"),
        ("approve", call["approval"], *BOSS, "--args", "[]"),
        ("approve", call["approval"], *BOSS, "--org", "acme"),
    ]
    for wrong in wrongs:
        assert shop("approvals", *wrong).code == 2, wrong
    assert "--session" in shop(*PAY, "--approval", call["approval"]).said
    assert shop("approvals", "show", call["approval"], "--json").json["status"] == "pending"
    assert shop("approvals", "reject", call["approval"]).code == 0, "one's own can be withdrawn"
    late = shop("approvals", "approve", call["approval"], *BOSS, "--json")
    assert (late.code, late.json["error"]["code"]) == (2, "conflict")


@pytest.mark.realtime
@pytest.mark.spec("G17", "P12", "P16")
def test_the_requests_of_a_server(
    shop: Run, packages: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.pathsep.join([str(packages), SOURCE])
    with running(tmp_path_factory.mktemp("server"), PYTHONPATH=path) as server:
        ada, boss = server.key("ada", org="acme"), server.key("boss", org="acme", scopes=["capset:approve"])

        async def session() -> str:
            async with Client(server.url, key=ada) as client:
                return (await client.sessions.create("clerk")).id

        def at(key: str, *words: str) -> Done:
            monkeypatch.setenv("CAPSET_KEY", key)
            return shop(*words, "--url", server.url)

        session_id = asyncio.run(session())
        call = at(ada, "call", "pay", "--args", '{"to": "bob"}', "--session", session_id, "--defer", "--json").json
        (pending,) = at(boss, "approvals", "list", "--json").json["items"]
        assert (pending["id"], pending["principal"]) == (call["approval"], "user:ada")
        assert at(ada, "approvals", "approve", call["approval"]).code == 3
        assert at(boss, "approvals", "approve", call["approval"], "--principal", "eve").code == 2
        assert at(boss, "approvals", "approve", call["approval"], "--note", "fine", "--json").json["note"] == "fine"
        words = ("call", "pay", "--args", '{"to": "bob"}', "--session", session_id, "--approval", call["approval"])
        assert at(ada, *words).out == "bob has 5\n"
        assert at(ada, *words).code == 3
        other = at(ada, "call", "pay", "--args", '{"to": "eve"}', "--session", session_id, "--defer", "--json").json
        assert at(boss, "approvals", "reject", other["approval"], "--json").json["status"] == "rejected"
        assert at(boss, "approvals", "show", other["approval"], "--json").json["tool"] == "pay"
        requests = server.capset("approvals", "list", "--org", "acme", "--json").json["items"]
        assert {request["id"]: request["status"] for request in requests} == {
            call["approval"]: "used",
            other["approval"]: "rejected",
        }
        assert server.capset("approvals", "list", "--json").json["items"] == [], "of no organisation there are none"
    assert list(Path().glob("*.db")) == [], "nothing is made where the server is not"


@pytest.mark.spec("G51", "T49")
def test_what_is_masked_is_shown_on_request_and_that_is_on_record(shop: Run) -> None:
    call = shop("call", "till.pay", "--args", '{"to": "https://ok/?token=abc"}', "--defer", "--json").json
    masked = shop("approvals", "show", call["approval"], "--json").json
    assert (masked["masked"], masked["arguments"]["to"]) == (True, "https://ok/?token=[redacted]")
    assert "--unmasked shows it" in shop("approvals", "show", call["approval"]).said
    unmasked = shop("approvals", "show", call["approval"], "--unmasked", *BOSS, "--json").json
    assert (unmasked["masked"], unmasked["arguments"]["to"]) == (False, "https://ok/?token=abc")
    (act,) = shop("audit", "query", "--act", "approval.show", "--json").json["items"]
    assert (act["principal"], act["approval"]) == ("boss", call["approval"])

"""``capset serve`` as a process: how it begins, what it logs, and how it ends (spec 5, P14, P16)."""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest

from capset_cli.serve.process import tune_process
from tests.helpers.cli.serving import beside, key_for, serving, session_of
from tests.helpers.cli.support import Command, Run, intents_in
from tests.waiting import wait_until

ALL = ("--scope", "capset:admin", "--grant", "session_files:write", "--grant", "session_files:read")


def records(command: Command) -> list[dict[str, Any]]:
    return beside(command, "audit", "query", "--json").json["items"]


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("P9", "P14")
def test_it_serves_whoever_has_a_key_and_logs_one_line_a_request(workshop: Command) -> None:
    key = key_for(workshop, *ALL)
    with serving(workshop) as server:
        with server.client() as stranger:
            assert stranger.get("/v1/agents").status_code == 401
            assert stranger.get("/v1/healthz").status_code == 200
        with server.client(key) as client:
            session = session_of(client, "foreman")
            body = {"tool": "echo", "arguments": {"text": "s3cret-argument"}}
            answer = client.post(f"/v1/sessions/{session}/calls", json=body, headers={"X-Correlation-Id": "mine-1"})
            client.post(f"/v1/sessions/{session}/calls", json={"tool": "crash"})
            client.get("/v1/agents?name=s3cret-query")
        log = server.end()
    assert server.process.returncode == 0
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [(line["method"], line["path"], line["status"]) for line in requests] == [
        ("GET", "/v1/agents", 401),
        ("GET", "/v1/healthz", 200),
        ("POST", "/v1/sessions", 201),
        ("POST", f"/v1/sessions/{session}/calls", 200),
        ("POST", f"/v1/sessions/{session}/calls", 200),
        ("GET", "/v1/agents", 200),
    ]
    call = requests[3]
    assert (call["correlation"], call["principal"], call["org"]) == ("mine-1", "ada", "acme")
    assert (call["tool"], call["record"]) == ("echo", answer.json()["record"])
    for secret in (key, key.removeprefix("capset_"), "s3cret"):
        assert secret not in log
    assert "hunter2" not in json.dumps(requests)
    assert {record["correlation"] for record in records(workshop)} == {line["correlation"] for line in requests[3:5]}


_PROBLEM = {"type", "title", "status", "detail", "code", "retryable", "correlation", "fields"}


@pytest.mark.realtime
@pytest.mark.spec("P9")
def test_the_object_is_that_of_the_command_line(workshop: Command, run: Run) -> None:
    key = key_for(workshop, *ALL)
    tried = (
        ("add", {"a": 2, "b": 3}),
        ("divide", {"a": 1, "b": 0}),
        ("subtract", {"a": "two", "b": 3}),
        ("multiply", {"a": 2, "bee": 3}),
    )
    with serving(workshop) as server, server.client(key) as client:
        agent = client.post("/v1/agents", json={"name": "counter", "capabilities": ["test_math"]}).json()["id"]
        session = session_of(client, agent)
        for tool, arguments in tried:
            body = {"tool": tool, "arguments": arguments}
            by_rest = client.post(f"/v1/sessions/{session}/calls", json=body).json()
            by_hand = run("call", f"test_math.{tool}", "--args", json.dumps(arguments), "--json").json
            besides = by_rest.keys() - by_hand.keys()
            assert besides in (set(), _PROBLEM), "a refusal has the members of problem details, too"
            assert by_hand.keys() <= by_rest.keys(), tool
            assert by_rest.get("data") == by_hand.get("data")
            for answer in (by_rest, by_hand):
                answer.get("error", {}).pop("correlation", None)
            assert by_rest.get("error") == by_hand.get("error")
        server.end()


@pytest.mark.spec("P14")
def test_a_taken_port_is_told_and_makes_no_database(capset: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = capset("serve", "--port", str(taken.getsockname()[1]))
    assert (done.code, done.out) == (1, "")
    assert "cannot listen on 127.0.0.1:" in done.said
    assert "--port" in done.said
    assert not list(capset.folder.glob("capset.db*"))


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--insecure", "--host", "0.0.0.0"), "--insecure is for loopback only"),
        (("--insecure", "--host", "::"), "--insecure is for loopback only"),
        (("--insecure", "--host", "example.com"), "--insecure is for loopback only"),
        (("--principal", "ada"), "--principal, --grant and --attribute are for --insecure"),
        (("--grant", "a:b"), "--principal, --grant and --attribute are for --insecure"),
        (("--port", "70000"), "65535"),
        (("--root-path", "capset"), "a root path is a slash"),
    ],
)
def test_what_cannot_be_served_is_refused(run: Run, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    done = run("serve", *options)
    assert done.code == 2
    assert words in done.said
    assert not list(tmp_path.glob("capset.db*"))


def test_an_address_that_is_not_here_is_told(run: Run) -> None:
    for host in ("192.0.2.1", "no such host"):
        done = run("serve", "--host", host, "--port", "0")
        assert (done.code, "cannot listen on" in done.said) == (1, True)


@pytest.mark.realtime
@pytest.mark.spec("P14")
def test_without_keys_everybody_is_the_principal(workshop: Command) -> None:
    with serving(workshop, "--insecure", "--principal", "dev", "--grant", "session_files:read") as server:
        assert "without keys: everybody is dev, with session_files:read" in server.greeting
        with server.client() as client:
            session = session_of(client, "foreman")
            assert client.get(f"/v1/sessions/{session}").json()["principal"] == "dev"
            assert client.get(f"/v1/sessions/{session}/files/").status_code == 200
            assert client.get("/v1/agents", headers={"Host": "evil.example"}).status_code == 421
            assert client.get("/v1/agents", headers={"Origin": "https://evil.example"}).status_code == 403
        server.end()


@pytest.mark.realtime
@pytest.mark.spec("P16")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_call_that_runs_when_it_is_told_to_end_may_finish(workshop: Command, number: int) -> None:
    key = key_for(workshop, *ALL)
    answers: list[httpx2.Response] = []
    with serving(workshop) as server, server.client(key) as client:
        session = session_of(client, "foreman")
        body = {"tool": "wait", "arguments": {"seconds": 1}}
        calling = Thread(target=lambda: answers.append(client.post(f"/v1/sessions/{session}/calls", json=body)))
        calling.start()
        wait_until(lambda: (session, "wait") in intents_in(workshop.folder), "the call to begin")
        log = server.end(number)
        calling.join()
    assert server.process.returncode == 0
    assert answers[0].json()["data"] == "waited"
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["status"] for line in lines if line["event"] == "request"] == [201, 200]
    events = [line["event"] for line in lines if line.get("logger") == "capset.server"]
    stops = f"the server stops now ({signal.Signals(number).name}): requests under way have 10 s"
    assert events[-2:] == [stops, "the server has stopped"]
    assert lines[-1]["event"] == events[-1]
    assert [(record["tool"], record["outcome"]) for record in records(workshop)] == [("wait", "succeeded")]


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("P16")
def test_after_a_kill_it_goes_on_with_what_was_kept(workshop: Command) -> None:
    key = key_for(workshop, *ALL)
    with serving(workshop) as server, server.client(key) as client:
        session = session_of(client, "foreman")
        client.put(f"/v1/sessions/{session}/files/kept.txt", content=b"kept")
        client.post(f"/v1/sessions/{session}/calls", json={"tool": "echo", "arguments": {"text": "x"}})
        body = {"tool": "wait", "arguments": {"seconds": 30}}

        def call() -> None:
            with pytest.raises(httpx2.TransportError):
                client.post(f"/v1/sessions/{session}/calls", json=body)

        calling = Thread(target=call)
        calling.start()
        wait_until(lambda: (session, "wait") in intents_in(workshop.folder), "the call to begin")
        server.process.kill()
        calling.join()
    with serving(workshop) as server, server.client(key) as client:
        assert client.get(f"/v1/sessions/{session}/files/kept.txt").content == b"kept"
        audited = {(record["tool"], record["outcome"]) for record in client.get("/v1/audit").json()["items"]}
        assert ("wait", "interrupted") in audited, "what it was doing is known to have been cut off"
        answer = client.post(f"/v1/sessions/{session}/calls", json={"tool": "echo", "arguments": {"text": "on"}})
        assert answer.json()["data"] == "on"
        server.end()
    beside(workshop, "audit", "verify")


@pytest.mark.realtime
@pytest.mark.spec("P14")
def test_a_key_that_is_made_or_revoked_elsewhere_is_so_here(workshop: Command) -> None:
    with serving(workshop) as server:
        assert "no keys yet: capset key create NAME --principal WHO makes one" in server.greeting
        key = key_for(workshop)
        with server.client(key) as client:
            assert client.get("/v1/agents").status_code == 200
            beside(workshop, "key", "revoke", beside(workshop, "key", "list", "--json").json["items"][0]["id"])
            wait_until(lambda: client.get("/v1/agents").status_code == 401, "the key to be refused")
        server.end()


def test_threads_take_turns_sooner_than_by_default(request: pytest.FixtureRequest) -> None:
    before = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(before))
    sys.setswitchinterval(0.005)
    tune_process()
    assert sys.getswitchinterval() < 0.001

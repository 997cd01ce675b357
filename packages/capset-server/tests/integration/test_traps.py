"""What a reviewer once found, so that it stays mended."""

from __future__ import annotations

import asyncio
import json
import logging

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from capset import Agent, Capability, tool
from capset.errors import StoreError
from capset.kernel.governance.audit import CallEntry
from capset_server.app import open_app
from capset_server.http.request_context import RequestContext
from capset_server.http.request_rules import AllowedHosts, RequestLimits
from capset_server.rest.calls import prefers_events
from tests.helpers.server.support import Site, Sleeper, call, make_session, problem, site
from tests.helpers.server.wire import line, request
from tests.waiting import until


@pytest.mark.spec("P14")
async def test_an_upgrade_with_a_body_smuggles_no_request(shared: Site) -> None:
    inner = request(shared, "GET", "/v1/agents")
    sent = request(shared, "PUT", "/v1/sessions/x/files/a", inner, connection="Upgrade, HTTP2-Settings", upgrade="h2c")
    async with line(shared) as connection:
        await connection.send(sent)
        assert (await connection.answer()).status == 400
        assert await connection.closed(), "what follows is no request"


@pytest.mark.spec("P9", "G23")
async def test_a_call_that_ran_without_a_record_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = 0

    @tool(effect="write")
    async def count() -> int:
        """Count."""
        nonlocal ran
        ran += 1
        return ran

    async with site(Capability("counter", tools=[count])) as server, server.client() as client:
        session = await make_session(client, "counter")
        audit = server.kernel.audit
        commit = audit.commit

        async def fails(entry: object) -> None:
            if isinstance(entry, CallEntry) and entry.phase == "outcome":
                raise StoreError("the disk is full")
            await commit(entry)  # pyright: ignore[reportArgumentType]  # whatever the kernel gives

        monkeypatch.setattr(audit, "commit", fails)
        body, headers = {"tool": "count", "arguments": {}}, {"Idempotency-Key": "k"}
        path = f"/v1/sessions/{session}/calls"
        assert (await client.post(path, json=body, headers=headers)).status_code == 503
        monkeypatch.undo()
        problem(await client.post(path, json=body, headers=headers), 409, "conflict")
        assert ran == 1


@pytest.mark.spec("P4", "P16")
async def test_an_agent_in_code_keeps_capabilities_that_are_not_installed() -> None:
    @tool(effect="read")
    async def hidden() -> str:
        """Be found."""
        return "found"

    keeper = Agent("keeper", uses=[Capability("private", tools=[hidden])])
    async with site(agents=[keeper]) as server, server.client() as client:
        session = (await client.post("/v1/sessions", json={"agent_id": "keeper"})).json()
        assert (await call(client, session["id"], "hidden")).json()["data"] == "found"
        assert (await server.record(tool="hidden")).static_hash == session["static_hash"]


@pytest.mark.spec("P25")
async def test_a_call_that_outlives_its_session_leaves_no_files() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server, server.client() as client:
        session = await make_session(client, "bed", "session_file_system")
        late = asyncio.create_task(call(client, session, "sleep"))
        await sleeper.started.wait()
        assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
        sleeper.woken.set()
        assert (await late).status_code == 200
        await until(sleeper.cleaned.is_set)
        problem(await client.put(f"/v1/sessions/{session}/files/a", content=b"x"), 404, "not_found")
        assert await server.kernel.store.files.list(session, "/", recursive=True) == []


@pytest.mark.spec("G24")
async def test_what_nobody_expected_is_a_problem_like_any_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("SELECT secret")

    async with site() as server, server.client() as client:
        monkeypatch.setattr(server.kernel.store.sessions, "list", fails)
        with caplog.at_level(logging.ERROR, "capset.server"):
            body = problem(await client.get("/v1/sessions"), 500, "internal_error")
        assert body["correlation"] in caplog.text


async def test_it_works_below_a_path_of_its_host() -> None:
    async with site() as server, open_app(server.service, AllowedHosts.of("127.0.0.1", ["test"])) as app:
        host = Starlette(routes=[Mount("/capset", app)])
        headers = {"Authorization": f"Bearer {server.keys['ada']}"}
        transport = httpx2.ASGITransport(host)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test/capset", headers=headers) as client:
            assert (await client.get("/v1/healthz", headers={"Authorization": ""})).status_code == 200
            response = await client.post("/v1/sessions", json={"agent_id": "foreman"})
            assert response.headers["location"] == f"/capset/v1/sessions/{response.json()['id']}"
            assert (await call(client, response.json()["id"], "echo")).json()["data"] == "hello"


async def test_blank_lines_keep_no_connection_open() -> None:
    async with site(limits=RequestLimits(head_seconds=0.3)) as server, line(server) as connection:
        await connection.send(request(server, "GET", "/v1/healthz", key=None))
        assert (await connection.answer()).status == 200
        await connection.send(b"\r\n")
        assert await connection.closed()


async def test_a_client_that_leaves_with_another_request_waiting_cancels_its_call() -> None:
    sleeper = Sleeper()
    async with site(sleeper.capability()) as server, server.client() as client:
        session = await make_session(client, "bed")
        body = json.dumps({"tool": "sleep"}).encode()
        async with line(server) as connection:
            await connection.send(
                request(server, "POST", f"/v1/sessions/{session}/calls", body, content_type="application/json")
            )
            await sleeper.started.wait()
            await connection.send(request(server, "GET", "/v1/healthz"))
            connections = server.server.server_state.connections
            await until(lambda: any(getattr(each, "pipeline", ()) for each in connections), "a request that waits")
        await asyncio.wait_for(sleeper.cleaned.wait(), 60)


@pytest.mark.spec("P15")
async def test_a_caller_without_a_key_sends_no_body(shared: Site) -> None:
    async with shared.client(None) as client:
        problem(await client.post("/v1/healthz", content=b"x"), 413, "body_too_large")
    async with shared.client() as client:
        too_much = b"x" * (shared.service.limits.body + 1)
        problem(await client.post("/v1/agents/files/x", content=too_much), 413, "body_too_large")


@pytest.mark.spec("P9")
async def test_what_was_answered_to_one_key_is_no_way_round_the_permissions_of_another() -> None:
    async with site() as server:
        await server.key("strong", principal="bo", permissions=["vault:open"])
        await server.key("weak", principal="bo", permissions=[])
        async with server.client("strong") as strong, server.client("weak") as weak:
            session = (await strong.post("/v1/sessions", json={"agent_id": "foreman"})).json()["id"]
            body, headers = {"tool": "unlock", "arguments": {}}, {"Idempotency-Key": "k"}
            path = f"/v1/sessions/{session}/calls"
            assert (await strong.post(path, json=body, headers=headers)).json()["data"] == "open"
            problem(await weak.post(path, json=body, headers=headers), 422, "invalid_arguments")


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        ("text/event-stream", True),
        ("text/event-stream, */*", True),
        ("text/event-stream, application/json;q=0.9", True),
        ("", False),
        ("*/*", False),
        ("application/json, text/event-stream", False),
        ("application/json, text/event-stream;q=0.1", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=x", False),
        ("text/event-streams", False),
    ],
)
def test_events_are_for_those_who_prefer_them(accept: str, events: bool) -> None:
    assert prefers_events(accept) is events


async def test_the_head_of_an_answer_can_be_asked_for(shared: Site) -> None:
    async with shared.client() as client:
        response, head = await client.get("/v1/agents/foreman"), await client.head("/v1/agents/foreman")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == response.headers["content-length"]
        assert head.headers["etag"] == response.headers["etag"]


@pytest.mark.parametrize("path", ["/v1/agents/foreman?x=1", "/v1/healthz?x=1"])
async def test_a_query_that_a_path_has_not_is_refused(shared: Site, path: str) -> None:
    async with shared.client() as client:
        problem(await client.get(path), 422, "invalid_arguments")


async def test_a_version_that_nothing_has_makes_no_file(shared: Site) -> None:
    async with shared.client() as client:
        path = f"/v1/sessions/{await make_session(client)}/files/a"
        problem(await client.put(path, content=b"x", headers={"If-Match": '"0"'}), 412, "outdated")
        assert (await client.get(path)).status_code == 404


async def test_a_call_takes_no_query(shared: Site) -> None:
    async with shared.client() as client:
        session = await make_session(client)
        body = {"tool": "echo", "arguments": {}}
        problem(await client.post(f"/v1/sessions/{session}/calls?timeout=1", json=body), 422, "invalid_arguments")


async def test_looking_at_mcp_makes_no_session(shared: Site) -> None:
    async with shared.client() as client:
        before = (await client.get("/v1/sessions")).json()
        for method in ("GET", "DELETE"):
            answer = await client.request(method, "/mcp/agents/foreman")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            assert (await client.request(method, "/mcp/agents/nobody")).status_code == 404
        assert (await client.get("/v1/sessions")).json() == before


def test_a_visit_shows_no_key() -> None:
    assert "secret" not in repr(RequestContext("c", {b"authorization": b"Bearer secret"}))

"""Two servers on one PostgreSQL database are one: what the one keeps, the other serves (spec 5, P9, P30)."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from capset.stores.sql.postgres.engines import READ_SECONDS
from tests.databases import Server, connected, require_scheme
from tests.helpers.server.support import call, make_agent, make_session, problem, site
from tests.waiting import until


@pytest.fixture(autouse=True)
def scheme() -> None:
    require_scheme()


@pytest.fixture
def own_server(postgres: Server) -> Generator[Server]:
    """Give a server that may be stopped; without one for all there is none of one's own either."""
    del postgres
    server = Server(Path(tempfile.mkdtemp(prefix="capset-pg-")))
    yield server
    server.remove()


@pytest.mark.gate
@pytest.mark.spec("P30")
async def test_what_one_server_keeps_the_other_serves(postgres_url: str) -> None:
    async with site(store=postgres_url) as first_server, site(store=postgres_url) as two:
        async with first_server.client() as first, two.client() as second:
            session = await make_session(first)
            assert (await call(second, session, "note", text="kept")).json()["data"] == {"kept": "kept"}
            response = await first.get(f"/v1/sessions/{session}/files/note.txt")
            assert response.content == b"kept"
            agent = await make_agent(second, name="shared")
            tag = {"If-Match": (await first.get(f"/v1/agents/{agent['id']}")).headers["ETag"]}
            path = f"/v1/agents/{agent['id']}"
            changes = [client.patch(path, json={"description": "x"}, headers=tag) for client in (first, second)]
            assert sorted([answer.status_code for answer in await asyncio.gather(*changes)]) == [200, 412]
        assert (await first_server.kernel.audit.verify()).ok


@pytest.mark.spec("P9")
async def test_one_request_at_two_servers_is_one(postgres_url: str) -> None:
    async with site(store=postgres_url) as first_server, site(store=postgres_url) as two:
        async with first_server.client() as first, two.client() as second:
            session = await make_session(first)
            body = {"tool": "note", "arguments": {"text": "x"}}

            async def ask(client: httpx2.AsyncClient) -> int:
                answer = await client.post(
                    f"/v1/sessions/{session}/calls", json=body, headers={"Idempotency-Key": "k-1"}
                )
                return answer.status_code

            answers = await asyncio.gather(*[ask(client) for client in (first, second) for _ in range(4)])
        assert set(answers) <= {200, 409}
        assert len(await first_server.records(tool="note")) == 1


@pytest.mark.realtime
@pytest.mark.spec("P13", "P91")
async def test_a_server_says_within_seconds_that_its_database_does_not_answer(postgres_url: str) -> None:
    """However many ask, one read hangs: it would keep a thread that others need."""
    async with site(store=postgres_url) as server, server.client(None) as client:
        with connected(postgres_url) as owner, owner.transaction():
            owner.execute("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            answers = await asyncio.gather(*(client.get("/v1/readyz") for _ in range(20)))
            assert time.monotonic() - began < READ_SECONDS / 2
            for answer in answers:
                problem(answer, 503, "store_unavailable")
            waiting = "SELECT query LIKE '%api_keys%' FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            assert owner.execute(waiting).fetchall() == [(True,)]
            assert (await client.get("/v1/healthz")).status_code == 200

        async def is_ready() -> bool:
            return (await client.get("/v1/readyz")).status_code == 200

        await until(is_ready)


@pytest.mark.realtime
@pytest.mark.spec("G23", "G24")
async def test_while_the_database_is_away_requests_are_503_and_say_no_more(own_server: Server) -> None:
    async with site(store=own_server.empty()) as server, server.client() as client:
        session = await make_session(client)
        own_server.stop()
        for answer in (
            await call(client, session, "note", text="x"),
            await client.get("/v1/agents"),
            await client.get("/v1/readyz"),
        ):
            assert answer.status_code == 503, answer.text
            assert "empty0" not in answer.text
            assert "capset-pg" not in answer.text
        problem(await client.get("/v1/agents"), 503, "store_unavailable")
        own_server.start()
        assert (await call(client, session, "note", text="again")).json()["data"] == {"kept": "again"}
        assert [record.outcome for record in await server.records(tool="note")][-1:] == ["succeeded"]

"""Single records with their proof, and the chain verified in parts, over REST (spec 5, P52, P53)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset.ext import CheckpointKey, Checkpoints
from capset.fingerprint.checkpoints import Checkpoint
from capset.kernel.governance.acts import HOST
from capset_testing.store_suite.support import NOW, entry
from tests.helpers.kernel.fixtures import store
from tests.helpers.server.support import Site, call, make_session, problem, site
from tests.helpers.stores.sql.support import raw, run_at

__all__ = ["store"]


async def called(client: httpx2.AsyncClient, times: int = 3) -> list[str]:
    """Call a tool some times, and return the ids of the records."""
    session = await make_session(client, "kit")
    return [(await call(client, session, "echo", text=f"no {number}")).json()["record"] for number in range(times)]


async def walked(client: httpx2.AsyncClient, limit: int) -> list[dict[str, Any]]:
    """Verify the whole chain in parts."""
    parts: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": limit}
    while not parts or parts[-1]["next"]:
        answer = await client.get("/v1/audit/verify", params=query)
        assert answer.status_code == 200, answer.text
        parts.append(answer.json())
        query["cursor"] = parts[-1]["next"]
    return parts


async def problem_of(client: httpx2.AsyncClient) -> str:
    """Return what is wrong with the chain."""
    return (await walked(client, 100))[0]["problem"]


@asynccontextmanager
async def signed(store: str) -> AsyncGenerator[tuple[Site, CheckpointKey]]:
    """Serve a kernel that signs its records by a key, but not by itself."""
    async with site(store=store) as server:
        key = CheckpointKey.generate()
        await server.kernel.sign(Checkpoints(key, every="1h", records=100_000), by=HOST)
        yield server, key


async def checkpointed(server: Site, key: CheckpointKey) -> Checkpoint:
    checkpoint = await server.kernel.audit.checkpoint(key, now=server.kernel.now())
    assert checkpoint is not None
    return checkpoint


@pytest.mark.spec("P52")
async def test_a_record_comes_with_its_place_in_the_chain(store: str) -> None:
    async with signed(store) as (server, key), server.client() as client:
        first, second, third = await called(client)
        checkpoint = await checkpointed(server, key)
        proof = (await client.get(f"/v1/audit/{second}")).json()
        record, chain = proof["record"], proof["chain"]
        assert (record["id"], record["arguments"]) == (second, {"text": "no 1"})
        before = await server.record(id=first)
        assert chain["previous"] == before.hash
        assert (chain["checkpoint"]["key"], chain["checkpoint"]["vouched"]) == (key.public.id, True)
        assert chain["checkpoint"]["seq"] >= chain["seq"]
        (later,) = await called(client, 1)
        uncovered = (await client.get(f"/v1/audit/{later}")).json()["chain"]
        assert (uncovered["ok"], uncovered["checkpoint"]) == (True, None)
        assert (await client.get(f"/v1/audit/{third}")).json()["chain"]["checkpoint"]["number"] == checkpoint.number


@pytest.mark.spec("P52")
async def test_a_record_of_another_organisation_is_not_there() -> None:
    async with site() as server, server.client() as client:
        await server.key("eve", org="evil")
        await server.key("carl", scopes=["capset:read", "capset:call"])
        (record,) = await called(client, 1)
        async with server.client("eve") as eve, server.client("carl") as carl:
            problem(await eve.get(f"/v1/audit/{record}"), 404, "not_found")
            problem(await eve.get("/v1/audit/nothing"), 404, "not_found")
            for path in (record, "verify", "summary", "export"):
                problem(await carl.get(f"/v1/audit/{path}"), 403, "permission_denied")
        await client.get(f"/v1/audit/{record}")
        (read,) = (await client.get("/v1/audit", params={"act": "log.read"})).json()["items"]
        assert read["arguments"] == {"by": "record", "id": record}


@pytest.mark.spec("P53")
async def test_the_chain_is_verified_in_parts(store: str) -> None:
    async with signed(store) as (server, key), server.client() as client:
        for number in range(1_200):
            server.kernel.audit.append(entry(f"e{number}", org="globex", act=None, time=NOW))
        await server.kernel.audit.flush()
        checkpoint = await checkpointed(server, key)
        await called(client)
        parts = await walked(client, 600)
        span = await server.kernel.audit.span()
        assert span is not None
        assert all(part["ok"] for part in parts)
        assert [part["checked"] for part in parts[:2]] == [600, 600]
        assert sum(part["checked"] for part in parts) == span[1] == parts[-1]["last"]
        assert [part["covered"] for part in parts if part["covered"]] == [checkpoint.seq]
        assert {part["key"] for part in parts} == {key.public.id}
        (full_part,) = await walked(client, 10_000)
        assert full_part["checked"] == span[1]
        last = full_part["last"]
        cursor = {"cursor": f"{last}.{'0' * 64}"}
        assert (await client.get("/v1/audit/verify", params=cursor)).json()["checked"] == 0
        await called(client, 1)
        other = (await client.get("/v1/audit/verify", params=cursor)).json()
        assert (other["ok"], other["seq"]) == (False, last + 1), "it does not follow another hash"
        for wrong in ("x", "1", f"1.{'g' * 64}", f"-1.{'0' * 64}"):
            problem(await client.get("/v1/audit/verify", params={"cursor": wrong}), 422, "invalid_arguments")


@pytest.mark.spec("P52", "P53")
async def test_a_changed_record_is_found_and_others_content_is_not_told(tmp_path: Path) -> None:
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server, server.client() as client:
        await server.key("eve", org="evil")
        await server.key("operator", org=None)
        first, second = await called(client, 2)
        seq = (await server.record(id=first)).seq

        def change(tool: object) -> None:
            with raw(tmp_path / "a.db") as file:
                file.execute("UPDATE records SET tool = ? WHERE id = ?", (tool, first))

        async with server.client("eve") as eve, server.client("operator") as operator:
            change(2.5)
            assert await problem_of(eve) == f"record {seq} was changed: its columns do not match its hash"
            change(b"its secret")
            others, all_of_it = await problem_of(eve), await problem_of(operator)
            assert others == f"record {seq} holds what no record can hold"
            assert all_of_it.startswith(f"{others}: ")
            change("forged")
            parts = [(await walked(viewer, 100))[0] for viewer in (client, eve, operator)]
        assert [(part["ok"], part["seq"]) for part in parts] == [(False, seq)] * 3
        (message,) = {part["problem"] for part in parts}
        assert "was changed" in message
        for record in (first, second):
            chain = (await client.get(f"/v1/audit/{record}")).json()["chain"]
            assert (chain["ok"], chain["at"]) == (False, seq), "nor does one hold whose predecessor does not"


@pytest.mark.spec("P53")
async def test_a_cut_end_and_a_forged_signature_are_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with signed(url) as (server, key), server.client() as client:
        await called(client)
        checkpoint = await checkpointed(server, key)
        run_at(url, "UPDATE checkpoints SET time = '2030' || substr(time, 5)")
        assert "signature" in await problem_of(client)
        with raw(tmp_path / "a.db") as file:
            file.execute("UPDATE checkpoints SET time = ?", (checkpoint.time,))
            file.execute("CREATE TABLE kept AS SELECT * FROM records WHERE seq = ?", (checkpoint.seq,))
            file.execute("DELETE FROM records WHERE seq = ?", (checkpoint.seq,))
        assert "missing at the end" in await problem_of(client)
        run_at(url, "INSERT INTO records SELECT * FROM kept")
        assert (await walked(client, 100))[0]["covered"] == checkpoint.seq


@pytest.mark.spec("P53")
async def test_others_are_answered_while_the_chain_is_verified(tmp_path: Path) -> None:
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server, server.client() as client:
        for number in range(4_000):
            server.kernel.audit.append(entry(f"e{number}", org="globex", act=None, time=NOW))
        await server.kernel.audit.flush()
        verifying = asyncio.ensure_future(client.get("/v1/audit/verify", params={"limit": 10_000}))
        answered = 0
        async with server.client() as other:
            while not verifying.done():
                assert (await other.get("/v1/healthz")).status_code == 200
                answered += 1
        assert (await verifying).json()["checked"] >= 4_000
        assert answered > 3

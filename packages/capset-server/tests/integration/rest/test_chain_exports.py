"""The chain over REST: whole, signed, for operators alone, and verified elsewhere (spec 5, P97, P98)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from capset.definitions.calls.records import COLUMNS
from capset.ext import CheckpointKey, Checkpoints
from capset.fingerprint.chain import verify
from capset.fingerprint.checkpoints import PublicKey, checkpoint_of
from capset.kernel.governance.acts import Actor
from capset.wire import chain_files
from capset_testing.store_suite.support import entry
from tests.helpers.server.support import Site, problem, site
from tests.helpers.stores.sql.support import run_at

KEY = CheckpointKey.generate()


@pytest.fixture
async def signing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Site]:
    """Give a server that signs, reads two lines at a time, and has records of several organisations."""
    monkeypatch.setattr(chain_files, "PAGE", 2)
    async with site(store=f"sqlite:///{tmp_path}/a.db") as server:
        await server.kernel.sign(Checkpoints(KEY), by=Actor("ada", "user", None, "library"))
        await server.key("operator", org=None, scopes=["capset:admin"])
        for number in range(5):
            await server.kernel.audit.commit(entry(f"e{number}", org=("acme", "evil", None)[number % 3], act=None))
        yield server


@pytest.mark.spec("P97")
async def test_an_operator_exports_the_whole_chain_which_ends_with_a_checkpoint_over_it(signing: Site) -> None:
    async with signing.client("operator") as operator:
        exports = [await operator.get("/v1/audit/chain") for _ in range(3)]
        part = await operator.get("/v1/audit/chain", params={"first": "5", "since": "2020-01-01T00:00:00Z"})
        problem(await operator.get("/v1/audit/chain", params={"first": "999"}), 404, "not_found")
        problem(await operator.get("/v1/audit/chain", params={"since": "2999-01-01T00:00:00Z"}), 404, "not_found")
        for wrong in ({"first": "0"}, {"since": "noon"}, {"until": "2999-01-01T00:00:00Z"}):
            problem(await operator.get("/v1/audit/chain", params=wrong), 422, "invalid_arguments")
    assert exports[2].headers["content-type"] == "text/plain; charset=utf-8"
    assert exports[2].headers["content-disposition"] == 'attachment; filename="chain.ndjson"'
    lines = [json.loads(line) for line in exports[2].text.splitlines()]
    rows = [line for line in lines if tuple(line) == COLUMNS]
    checkpoints = [checkpoint_of(line) for line in lines[len(rows) :]]
    assert [row["seq"] for row in rows] == [*range(1, len(rows) + 1)]
    assert {row["org"] for row in rows if row["id"].startswith("e")} == {"acme", "evil", None}
    assert (rows[-1]["act"], json.loads(rows[-1]["arguments"])) == ("log.read", {"by": "chain"})
    assert (len(checkpoints), checkpoints[-1].seq) == (3, len(rows)), "one for each export"
    verification = verify(rows, lines[len(rows) :], keys=[KEY.public])
    assert (verification.ok, verification.covered) == (True, len(rows))
    assert json.loads(part.text.partition("\n")[0])["seq"] == 5
    assert checkpoint_of(json.loads(part.text.splitlines()[-1])).seq == len(rows) + 1


@pytest.mark.spec("P97")
async def test_the_chain_is_not_for_those_of_an_organisation_nor_of_a_server_that_does_not_sign(signing: Site) -> None:
    await signing.key("boss", scopes=["capset:admin"])
    await signing.key("reader", org=None, scopes=["capset:audit"])
    async with signing.client("operator") as operator:
        for name in ("boss", "reader"):
            async with signing.client(name) as client:
                problem(await client.get("/v1/audit/chain"), 403, "permission_denied")
        signing.kernel.signing.end("its key is elsewhere")
        refusal = problem(await operator.get("/v1/audit/chain"), 409, "conflict")
        assert "its key is elsewhere" in json.dumps(refusal)
        assert (await operator.get("/v1/audit", params={"act": "log.read"})).json()["items"] == []


@pytest.mark.spec("P97")
async def test_a_chain_with_a_gap_breaks_off(signing: Site, tmp_path: Path) -> None:
    run_at(f"sqlite:///{tmp_path}/a.db", "DELETE FROM records WHERE id = 'e3'")
    async with signing.client("operator") as operator:
        with pytest.raises(httpx2.RemoteProtocolError):
            await operator.get("/v1/audit/chain")


@pytest.mark.spec("P98")
async def test_the_key_of_the_log_is_for_all_who_may_read_it(signing: Site) -> None:
    await signing.key("caller", scopes=["capset:call"])
    async with signing.client("ada") as ada, signing.client("caller") as caller:
        named = (await ada.get("/v1/audit/key")).json()
        problem(await caller.get("/v1/audit/key"), 403, "permission_denied")
    assert named["id"] == PublicKey.load(named["public"]).id == KEY.public.id

"""Keys, principals, usage and proofs by the client, against a real server (spec 5, P48–P55)."""

from __future__ import annotations

import json

import pytest

from capset.errors import Conflict, NotFound, PermissionDenied
from capset_server.client import Client, KeyInput
from tests.helpers.client.fixtures import Served


@pytest.mark.realtime
@pytest.mark.spec("P48", "P49", "P50")
async def test_a_key_is_made_used_and_revoked(boss: Client, served: Served) -> None:
    key_input = KeyInput(name="ci", principal="ci", scopes=["capset:read"], expires="1d", attributes={"tier": "pro"})
    created = await boss.keys.create(key_input, idempotency_key="once-administration")
    with pytest.raises(Conflict, match=created.id):
        await boss.keys.create(key_input, idempotency_key="once-administration")
    with pytest.raises(PermissionDenied):
        await boss.keys.create(key_input.model_copy(update={"permissions": ["vault:open"]}))
    async with Client(served.url, key=created.key) as ci:
        me = await ci.whoami()
        assert (me.principal, me.key, me.attributes, me.server.store) == ("ci", created.id, {"tier": "pro"}, "sqlite")
        assert (await ci.keys.get(created.id)).name == "ci"
        with pytest.raises(PermissionDenied):
            await ci.keys.list()
        assert (await ci.keys.revoke(created.id)).revoked_at
    assert [key.id async for key in boss.keys.all(principal="ci")] == [created.id]
    assert [key.id for key in (await boss.keys.list(principal="ci", limit=1)).items] == [created.id]
    with pytest.raises(NotFound):
        await boss.keys.revoke("nothing")
    principals = {principal.id: principal async for principal in boss.principals.all()}
    assert (principals["ci"].keys, bool(principals["boss"].keys[0].name)) == ([], True)
    assert (await boss.principals.list(principal="ci")).items == [principals["ci"]]
    assert "" in [org.org async for org in boss.orgs.all()]
    assert (await boss.usage()).items == []
    assert (await boss.usage(principal="ada")).principal == "ada"


@pytest.mark.spec("P52", "P53", "P54", "P55", "P56")
async def test_records_are_proved_counted_and_exported(boss: Client, session: str) -> None:
    called = await boss.call(session, "list_directory")
    proof = await boss.records.get(called.record)
    assert (proof.record["id"], proof.chain.ok) == (called.record, True)
    part = await boss.records.verify(limit=3)
    checked = part.checked
    while part.ok and part.next:
        part = await boss.records.verify(limit=3, cursor=part.next)
        checked += part.checked
    assert (part.ok, checked) == (True, part.last), part.problem
    summary = await boss.records.summary(session=session)
    assert (summary.calls, [tool.tool for tool in summary.tools]) == (1, ["list_directory"])
    rows = [(row["id"], row["hash"]) async for row in boss.records.export(session=session)]
    assert rows == [(called.record, proof.chain.hash)]
    lines = [json.loads(line) async for line in boss.records.chain()]
    assert (lines[0]["seq"], lines[-1]["key"]) == (1, (await boss.records.key()).id), "records, then checkpoints"
    link = await boss.links.record(session)
    sightings = await boss.fingerprints.sightings(link.runtime_hash)
    assert (sightings.links, sightings.sessions, sightings.is_partial) == (1, [session], False)
    assert [agent.last_link for agent in sightings.agents] == [link.id]
    same = await boss.fingerprints.diff(link.runtime_hash, link.runtime_hash)
    assert (same.kind, same.changes) == ("runtime", [])
    installed = (await boss.fingerprints.installed()).capabilities[0].hash
    assert (await boss.fingerprints.sightings(installed)).agents == []
    with pytest.raises(NotFound):
        await boss.fingerprints.sightings("f" * 64)

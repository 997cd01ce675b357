"""Keys, principals, usage and proofs by the client, against a real server (spec 5, P48–P55)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from capset.errors import Conflict, NotFound, PermissionDenied, Unauthenticated
from capset_server.client import Client, KeyInput
from tests.helpers.client.fixtures import Served


@pytest.mark.realtime
@pytest.mark.spec("P48", "P49", "P50")
async def test_a_key_is_made_used_and_revoked(boss: Client, served: Served) -> None:
    given = KeyInput(name="ci", principal="ci", scopes=["capset:read"], expires="1d", attributes={"tier": "pro"})
    made = await boss.keys.create(given, idempotency_key="once-administration")
    with pytest.raises(Conflict, match=made.id):
        await boss.keys.create(given, idempotency_key="once-administration")
    with pytest.raises(PermissionDenied):
        await boss.keys.create(given.model_copy(update={"permissions": ["vault:open"]}))
    async with Client(served.url, key=made.key) as ci:
        me = await ci.whoami()
        assert (me.principal, me.key, me.attributes, me.server.store) == ("ci", made.id, {"tier": "pro"}, "sqlite")
        assert (await ci.keys.get(made.id)).name == "ci"
        with pytest.raises(PermissionDenied):
            await ci.keys.list()
        assert (await ci.keys.revoke(made.id)).revoked_at
    async with Client(served.url, key=made.key) as ci:
        with suppress(Unauthenticated):  # for a second at most
            await ci.whoami()
    assert made.id in [one.id async for one in boss.keys.all(principal="ci")]
    assert [one.id for one in (await boss.keys.list(principal="ci", limit=1)).items] == [made.id]
    with pytest.raises(NotFound):
        await boss.keys.revoke("nothing")
    known = {one.id: one async for one in boss.principals.all()}
    assert known["ci"].keys == []
    assert (await boss.principals.list(principal="ci")).items == [known["ci"]]
    assert known["boss"].keys[0].name
    assert "" in [one.org async for one in boss.orgs.all()]
    assert (await boss.usage()).items == []
    assert (await boss.usage(principal="ada")).principal == "ada"


@pytest.mark.spec("P52", "P53", "P54", "P55", "P56")
async def test_records_are_proved_counted_and_exported(boss: Client, session: str) -> None:
    called = await boss.call(session, "list_directory")
    found = await boss.records.get(called.record)
    assert (found.record["id"], found.chain.ok) == (called.record, True)
    checked, cursor = 0, None
    while True:
        part = await boss.records.verify(limit=3, cursor=cursor)
        assert part.ok, part.problem
        checked, cursor = checked + part.checked, part.next
        if cursor is None:
            break
    assert checked == part.last
    summary = await boss.records.summary(session=session)
    assert (summary.calls, [one.tool for one in summary.tools]) == (1, ["list_directory"])
    rows = [row async for row in boss.records.export(session=session)]
    assert [row["id"] for row in rows] == [called.record]
    assert [row["hash"] for row in rows] == [found.chain.hash]
    link = await boss.links.record(session)
    seen = await boss.fingerprints.sightings(link.runtime_hash)
    assert (seen.links, seen.sessions, seen.is_partial) == (1, [session], False)
    assert [one.last_link for one in seen.agents] == [link.id]
    same = await boss.fingerprints.diff(link.runtime_hash, link.runtime_hash)
    assert (same.kind, same.changes) == ("runtime", [])
    installed = (await boss.fingerprints.installed()).capabilities[0].hash
    assert (await boss.fingerprints.sightings(installed)).agents == []
    with pytest.raises(NotFound):
        await boss.fingerprints.sightings("f" * 64)

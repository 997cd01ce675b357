"""People and deliveries over the typed client (spec 9, N27, N30)."""

from __future__ import annotations

import pytest

from capset.errors import Conflict, NotFound, PermissionDenied
from capset_server.client import Client
from tests.helpers.connect.notifications.receiving import paying, receiver, settled
from tests.helpers.net.support import answer
from tests.helpers.server.approving import asked
from tests.helpers.server.support import ALL_SCOPES


@pytest.mark.spec("N27", "N30")
async def test_people_and_deliveries() -> None:
    async with receiver(answer(410), answer(204)) as endpoint, paying(endpoint.hook()) as (server, http, session):
        request = await asked(http, session)
        await settled(server, "ops", request, "failed")
        key = await server.key("root", scopes=(*ALL_SCOPES, "capset:admin"), permissions=("deploy:run",))
        async with Client(server.url, key=key) as client, Client(server.url, key=server.keys["ada"]) as ada:
            (row,) = [delivery async for delivery in client.deliveries.all(approval=request)]
            assert (row.channel, row.event, row.state) == ("ops", "approval.requested", "failed")
            assert await ada.deliveries.get(row.id) == row, "an auditor reads"
            with pytest.raises(PermissionDenied):
                await ada.deliveries.retry(row.id)
            assert (await client.deliveries.retry(row.id)).state == "queued"
            await settled(server, "ops", request)
            with pytest.raises(Conflict):
                await client.deliveries.retry(row.id)
            assert (await client.deliveries.list(state="failed", channel="ops")).items == []
            with pytest.raises(NotFound):
                await client.deliveries.get("nothing")
            bea = await client.people.add("T1", "U1", "bea", permissions=["deploy:run"], attributes={"tier": "gold"})
            assert (bea.principal, bea.org) == ("bea", "acme")
            assert (bea.permissions, bea.attributes) == (["deploy:run"], {"tier": "gold"})
            with pytest.raises(Conflict):
                await client.people.add("T1", "U1", "eve")
            assert [person async for person in client.people.all()] == [bea]
            assert (await client.people.list(limit=1)).items == [bea]
            await client.people.remove(bea.id)
            with pytest.raises(NotFound):
                await client.people.remove(bea.id)

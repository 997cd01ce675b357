"""Two organisations on one server, each with everything that one can have, and a secret in all of it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import httpx2

from capset import Principal
from capset.ext import Governance
from capset.wire.connections import DelegationInput
from capset_testing.store_suite.delivery_checks import PERSON, delivery_row
from capset_testing.store_suite.run_checks import run_row
from capset_testing.store_suite.schedule_checks import schedule_row
from tests.helpers.connect.vault.calendars import vault_of
from tests.helpers.server.approving import asked, till
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import Site, make_agent, site
from tests.helpers.server.walk import Belongings

SECRET = "the-treasure-is-under-the-oak"
NOT_THERE = "01890000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class Town:
    """A site where ``ada`` of ``acme`` has things that hold the secret."""

    site: Site
    database: Path
    ada: Belongings
    document: dict[str, Any]

    async def rows(self) -> set[tuple[Any, ...]]:
        """Return every row of the database but those of the server's own."""
        await self.site.kernel.audit.flush()
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            tables = [name for name in names if name not in ("leases", "writers")]
            return {(name, *row) for name in tables for row in connection.execute(f"SELECT * FROM {name}")}


@asynccontextmanager
async def a_town(folder: Path, **options: Any) -> AsyncGenerator[Town]:
    """Serve a town; ``options`` are those of ``site``."""
    database = folder / "capset.db"
    governance = Governance(own_approvals=True)
    options = {"store": f"sqlite:///{database}", "governance": governance, "vault": vault_of("shelf"), **options}
    async with site(till, generator=Parrot(), **options) as server:
        async with server.client() as client:
            ada = await with_channel(server, await belongings(client, SECRET))
            document = (await client.get("/openapi.json")).json()
        yield Town(server, database, ada, document)


async def with_channel(server: Site, belongings: Belongings) -> Belongings:
    """Add a delivery that is not due, a person of a chat, a run that is queued, and a schedule."""
    store, now = server.kernel.store, server.kernel.now()
    request = await server.kernel.approvals.find(belongings.approval, "acme")
    assert request is not None
    delivery = delivery_row(server.kernel.new_id(), approval=request.id, due_at="9999", created_at=now)
    assert await store.approvals.move(request, "pending", deliveries=[delivery])
    person = replace(PERSON, id=server.kernel.new_id(), user="U0ADA", principal=SECRET)
    assert await store.people.add(person)
    run = run_row(server.kernel.new_id(), session=belongings.session, content=f'"{SECRET}"', queue="none")
    await store.runs.add(run)
    schedule = schedule_row(server.kernel.new_id(), session=belongings.session, content=f'"{SECRET}"', next_at="9999")
    await store.schedules.add(schedule)
    belongings = replace(belongings, delivery=delivery.id, person=person.id, run=run.id, schedule=schedule.id)
    return replace(belongings, **await connected(server))


async def connected(server: Site) -> dict[str, str]:
    """Connect a server with the secret as the key, let an agent use it, and return the ids of both."""
    connections, ada = server.service.connections, Principal("ada", org="acme")
    assert connections is not None
    connection = await connections.enter_key(ada, "shelf", SECRET)
    assert connection.row is not None
    delegation = await connections.delegate(ada, "shelf", DelegationInput(delegate="agent:helper"))
    return {"credential": connection.row.id, "delegation": delegation.id}


async def belongings(client: httpx2.AsyncClient, secret: str) -> Belongings:
    """Make everything that one can have, with a secret in it."""
    agent = await make_agent(client, "kit", "till", "session_file_system", system_prompt=secret, description=secret)
    session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
    response = await client.put(f"/v1/sessions/{session}/files/secret.txt", content=secret.encode())
    assert response.status_code == 200
    body = {"tool": "echo", "arguments": {"text": secret}}
    headers = {"Idempotency-Key": "once"}
    record = (await client.post(f"/v1/sessions/{session}/calls", json=body, headers=headers)).json()["record"]
    link = (await client.post("/v1/links", json={"session_id": session, "context": {"told": secret}})).json()
    approval, refusal = [await asked(client, session, to=secret, amount=amount) for amount in (5, 6)]
    of_session = (session, record, link["id"], link["envelope_id"], approval, refusal)
    return Belongings(agent["id"], *of_session, agent["static_hash"])


def elsewhere(text: str, belongings: Belongings) -> str:
    """Return a text with ids that there are not, where it names what is somebody's."""
    for field in fields(belongings):
        if field.name not in ("hash", "record"):
            text = text.replace(getattr(belongings, field.name), NOT_THERE)
    return text.replace(belongings.hash, "0" * 64)

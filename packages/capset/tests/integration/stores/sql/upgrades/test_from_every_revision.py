"""Databases of every earlier revision, with rows in every table, on both engines (spec 5, P30)."""

from __future__ import annotations

from contextlib import closing

import pytest

from capset.stores.base import AgentQuery, ApprovalQuery, ScopeKey, SessionQuery
from capset.stores.sql.schema.maintenance import check
from capset.stores.sql.schema.revisions import HEAD, KNOWN
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import entry
from tests.helpers.stores.sql.support import opened_at, store_at
from tests.helpers.stores.sql.upgrades.eras import KEY, REVISIONS, engine_at, made, still_there


def test_revisions_are_numbered_without_gaps() -> None:
    assert sorted(KNOWN) == [f"{number:04}" for number in range(1, len(KNOWN) + 1)]
    assert (*REVISIONS, HEAD) == tuple(sorted(KNOWN))


NIGHTLY = {REVISIONS[index * (len(REVISIONS) - 1) // 3] for index in range(4)}
"""The first, the last, and two between; every week they are all tried."""


@pytest.mark.spec("P30")
@pytest.mark.parametrize(
    "last",
    [
        pytest.param(revision, marks=pytest.mark.nightly if revision in NIGHTLY else pytest.mark.weekly)
        for revision in REVISIONS
    ],
)
async def test_everything_is_there_after_an_upgrade_and_can_be_worked_with(last: str, empty_url: str) -> None:
    url, revisions = empty_url, REVISIONS[: REVISIONS.index(last) + 1]
    eras = made(url, last)
    async with opened_at(url) as store:
        outcomes = [record for record in await store.audit.read() if record.phase == "outcome"]
        assert [one.id for one in outcomes] == [*(f"call-{one}" for one in revisions), "left-open"]
        assert outcomes[-1].outcome == "interrupted"
        assert (await store.audit.verify([KEY.public] if last >= "0006" else [])).ok
        sessions = (await store.sessions.list(SessionQuery("acme"))).items
        assert [one.id for one in sessions] == [f"sessions-id-{one}" for one in reversed(revisions)]
        await read_by_the_ports(store, revisions)
        await store.audit.commit(entry("new"))
        await store.audit.checkpoint(KEY, now="2026-01-03T00:00:00.000000Z")
        assert (await store.audit.verify([KEY.public])).ok
    engine = engine_at(url)
    with closing(engine.connect()) as connection:
        assert [(revision, still_there(connection, era)) for revision, era in eras.items()] == [
            (revision, []) for revision in revisions
        ]
    engine.dispose()
    assert check(store_at(url)).problems == ()


async def read_by_the_ports(store: SqlStore, revisions: tuple[str, ...]) -> None:
    """Read what was written at each revision by the ports that it had, with what has a meaning to them."""
    for revision in revisions:
        session = await store.sessions.get(f"sessions-id-{revision}")
        assert session is not None
        assert session.principal == f"sessions-principal-{revision}"
        (_, content) = await store.files.read(f"files-session-{revision}", f"/{revision}.txt")
        assert content == b"content"
    since = [version for version in revisions if version >= "0002"]
    agents = await store.agents.list(AgentQuery("acme"))
    assert [one.id for one in agents.items] == [f"agents-id-{one}" for one in reversed(since)]
    assert [[used.id for used in agent.capabilities] for agent in agents.items] == [
        [f"agent_capabilities-capability_id-{version}"] for version in reversed(since)
    ]
    assert [one.id for one in await store.keys.list()] == [f"api_keys-id-{one}" for one in reversed(since)]
    for revision in (version for version in revisions if version >= "0003"):
        at = {"owner": f"states-owner-{revision}", "name": f"states-name-{revision}"}
        assert [row.value for row in await store.states.read([ScopeKey("session", "acme", **at)])] == ["7"]
    for revision in (version for version in revisions if version >= "0004"):
        link = await store.lineage.link("acme", f"links-id-{revision}")
        assert link is not None
        assert link.session == f"links-session-{revision}"
    page = await store.approvals.list(ApprovalQuery("acme"))
    assert [one.id for one in page.items] == [f"approvals-id-{one}" for one in reversed(revisions) if one >= "0005"]

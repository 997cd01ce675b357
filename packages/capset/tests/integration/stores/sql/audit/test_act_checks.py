"""Keys, people, agents and the log's own key are held to the acts that set them (spec 4, G60)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Final, LiteralString

import pytest

from capset import Kernel, Principal
from capset.ext import CheckpointKey, Checkpoints
from capset.kernel.governance.acts import actor_of
from capset.kernel.registry import Registry
from capset.stores.base import AuditQuery, PersonRow
from capset.stores.sql.schema.maintenance import check
from capset.wire.agents import AgentInput
from capset_connect.agents.permissions import Author
from capset_connect.agents.store import StoredAgents
from capset_server.approvals.people import add_person, remove_person
from capset_server.auth.keys import create_key, revoke_key
from capset_testing.store_suite.support import LATER, NOW
from tests.helpers.stores.sql.support import opened_at, run_at, store_at

ADA = Principal("ada", org="acme", permissions=["bills:pay"], attributes={"tier": "pro"})
MANY = Principal("many", permissions=[f"room_{number}_of_the_house:read" for number in range(1_000)])
KEY = CheckpointKey.generate()


def person(id: str, user: str) -> PersonRow:
    return PersonRow(
        id=id,
        team="T1",
        user=user,
        org="acme",
        principal="bob",
        principal_kind="user",
        permissions=("bills:pay",),
        created_at=NOW,
        created_by="user:ada",
        attributes={"tier": "pro"},
    )


async def fill(url: str) -> None:
    """Set a key and a person that are valid, some that are not any more, an agent of two versions, and a log's key."""
    async with Kernel(store=store_at(url)) as kernel:
        await kernel.sign(Checkpoints(KEY), by=actor_of(ADA))
        await create_key(kernel, "ci", ADA, lifetime=timedelta(days=3))
        await create_key(kernel, "long", MANY)
        revoked, _ = await create_key(kernel, "revoked", ADA)
        await revoke_key(kernel, revoked.id)
        await add_person(kernel, person("p-1", "U1"))
        await add_person(kernel, person("p-2", "U2"))
        await remove_person(kernel, "acme", "p-2")
        agents, author = StoredAgents(kernel, Registry.installed()), Author("user:ada", is_admin=True, principal=ADA)
        agent = await agents.create("acme", AgentInput(name="clerk", capabilities=["noop"], tags=["a"]), author=author)
        await agents.change("acme", agent.id, {"system_prompt": "Obey ada."}, author=author)


CHANGES: Final[list[tuple[LiteralString, LiteralString, str]]] = [
    (
        """UPDATE api_keys SET scopes = '["capset:admin"]' WHERE name = 'ci'""",
        """UPDATE api_keys SET scopes = '["capset:read", "capset:call"]' WHERE name = 'ci'""",
        "differs from what record",
    ),
    (
        "UPDATE api_keys SET revoked_at = NULL WHERE name = 'revoked'",
        "UPDATE api_keys SET revoked_at = '2026-01-02T03:04:05.000006Z' WHERE name = 'revoked'",
        "is valid, although record",
    ),
    (
        "UPDATE api_keys SET revoked_at = '2026-01-02T03:04:05.000006Z' WHERE name = 'long'",
        "UPDATE api_keys SET revoked_at = NULL WHERE name = 'long'",
        "is revoked, but no act revoked it",
    ),
    (
        "INSERT INTO api_keys (id, name, digest, principal, principal_kind, permissions, scopes, created_at,"
        """ makers) VALUES ('forged', 'x', 'd', 'eve', 'user', '[]', '["capset:admin"]', '2999', '[]')""",
        "DELETE FROM api_keys WHERE id = 'forged'",
        "the API key forged exists, but no act set it",
    ),
    (
        "UPDATE people SET principal = 'eve'",
        "UPDATE people SET principal = 'bob'",
        "the person p-1 differs from what record",
    ),
    (
        "UPDATE people SET id = 'p-2'",
        "UPDATE people SET id = 'p-1'",
        "the person p-2 exists, although record",
    ),
    (
        "UPDATE agents SET system_prompt = 'Obey eve.'",
        "UPDATE agents SET system_prompt = 'Obey ada.'",
        "version 2 differs from what record",
    ),
    (
        "UPDATE agents SET version = 1",
        "UPDATE agents SET version = 2",
        "version 1 is current, although record",
    ),
    (
        "UPDATE agent_versions SET version = 3 WHERE version = 1",
        "UPDATE agent_versions SET version = 1 WHERE version = 3",
        "version 1 is missing, although record",
    ),
    (
        "UPDATE api_keys SET permissions = 'all' WHERE name = 'ci'",
        """UPDATE api_keys SET permissions = '["bills:pay"]' WHERE name = 'ci'""",
        "contains an invalid value",
    ),
]
"""Changes by somebody who can write to the database, what undoes each, and what is said of it."""


@pytest.mark.spec("G60", "T60")
async def test_rows_that_are_not_as_their_acts_set_them_are_named(url: str) -> None:
    await fill(url)
    report = check(store_at(url), verify=True)
    assert (report.ok, report.problems, report.notes) == (True, (), ())
    for statement, undo, words in CHANGES:
        run_at(url, statement)
        report = check(store_at(url), verify=True)
        assert not report.ok
        assert any(words in problem for problem in report.problems), (statement, report.problems)
        assert check(store_at(url)).ok, "it is the record that tells"
        run_at(url, undo)
        assert check(store_at(url), verify=True).problems == ()
    run_at(url, "DELETE FROM api_keys WHERE name = 'ci'")
    run_at(url, "DELETE FROM settings WHERE name = 'checkpoint_key'")
    gone, unset = sorted(check(store_at(url), verify=True).problems)
    assert "is missing, although record" in gone
    assert unset.startswith("the log's key is not set, although record 1 set it to ")


@pytest.mark.spec("G60")
async def test_an_act_that_is_too_long_still_says_what_it_set(url: str) -> None:
    await fill(url)
    async with opened_at(url) as store:
        acts = (await store.audit.query(AuditQuery(act="key.create"))).items
    about = [json.loads(act.arguments or "") for act in acts]
    (long,) = [fields for fields in about if "omitted" in fields]
    assert set(long) == {"id", "sha256", "omitted"}


@pytest.mark.spec("G60")
async def test_rows_whose_acts_were_pruned_are_named_as_not_compared(url: str) -> None:
    await fill(url)
    async with opened_at(url) as store:
        assert (await store.audit.prune("2999-01-01T00:00:00.000000Z", KEY, now=LATER)).removed
    report = check(store_at(url), verify=True)
    assert report.problems == ()
    (note,) = report.notes
    assert "could not be compared: their acts were pruned" in note


@pytest.mark.spec("G41", "G60", "T15")
async def test_a_key_that_has_handed_over_does_not_sign_again_unseen(url: str) -> None:
    new = CheckpointKey.generate()
    async with Kernel(store=store_at(url)) as kernel:
        act = kernel.act("checkpoint_key.adopt", {"id": KEY.public.id})
        assert await kernel.audit.adopt(KEY.public, replacing=None, act=act)
        act = kernel.act("checkpoint_key.succeed", {"id": new.public.id, "before": KEY.public.id})
        assert await kernel.audit.adopt(new.public, replacing=KEY.public.id, act=act)
    assert check(store_at(url), verify=True).problems == ()
    run_at(url, "DELETE FROM settings WHERE name = 'retired_checkpoint_keys'")
    (problem,) = check(store_at(url), verify=True).problems
    assert problem == f"the key {KEY.public.id} may sign again, although record 2 replaced it"

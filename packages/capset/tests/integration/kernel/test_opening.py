"""What a session is opened with is checked before anything is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Kernel, Principal
from capset.fingerprint.hashes import invocation_hash
from capset.stores.base import SessionQuery

AGENT, WHO = Agent("tester"), Principal("ada")


@pytest.mark.parametrize(
    ("agent", "principal", "env", "message"),
    [
        (Capability("kit"), WHO, None, "is opened for an Agent, a Flow or another block; got Capability"),
        (AGENT, "ada", None, r"principal must be a Principal, such as Principal\('ada'\); got 'ada'"),
        (AGENT, WHO, "x", "env must be a mapping of names to values; got 'x'"),
    ],
)
async def test_what_cannot_be_is_refused_by_name_and_leaves_no_session(
    agent: Any, principal: Any, env: Any, message: str
) -> None:
    async with Kernel(store="memory://") as kernel:
        with pytest.raises(DefinitionError, match=message):
            async with kernel.open(agent, principal=principal, env=env):
                pass
        assert (await kernel.store.sessions.list(SessionQuery(org=None))).items == ()


@pytest.mark.spec("F9", "F14")
async def test_a_session_is_for_its_own_invocation_unless_an_opening_names_another(store: str) -> None:
    mine, other = {"tenant": "acme"}, {"tenant": "umbrella"}
    async with Kernel(store=store) as kernel:
        row = replace(kernel.new_session(AGENT, WHO), invocation_hash=invocation_hash(mine))
        await kernel.store.sessions.create(row)
        for named, expected in ((None, mine), (other, other), (mine, mine), (None, mine)):
            async with kernel.open(AGENT, principal=WHO, session_id=row.id, invocation=named) as session:
                assert session.snapshot.invocation_hash == invocation_hash(expected)
        stored = await kernel.store.sessions.get(row.id)
        assert stored is not None
        assert stored.invocation_hash == invocation_hash(mine), "an opening changes nothing of what is kept"


async def test_a_session_without_an_invocation_takes_that_of_each_opening() -> None:
    async with Kernel(store="memory://") as kernel:
        async with kernel.open(AGENT, principal=WHO, invocation={"tenant": "acme"}) as session:
            assert session.snapshot.invocation_hash == invocation_hash({"tenant": "acme"})
        async with kernel.open(AGENT, principal=WHO, session_id=session.id) as session:
            assert session.snapshot.invocation_hash is None

"""What policies, handlers and the record have of a principal's attributes (spec 2, F34; spec 4, G20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from capset import Agent, Capability, Context, Decision, Kernel, Principal, Record, Request, allow, deny, policy, tool
from capset.errors import PermissionDenied
from capset.ext import Governance, Limit
from capset.fingerprint.canonical import canonical
from capset_connect.actions import ActionRegistry, ExecutionContext
from tests.helpers.kernel.support import records_of
from tests.waiting import until

ASKED: list[Request] = []


@policy
def pro(request: Request) -> Decision:
    """Let the tier pro through."""
    ASKED.append(request)
    return allow() if request.principal.attributes.get("tier") == "pro" else deny("this needs the tier pro")


@policy
def pro_on_both_sides(request: Request) -> Decision:
    """Let through who has the tier pro, and acts for others that have it."""
    sides = (request.principal.attributes, *request.principal.on_behalf_of_attributes)
    return allow() if all(side.get("tier") == "pro" for side in sides) else deny("everybody needs the tier pro")


@tool(effect="read", policies=[pro])
async def export() -> str:
    """Export."""
    return "exported"


@tool(policies=[pro])
async def publish() -> str:
    """Publish."""
    return "published"


@tool(effect="read", policies=[pro_on_both_sides])
async def share() -> str:
    """Share."""
    return "shared"


@tool(effect="read")
async def tell(ctx: Context) -> dict[str, Any]:
    """Tell who acts."""
    return dict(ctx.principal.attributes)


@tool(permissions={"vault:open"})
async def unlock() -> None:
    """Open the vault."""


AGENT = Agent("tester", uses=[Capability("kit", tools=[export, publish, share, tell, unlock])])
PRO = Principal("ada", attributes={"tier": "pro"})
FREE = Principal("ada", attributes={"tier": "free"})


def said(kernel: Kernel, attributes: Mapping[str, Any] | list[Any]) -> str:
    """Return the keyed digest of what was said of a principal."""
    return kernel._open_runtime().digest(canonical(attributes))


@pytest.mark.spec("F34", "F15")
@pytest.mark.parametrize(
    "principal", [FREE, Principal("ada"), Principal("ada", attributes={"tier": True, "Tier": "pro"})]
)
async def test_a_policy_reads_them_when_it_is_evaluated_and_at_a_call(principal: Principal) -> None:
    ASKED.clear()
    async with Kernel("memory://") as kernel:
        async with kernel.open(AGENT, principal=PRO) as session:
            assert session.snapshot.explain("export").in_play
            assert await session.call(export) == "exported"
            assert [request.tool for request in ASKED] == [None, export], "once for the snapshot, once for the call"
        async with kernel.open(AGENT, principal=principal) as session:
            assert session.snapshot.explain("export").reason == "this needs the tier pro"
            with pytest.raises(PermissionDenied, match="this needs the tier pro"):
                await session.call(export)


@pytest.mark.spec("F34", "G9")
async def test_both_sides_of_a_delegation_are_there_and_neither_passes_for_the_other() -> None:
    bot = {tier: Principal("bot", kind="agent", attributes={"tier": tier}) for tier in ("pro", "free")}
    async with Kernel("memory://") as kernel:
        for actor, other, goes in (
            (bot["pro"], PRO, True),
            (bot["pro"], FREE, False),
            (bot["free"], PRO, False),
            (bot["pro"], bot["pro"].acting_for(FREE), False),
            (bot["pro"], bot["pro"].acting_for(PRO), True),
        ):
            async with kernel.open(AGENT, principal=actor.acting_for(other)) as session:
                assert session.snapshot.explain("share").in_play is goes
                assert session.snapshot.explain("export").in_play is (actor is bot["pro"]), "which reads the actor's"


@pytest.mark.spec("F34", "G8")
async def test_permissions_that_everybody_has_leave_them() -> None:
    async with Kernel("memory://", governance=Governance(default_permissions={"vault:open"})) as kernel:
        async with kernel.open(AGENT, principal=Principal("bot").acting_for(PRO)) as session:
            assert session.snapshot.principal.permissions == {"vault:open"}
            assert session.snapshot.principal.on_behalf_of_attributes == ({"tier": "pro"},)
        async with kernel.open(AGENT, principal=PRO) as session:
            assert await session.call(tell) == {"tier": "pro"}


async def recorded(kernel: Kernel, principal: Principal) -> list[Record]:
    """Return the records of two calls, with their intents."""
    async with kernel.open(AGENT, principal=principal) as session:
        await session.try_call(publish)
        await session.try_call(tell)
    await kernel.audit.flush()
    return [record for record in await kernel.audit.read() if record.session == session.id]


@pytest.mark.spec("G20", "F34")
async def test_the_record_has_a_keyed_digest_of_them_and_never_themselves(store: str) -> None:
    attributes = {"tier": "pro", "plan": "a-plan-of-ours", "level": 3}
    ada = Principal("ada", attributes=attributes)
    async with Kernel(store) as kernel:
        expected: dict[Principal, str | None] = {
            ada: said(kernel, attributes),
            Principal("ada", attributes=dict(reversed(attributes.items()))): said(kernel, attributes),
            FREE: said(kernel, {"tier": "free"}),
            Principal("ada"): None,
            Principal("bot").acting_for(ada): said(kernel, [{}, attributes]),
            PRO.acting_for(Principal("bob")): said(kernel, [{"tier": "pro"}, {}]),
            PRO.acting_for(Principal("bob").acting_for(ada)): said(kernel, [{"tier": "pro"}, {}, attributes]),
            Principal("bot").acting_for(Principal("bob")): None,
        }
        for principal, digest in expected.items():
            records = await recorded(kernel, principal)
            assert [record.tool for record in records if record.phase == "outcome"] == ["publish", "tell"]
            assert len(records) == (3 if principal.attributes.get("tier") == "pro" else 2), "an intent has it, too"
            assert {record.attributes_digest for record in records} == {digest}
            assert "a-plan-of-ours" not in repr(records)
        assert len({expected_digest for expected_digest in expected.values() if expected_digest}) == 5
        assert (await kernel.audit.verify()).ok


@pytest.mark.spec("G15", "G20")
async def test_refused_calls_of_others_share_no_record() -> None:
    async with Kernel("memory://", governance=Governance(refusals=Limit(1, "1m"))) as kernel:
        for principal, times in ((PRO, 3), (FREE, 2)):
            async with kernel.open(AGENT, principal=principal) as session:
                for _ in range(times):
                    assert (await session.try_call(unlock)).error is not None
        await until(lambda: kernel._open_runtime().refusals._timer is None)
        flood = [record for record in await records_of(kernel.audit) if record.code == "too_many_refusals"]
        assert [record.repeats for record in flood] == [2, 2]
        tiers = [said(kernel, principal.attributes) for principal in (PRO, FREE)]
        assert [record.attributes_digest for record in flood] == tiers


@pytest.mark.spec("F34", "G4")
async def test_an_action_registry_keeps_a_session_for_each() -> None:
    async with Kernel("memory://") as kernel:
        registry = ActionRegistry(kernel)
        registry.register(export)
        assert (await registry.execute("export", {}, ExecutionContext(user=PRO))).data == "exported"
        with pytest.raises(PermissionDenied):
            await registry.execute("export", {}, ExecutionContext(user=FREE))
        assert (await registry.execute("export", {}, ExecutionContext(user=PRO))).data == "exported"
        assert len({record.session for record in await records_of(kernel.audit)}) == 2


@pytest.mark.spec("F34")
async def test_a_session_that_is_opened_again_goes_by_who_opens_it() -> None:
    async with Kernel("memory://") as kernel:
        async with kernel.open(AGENT, principal=PRO) as session:
            assert await session.call(export) == "exported"
        async with kernel.open(AGENT, principal=FREE, session_id=session.id) as reopened:
            assert not reopened.snapshot.explain("export").in_play
            assert await session.call(export) == "exported", "which was opened for another"

"""``risk: high`` needs an administrator, by whatever way it comes (spec 5, P3)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Kernel, Preset, Registry, compose
from capset.composition.compose import Composition
from capset.errors import DefinitionError, PermissionDenied
from capset.flows import Generator, as_tool
from capset.stores.base import AgentQuery, VersionQuery
from capset.wire.agents import AgentInput, CapabilityEntry
from capset_connect.agents.permissions import Author, needs_admin
from capset_connect.agents.store import StoredAgents


class Reach(BaseModel):
    dsn: str = "here"
    limit: int | float | bool = 1
    more: dict[str, int] = {}


vault = Capability(
    "vault", risk="high", aliases=["safe"], config=Reach, presets={"write": Preset(instructions="Write.")}
)
bank = Capability("bank", uses=[vault])
shop = Capability("shop", uses=[bank], risk="medium")
lamp = Capability("lamp")
REGISTRY = Registry.of([vault, bank, shop, lamp])
ADA, BOSS = Author("user:ada"), Author("user:boss", is_admin=True)


def given(*capabilities: str | CapabilityEntry) -> AgentInput:
    return AgentInput(name="keeper", capabilities=list(capabilities))


@pytest.mark.spec("P3")
@pytest.mark.parametrize("named", ["vault", "safe", "bank", "shop"])
async def test_it_is_refused_by_every_way_and_named(store: str, named: str) -> None:
    async with Kernel(store=store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        with pytest.raises(PermissionDenied, match="only an administrator can enable 'vault'"):
            await agents.create("acme", given("lamp", named), author=ADA)
        assert (await kernel.store.agents.list(AgentQuery("acme"))).total == 0
        row = await agents.create("acme", given("lamp", named), author=BOSS)
        assert row.author == "user:boss"
        other = await agents.create("acme", given("lamp"), author=ADA)
        with pytest.raises(PermissionDenied, match="'vault'"):
            await agents.change("acme", other.id, {"capabilities": ["lamp", named]}, author=ADA)


@pytest.mark.spec("P3")
async def test_one_who_is_no_administrator_changes_all_else_and_takes_it_away(store: str) -> None:
    async with Kernel(store=store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        row = await agents.create("acme", given("vault"), author=BOSS)
        row = await agents.change("acme", row.id, {"description": "x", "capabilities": ["safe", "lamp"]}, author=ADA)
        assert (row.author, [capability.id for capability in row.capabilities]) == ("user:ada", ["vault", "lamp"])
        for status in ("archived", "active"):
            assert (await agents.change("acme", row.id, {"status": status}, author=ADA)).status == status
        for entry in (
            {"config": {"dsn": "elsewhere"}},
            {"config": {"limit": 2}},
            {"presets": {"write": False}},
        ):
            patch = {"capabilities": [{"id": "vault", **entry}, "lamp"]}
            with pytest.raises(PermissionDenied, match="'vault'"):
                await agents.change("acme", row.id, patch, author=ADA)
        await agents.change("acme", row.id, {"capabilities": ["lamp"]}, author=ADA)
        with pytest.raises(PermissionDenied, match="'vault'"):
            await agents.rollback("acme", row.id, 1, author=ADA)
        back = await agents.rollback("acme", row.id, 1, author=BOSS)
        page = await kernel.store.agents.versions(VersionQuery("acme", row.id))
        assert [version.author for version in page.items] == ["user:boss", *(["user:ada"] * 4), "user:boss"]
        assert back == page.items[0]


@pytest.mark.spec("P3")
async def test_what_cannot_be_had_is_told_before_who_may_have_it(store: str) -> None:
    async with Kernel(store=store) as kernel:
        with pytest.raises(DefinitionError, match="nothing"):
            await StoredAgents(kernel, REGISTRY).create("acme", given("vault", "nothing"), author=ADA)


@pytest.mark.spec("P3")
async def test_where_what_there_was_cannot_be_told_it_is_asked_anew(store: str) -> None:
    clashing = Capability("lamp", uses=[vault.with_config(Reach(dsn="lamp"))])
    other = Capability("other", uses=[vault.with_config(Reach(dsn="other"))])
    async with Kernel(store=store) as kernel:
        row = await StoredAgents(kernel, Registry.of([vault, lamp, Capability("other")])).create(
            "acme", given("vault", "lamp", "other"), author=BOSS
        )
        later = StoredAgents(kernel, Registry.of([vault, clashing, other]))
        assert (await later.loaded(row)).notices, "it cannot be composed any more"
        with pytest.raises(PermissionDenied, match="'vault'"):
            await later.change("acme", row.id, {"capabilities": ["vault"]}, author=ADA)


@pytest.mark.spec("P3")
def test_equal_uses_need_nobody() -> None:
    first, second = (compose(Agent("a", uses=[vault.with_config(Reach(dsn=name))])) for name in ("x", "y"))
    same_uses = compose(Agent("b", uses=[lamp, vault.with_config(Reach(dsn="x"))]))
    assert needs_admin(same_uses, first) == ()
    assert needs_admin(second, first) == ("vault",)
    assert needs_admin(first, None) == ("vault",)
    assert needs_admin(compose(Agent("c", uses=[lamp])), first) == ()


@pytest.mark.spec("P3")
def test_what_python_takes_for_equal_is_another_config() -> None:
    def used(**config: Any) -> Composition:
        return compose(Agent("a", uses=[vault.with_config(Reach(**config))]))

    for other in (True, 1.0):
        assert needs_admin(used(limit=other), used(limit=1)) == ("vault",)
    assert needs_admin(used(more={"a": 1, "b": 2}), used(more={"b": 2, "a": 1})) == ()


@pytest.mark.spec("P3")
def test_it_is_found_in_a_block_that_a_tool_runs() -> None:
    inner = Generator("inner", description="Look.", uses=[vault])
    outer = Capability("outer", tools=[as_tool(inner)])
    assert needs_admin(compose(Agent("a", uses=[outer])), None) == ("vault",)

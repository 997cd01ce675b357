"""Stored agents that choose of their capabilities, and what becomes of the choices (spec 5, P3, P4)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, Kernel, Preset, Principal, Registry, Session, tool
from capset.definitions.capabilities import AnyCapability
from capset.errors import DefinitionError, InvalidArguments
from capset.stores.base import CapabilityRow
from capset.wire.agents import AgentInput, agent_detail, entry_of_row
from capset_connect.agents.permissions import Author
from capset_connect.agents.store import StoredAgents
from tests.helpers.connect.shelf import ENTRY, REGISTRY, lamp, tools_of
from tests.helpers.kernel.support import records_of

ADA = Author("user:ada")


def given(*capabilities: Any, **more: Any) -> AgentInput:
    return AgentInput.model_validate({"name": "keeper", "capabilities": list(capabilities), **more})


@pytest.mark.spec("P4", "C1")
async def test_an_entry_comes_back_as_it_was_and_a_plain_id_as_one(store: str) -> None:
    async with Kernel(store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        row = await agents.create("acme", given(ENTRY, {"id": "lamp", "presets": {}}), author=ADA)
        assert agent_detail(row).plain()["capabilities"] == [ENTRY, "lamp"]
        loaded = await agents.get("acme", row.id)
        assert (loaded.row, loaded.notices) == (row, ())
        assert kernel.compose(loaded.agent).static_hash == row.static_hash
        assert tools_of(loaded.agent) == {"s_look", "torch"}
        named = await agents.create("acme", given("bookshelf"), author=ADA)
        assert agent_detail(named).plain()["capabilities"] == ["shelf"], "an alias is written as what it stands for"


@pytest.mark.spec("P4", "P7")
async def test_a_patch_replaces_the_list_and_a_choice_is_a_change(store: str) -> None:
    async with Kernel(store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        row = await agents.create("acme", given("lamp", {"id": "shelf", "config": {"count": 1}}), author=ADA)
        same = await agents.change(
            "acme", row.id, {"capabilities": ["lamp", {"id": "shelf", "config": {"count": 1}}]}, author=ADA
        )
        assert same == row, "what changes nothing makes no version"
        with pytest.raises(DefinitionError, match=r"capabilities\.1\.config\.count"):
            await agents.change(
                "acme", row.id, {"capabilities": ["lamp", {"id": "shelf", "config": {"count": True}}]}, author=ADA
            )
        other = await agents.change("acme", row.id, {"capabilities": [{**ENTRY, "config": None}]}, author=ADA)
        assert (other.version, other.static_hash == row.static_hash) == (2, False)
        assert agent_detail(other).plain()["capabilities"] == [{k: v for k, v in ENTRY.items() if k != "config"}]
        cleared = await agents.change("acme", row.id, {"capabilities": None}, author=ADA)
        assert cleared.capabilities == ()


@pytest.mark.spec("P3")
async def test_nothing_is_kept_of_what_does_not_fit(store: str) -> None:
    async with Kernel(store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        wrong = given("soon", {"id": "shelf", "presets": {"x": True}, "config": {"count": 0}}, "bookshelf")
        with pytest.raises(DefinitionError) as refused:
            await agents.create("acme", wrong, author=ADA)
        assert [field.path for field in refused.value.fields] == [
            "capabilities.0",
            "capabilities.1.presets.x",
            "capabilities.1.config.count",
            "capabilities.2",
        ]
        row = await agents.create("acme", given("lamp"), author=ADA)
        with pytest.raises(InvalidArguments):
            await agents.change(
                "acme", row.id, {"capabilities": [{"id": "shelf", "presets": {"burning": 1}}]}, author=ADA
            )
        assert (await agents.get("acme", row.id)).row == row


@tool(effect="read", name="look")
async def glance() -> str:
    """Look otherwise."""
    return "…"


class Sizes(BaseModel):
    size: int = 1


@pytest.mark.spec("P3")
@pytest.mark.parametrize(
    ("later", "gone"),
    [
        (Capability("shelf", tools=[glance]), {"presets.burning", "presets.writing", "config", "rename.burn"}),
        (
            Capability("shelf", tools=[glance], presets={"burning": Preset()}, config=Sizes),
            {"presets.writing", "config.count", "config.until", "config.places", "rename.burn"},
        ),
    ],
)
async def test_a_choice_that_has_gone_since_is_left_out_and_told(
    later: AnyCapability, gone: set[str], store: str
) -> None:
    async with Kernel(store) as kernel:
        row = await StoredAgents(kernel, REGISTRY).create("acme", given("lamp", ENTRY), author=ADA)
        agents = StoredAgents(kernel, Registry.of([lamp, later]))
        loaded = await agents.get("acme", row.id)
        assert tools_of(loaded.agent) == {"s_look"}, "what still fits holds"
        assert {notice.split(" without ")[1].split(",")[0] for notice in loaded.notices} == gone
        assert all(notice.startswith("capability 'shelf'") for notice in loaded.notices)
        assert loaded.row == row, "what is kept is kept: it may come back"
        archived = await agents.change("acme", row.id, {"status": "archived"}, author=ADA)
        assert (archived.capabilities, archived.status) == (row.capabilities, "archived")
        back = await StoredAgents(kernel, REGISTRY).get("acme", row.id)
        assert (kernel.compose(back.agent).static_hash, back.notices) == (row.static_hash, ())


@pytest.mark.spec("P3", "C10")
async def test_a_capability_that_was_renamed_is_found_by_its_old_name(store: str) -> None:
    async with Kernel(store) as kernel:
        row = await StoredAgents(kernel, Registry.of([Capability("bookshelf")])).create(
            "acme", given("bookshelf"), author=ADA
        )
        loaded = await StoredAgents(kernel, REGISTRY).get("acme", row.id)
        assert (tools_of(loaded.agent), loaded.notices) == ({"look", "put"}, ())


async def test_tools_are_called_and_recorded_under_their_names_here(store: str) -> None:
    async with Kernel(store) as kernel:
        agents = StoredAgents(kernel, REGISTRY)
        row = await agents.create("acme", given(ENTRY), author=ADA)
        principal = Principal("ada", org="acme")
        async with kernel.open((await agents.get("acme", row.id)).agent, principal=principal) as session:
            for name in ("torch", "shelf.torch", "bookshelf.torch"):
                assert await _called(session, name, book="Ovid") == "Ovid is ashes"
            assert await _called(session, "s_look") == 7
            assert await _called(session, "burn", book="x") == 404
        records = await records_of(kernel.audit)
        assert [record.tool for record in records] == ["torch", "torch", "torch", "s_look", "burn"]
        assert {record.capability for record in records[:4]} == {"shelf"}


async def _called(session: Session, name: str, **arguments: Any) -> Any:
    result = await session.try_message(session.message(name, arguments))
    return result.data if result.error is None else result.error.status


def test_a_row_without_choices_is_a_plain_id() -> None:
    assert entry_of_row(CapabilityRow("a")) == "a"
    assert entry_of_row(CapabilityRow("a", prefix="")) != "a", "an empty prefix is said, and beats another's"

"""A session that another process opens again has the agent that it began with, or says why not (spec 5, P4, P5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from capset import Agent, Capability, Context, Kernel, Principal, Registry, policy
from capset.errors import Conflict
from capset_connect.agents.definitions import build_agent
from capset_connect.agents.store import StoredAgents, agent_in_code
from tests.helpers.connect.shelf import ENTRY, REGISTRY, lamp, put, shelf

WHO = Principal("ada")


@policy
def free(request: object) -> bool:
    return True


def more(ctx: Context) -> list[Capability]:
    return [lamp]


@pytest.mark.spec("P4", "F7")
async def test_an_agent_of_a_file_is_opened_again_as_it_was(store: str) -> None:
    agent = build_agent({"name": "keeper", "system_prompt": "Keep.", "capabilities": [ENTRY, "lamp"]}, REGISTRY, "here")
    plain = Agent("keeper", uses=[shelf.with_presets(), lamp])
    async with Kernel(store) as kernel:
        for original in (agent, plain):
            row = kernel.new_session(original, WHO)
            reopened = await StoredAgents(kernel, REGISTRY).of_session(row)
            assert reopened is not original
            assert kernel.compose(reopened).static_hash == kernel.compose(original).static_hash == row.static_hash
        assert json.loads(row.definition)["capabilities"] == ["shelf", "lamp"]


@pytest.mark.spec("P5")
@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ({"tools": [put]}, "tools"),
        ({"context": ["now"]}, "context"),
        ({"policies": [free]}, "policies"),
        ({"files": {"/a": "b"}}, "files"),
        ({"model_settings": {"temperature": 0}}, "model_settings"),
        ({"uses": [shelf, more]}, "dynamic uses"),
        ({"uses": more}, "dynamic uses"),
    ],
)
async def test_what_only_code_says_is_never_lost_silently(declared: Mapping[str, Any], named: str, store: str) -> None:
    options: dict[str, Any] = {"uses": [shelf], **declared}
    agent = Agent("keeper", **options)
    async with Kernel(store) as kernel:
        row = kernel.new_session(agent, WHO)
        with pytest.raises(Conflict, match=rf"{named}.* is not installed here") as refused:
            await StoredAgents(kernel, REGISTRY).of_session(row)
        assert "kernel.open" in (refused.value.hint or "")
        installed = Registry.of([shelf, lamp], [agent])
        assert await StoredAgents(kernel, installed).of_session(row) is agent
        changed = Registry.of([shelf, lamp], [Agent("keeper", **options, system_prompt="New.")])
        with pytest.raises(Conflict, match="has changed since the session began"):
            await StoredAgents(kernel, changed).of_session(row)


async def test_an_installed_agent_of_the_same_name_is_not_taken_for_a_file_s(store: str) -> None:
    of_file = build_agent({"name": "keeper", "capabilities": ["shelf"]}, REGISTRY, "here")
    installed = Agent("keeper", uses=[shelf], context=["more"])
    async with Kernel(store) as kernel:
        row = kernel.new_session(of_file, WHO)
        assert agent_in_code(row, kernel, Registry.of([shelf], [installed])) is None


class Halves(BaseModel):
    whole: int

    @model_validator(mode="before")
    @classmethod
    def halve(cls, data: dict[str, int]) -> dict[str, int]:
        return {"whole": data["whole"] // 2}


async def test_a_config_that_does_not_come_back_as_it_was_is_no_part_of_a_file() -> None:
    odd = Capability("odd", config=Halves)
    agent = Agent("keeper", uses=[odd.with_config(Halves(whole=8))])
    async with Kernel("memory://") as kernel:
        row = kernel.new_session(agent, WHO)
        with pytest.raises(Conflict, match="the config of odd"):
            await StoredAgents(kernel, Registry.of([odd])).of_session(row)
        assert await StoredAgents(kernel, Registry.of([odd], [agent])).of_session(row) is agent


async def test_an_agent_with_empty_declarations_is_still_a_file_s() -> None:
    async with Kernel("memory://") as kernel:
        row = kernel.new_session(Agent("a", tools=[], context=[], uses=[shelf]), WHO)
        reopened = await StoredAgents(kernel, REGISTRY).of_session(row)
        assert kernel.compose(reopened).static_hash == row.static_hash

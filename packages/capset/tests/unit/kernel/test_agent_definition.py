"""What is kept of a session's agent (spec 5, P4, P5)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from capset import Agent, Capability, Preset
from capset.kernel.agent_definition import definition_of


@pytest.mark.spec("P4", "P5")
def test_model_and_static_context_are_kept_where_they_are_said() -> None:
    context = {"tier": "pro", "limits": {"depth": [1, None]}}
    definition = json.loads(definition_of(Agent("scribe", model="m", static_context=context)))
    assert (definition["model"], definition["static_context"]) == ("m", context)
    assert "only_in_code" not in definition
    assert not {"model", "static_context"} & json.loads(definition_of(Agent("scribe"))).keys()


@pytest.mark.spec("P4", "C1")
def test_an_agent_is_kept_as_its_file_would_say_it() -> None:
    uses = [Capability("kit", presets={"more": Preset()}).with_presets(more=True), Capability("noop")]
    agent = Agent("scribe", system_prompt="Write.", instructions=["Be brief."], uses=uses)
    assert json.loads(definition_of(agent)) == {
        "name": "scribe",
        "description": "",
        "system_prompt": "Write.",
        "instructions": ["Be brief."],
        "capabilities": [{"id": "kit", "presets": {"more": True}}, "noop"],
    }


@pytest.mark.spec("P5")
@pytest.mark.parametrize("value", [date(2026, 1, 1), object(), float("nan"), {1: "one"}, "x" * 1_100_000])
def test_a_static_context_that_is_no_json_is_only_in_code(value: Any) -> None:
    definition = json.loads(definition_of(Agent("scribe", static_context={"value": value})))
    assert definition["only_in_code"] == ["static_context"]
    assert "static_context" not in definition

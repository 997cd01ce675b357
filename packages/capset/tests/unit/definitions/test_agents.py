from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, compose
from capset.errors import DefinitionError


@pytest.mark.spec("P4", "F7")
def test_neither_model_nor_static_context_is_hashed() -> None:
    plain = Agent("scribe", system_prompt="Write.")
    named = Agent("scribe", system_prompt="Write.", model="openai:gpt-9", static_context={"tier": "pro"})
    assert (named.model, dict(named.static_context)) == ("openai:gpt-9", {"tier": "pro"})
    assert (plain.model, dict(plain.static_context)) == (None, {})
    assert compose(plain).static_hash == compose(named).static_hash


@pytest.mark.spec("P4")
@pytest.mark.parametrize("model", ["", "m" * 201, 5, "\ud800"])
def test_a_model_is_a_name(model: Any) -> None:
    with pytest.raises(DefinitionError, match="agent 'scribe': model"):
        Agent("scribe", model=model)

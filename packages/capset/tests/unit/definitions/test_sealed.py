"""Generic definitions can be written with their types, and stay frozen all the same."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, CapabilityRef, Context, Resource


class Settings(BaseModel):
    size: int = 1


class Helpers:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx


typed = Capability[Helpers, Settings]("typed", helpers=Helpers, config=Settings)


@pytest.mark.parametrize(
    "definition",
    [typed, Resource[int]("count", int, scope="session", default=0), CapabilityRef[Helpers, Settings](typed)],
    ids=lambda definition: type(definition).__name__,
)
def test_a_generic_definition_can_be_made_with_its_types_and_nothing_can_be_set(definition: Any) -> None:
    for name in ("name", "anything", "__orig_class__"):
        with pytest.raises(FrozenInstanceError, match="is frozen"):
            setattr(definition, name, "other")
    with pytest.raises(FrozenInstanceError, match="is frozen"):
        del definition.name
    assert definition.name in ("typed", "count")

"""``noop``: a capability that can be used anywhere and brings nothing (spec 5, P17)."""

from __future__ import annotations

import pytest

from capset import Agent, compose
from capset_tools.noop import noop


@pytest.mark.spec("P17")
def test_it_brings_nothing() -> None:
    plain, using = compose(Agent("someone")), compose(Agent("someone", uses=[noop]))
    assert not using.tools
    assert using.system_text == plain.system_text
    assert [choice.capability for choice in using.capability_uses] == [noop]

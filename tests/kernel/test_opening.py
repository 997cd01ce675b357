"""What a session is opened with is checked before anything is kept."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Kernel, Principal
from capset.stores.base import SessionQuery

AGENT, WHO = Agent("tester"), Principal("ada")


@pytest.mark.parametrize(
    ("agent", "principal", "env", "told"),
    [
        (Capability("kit"), WHO, None, "is opened for an Agent, a Flow or another block; got Capability"),
        (AGENT, "ada", None, r"principal is a Principal, such as Principal\('ada'\); got 'ada'"),
        (AGENT, WHO, "x", "env is a mapping of names to values; got 'x'"),
    ],
)
async def test_what_cannot_be_is_refused_by_name_and_leaves_no_session(
    agent: Any, principal: Any, env: Any, told: str
) -> None:
    async with Kernel(store="memory://") as kernel:
        with pytest.raises(DefinitionError, match=told):
            async with kernel.open(agent, principal=principal, env=env):
                pass
        assert (await kernel.store.sessions.list(SessionQuery(org=None))).items == ()

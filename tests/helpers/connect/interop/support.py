"""Agents to export, as one principal sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from capset import Agent, Capability, Principal
from capset.composition.compose import compose
from capset.definitions.tools.definition import AnyTool
from capset.evaluation.evaluate import evaluate
from capset.evaluation.snapshot.snapshot import Snapshot


def seen(
    tools: Iterable[AnyTool],
    *grants: str,
    principal: Principal | None = None,
    env: Mapping[str, Any] | None = None,  # as policies read it
    **agent: Any,
) -> Snapshot:
    """Return the snapshot of an agent with a capability of these tools, as ada or another principal sees it."""
    options: dict[str, Any] = {"description": "Helps.", **agent}
    helper = Agent("helper", uses=[Capability("kit", tools=tools)], **options)
    caller = principal or Principal("ada", permissions=grants)
    return asyncio.run(evaluate(compose(helper), principal=caller, env=env or {}))

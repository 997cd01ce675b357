"""The hashes of a capability in each of its settings, also as a program for another process."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.definitions.capabilities import Capability
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef
from capset.evaluation.evaluate import evaluate


async def hashes_of(ref: AnyRef) -> dict[str, list[str]]:
    """Return the static, runtime and prompt hash of the reference as it is, and with each preset alone."""
    settings = {"its own presets": ref}
    for name in ref.base.presets:
        settings[f"only the preset {name!r}"] = ref.with_presets(**{one: one == name for one in ref.base.presets})
    found: dict[str, list[str]] = {}
    for what, setting in settings.items():
        composition = compose(Agent("tester", uses=[setting]))
        needed = [permission for one in composition.tools.values() for permission in one.tool.permissions]
        snapshot = await evaluate(composition, principal=Principal("ada", permissions=needed, org="acme"))
        found[what] = [snapshot.static_hash, snapshot.runtime_hash, snapshot.prompt_hash]
    return found


def _loaded(order: dict[str, Any]) -> AnyRef:
    module, name = order["address"]
    capability: Capability[Any, Any] = getattr(import_module(module), name)
    ref = capability.with_presets(**order["presets"])
    if order["config"] is not None and capability.config is not None:
        ref = ref.with_config(capability.config.model_validate(order["config"]))
    return ref.with_names(prefix=order["prefix"], rename=order["rename"])


def main() -> None:
    """Read the reference to load as JSON from standard input, and write its hashes."""
    print(json.dumps(asyncio.run(hashes_of(_loaded(json.load(sys.stdin))))))

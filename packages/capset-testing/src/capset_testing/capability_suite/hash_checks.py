"""Checks that hashes are the same every time, in every process (spec 2)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from capset.composition.compose import compose
from capset.definitions.agents import Agent
from capset.definitions.capabilities import Capability, parse_config
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef
from capset.evaluation.evaluate import evaluate
from capset_testing.capability_suite.subject import CapabilitySubject, Promise, expect


async def hashes_are_the_same_in_every_process(subject: CapabilitySubject) -> None:
    """Check the hashes, as declared and with each preset alone, in processes that order sets differently."""
    ref = subject.ref
    hashes = await hashes_of(ref)
    recomputed = await hashes_of(ref)
    expect(hashes == recomputed, f"composed twice, it has different hashes{_first_difference(hashes, recomputed)}")
    address = _address(ref)
    request: dict[str, Any] = {
        "address": address,
        "presets": dict(ref.presets),
        "config": None if ref.config is None else ref.config.model_dump_json(by_alias=True, round_trip=True),
        "prefix": ref.prefix,
        "rename": None if ref.rename is None else dict(ref.rename),
    }
    for other in await asyncio.gather(*[_hashes_in_process(request, seed) for seed in ("1", "2")]):
        expect(hashes == other, f"another process computes different hashes{_first_difference(hashes, other)}")


async def _hashes_in_process(request: dict[str, Any], seed: str) -> dict[str, list[str]]:
    path = os.pathsep.join(filter(None, sys.path))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"from {main.__module__} import main; main()",
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate(json.dumps(request).encode())
    last_lines = errors.decode(errors="replace").strip().splitlines()[-1:]
    expect(process.returncode == 0, f"another process cannot load {request['address']}: {' '.join(last_lines)}")
    return json.loads(out)


def _address(ref: AnyRef) -> list[str]:
    """Return the module and the variable name from which another process can import the capability."""
    for module, name in _variables(ref):
        if module != "__main__":
            return [module, name]
    raise AssertionError(
        f"the capability {ref.name!r} is not a variable of any module, so no other process can load it: "
        "define it at the top level of a module that can be imported"
    )


def _variables(ref: AnyRef) -> Iterator[tuple[str, str]]:
    for module, loaded in list(sys.modules.items()):
        for name, value in list(getattr(loaded, "__dict__", {}).items()):
            if value is ref.base:
                yield module, name


def _first_difference(hashes: dict[str, list[str]], other: dict[str, list[str]]) -> str:
    names = [name for name in hashes if hashes[name] != other.get(name)]
    return f" with {names[0]}: {hashes[names[0]]} and {other.get(names[0])}" if names else ""


async def hashes_of(ref: AnyRef) -> dict[str, list[str]]:
    """Return the static, runtime and prompt hash of the reference as declared, and with each preset alone."""
    settings = {"its own presets": ref}
    for name in ref.base.presets:
        settings[f"only the preset {name!r}"] = ref.with_presets(
            **{preset: preset == name for preset in ref.base.presets}
        )
    hashes: dict[str, list[str]] = {}
    for label, setting in settings.items():
        composition = compose(Agent("tester", uses=[setting]))
        needed = [permission for entry in composition.tools.values() for permission in entry.tool.permissions]
        snapshot = await evaluate(composition, principal=Principal("ada", permissions=needed, org="acme"))
        hashes[label] = [snapshot.static_hash, snapshot.runtime_hash, snapshot.prompt_hash]
    return hashes


def _load_ref(request: dict[str, Any]) -> AnyRef:
    module, name = request["address"]
    capability: Capability[Any, Any] = getattr(import_module(module), name)
    ref = capability.with_presets(**request["presets"])
    if request["config"] is not None and capability.config is not None:
        ref = ref.with_config(parse_config(capability.config, request["config"].encode()))
    return ref.with_names(prefix=request["prefix"], rename=request["rename"])


def main() -> None:
    """Read a reference as JSON from standard input, and print its hashes."""
    print(json.dumps(asyncio.run(hashes_of(_load_ref(json.load(sys.stdin))))))


ALWAYS: Final[tuple[Promise, ...]] = (hashes_are_the_same_in_every_process,)

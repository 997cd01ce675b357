"""Play every case of GuardBench's before its own controls and before capset, and print what came of it as JSON."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false
# guardbench is in an environment of its own, which pyright does not see.

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from guardbench.benchmark.adapters import SecurityAdapter, create_adapter
from guardbench.benchmark.orchestrator import BenchmarkConfig, Orchestrator
from guardbench.benchmark.test_case_loader import load_test_cases
from guardbench.policy.models import load_policy

from lab.guardbench.lab.adapter import CapsetAdapter
from lab.guardbench.lab.operators import OPERATORS

CONTROLS = ("no-defense-baseline", "reference-static", "reference-runtime")


async def main(capset: str, cases: str) -> None:
    """Play all."""
    folder = Path(cases)
    loaded = load_test_cases(folder, allowed_root=folder)
    said: dict[str, dict[str, list[dict[str, str]]]] = {one.name: {} for one in OPERATORS}

    def adapter(name: str) -> SecurityAdapter:
        for one in OPERATORS:
            if one.name == name:
                return CapsetAdapter(one, Path(capset), said[name])
        return create_adapter(name)

    config = BenchmarkConfig(adapters=(*CONTROLS, *said))
    outcome = await Orchestrator(loaded, load_policy(), adapter_factory=adapter).run(
        config, progress=lambda name, case, status: print(f"{name} {case}: {status}", file=sys.stderr, flush=True)
    )
    results = [
        {
            "control": one.adapter_name,
            "case": one.test_case_id,
            "status": one.status.value,
            "error": one.error,
            "detected": one.detected,
            "prevented": one.blocked,
            "false_positive": one.false_positive,
            "unsafe": one.unsafe_outcomes,
            "said": said.get(one.adapter_name, {}).get(one.test_case_id, []),
        }
        for one in outcome.results
    ]
    described = [{"id": one.spec.id, "name": one.spec.name, "is_attack": one.spec.is_attack_case} for one in loaded]
    json.dump({"cases": described, "results": results}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

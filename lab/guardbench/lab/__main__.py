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
    reports: dict[str, dict[str, list[dict[str, str]]]] = {operator.name: {} for operator in OPERATORS}

    def adapter(name: str) -> SecurityAdapter:
        for operator in OPERATORS:
            if operator.name == name:
                return CapsetAdapter(operator, Path(capset), reports[name])
        return create_adapter(name)

    config = BenchmarkConfig(adapters=(*CONTROLS, *reports))
    outcome = await Orchestrator(loaded, load_policy(), adapter_factory=adapter).run(
        config, progress=lambda name, case, status: print(f"{name} {case}: {status}", file=sys.stderr, flush=True)
    )
    results = [
        {
            "control": case_outcome.adapter_name,
            "case": case_outcome.test_case_id,
            "status": case_outcome.status.value,
            "error": case_outcome.error,
            "detected": case_outcome.detected,
            "prevented": case_outcome.blocked,
            "false_positive": case_outcome.false_positive,
            "unsafe": case_outcome.unsafe_outcomes,
            "said": reports.get(case_outcome.adapter_name, {}).get(case_outcome.test_case_id, []),
        }
        for case_outcome in outcome.results
    ]
    described = [
        {"id": test_case.spec.id, "name": test_case.spec.name, "is_attack": test_case.spec.is_attack_case}
        for test_case in loaded
    ]
    json.dump({"cases": described, "results": results}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

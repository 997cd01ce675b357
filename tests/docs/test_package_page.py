"""The hashes on the page about packages are those of its code."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from typing import Any

from capset import Agent, Capability, Principal, compose, evaluate
from capset.fingerprint.hashes import tool_hash
from scripts.packages import ROOT

TEXT = (ROOT / "docs/guide/package.md").read_text(encoding="utf-8")
PRINTED = re.compile(r"(\w+_hash) +([0-9a-f]{16})…")


async def test_the_page_prints_the_hashes_of_its_capability(tmp_path: Path) -> None:
    (source,) = re.findall(r'^```python title="stopwatch/stopwatch\.py"\n(.*?)^```', TEXT, re.MULTILINE | re.DOTALL)
    (prompt,) = re.findall(r"^system_prompt: (.+)$", TEXT, re.MULTILINE)
    file = tmp_path / "stopwatch.py"
    file.write_text(source, encoding="utf-8")
    capability: Capability[Any, Any] = run_path(str(file))["stopwatch"]
    (tool,) = capability.every_tool
    agent = Agent("timekeeper", system_prompt=prompt, uses=[capability])
    snapshot = await evaluate(compose(agent), principal=Principal("local", permissions={"laps:write"}))
    assert re.findall(r"add_lap write, needs laps:write, ([0-9a-f]{8})", TEXT) == [tool_hash(tool)[:8]]
    assert dict(PRINTED.findall(TEXT)) == {
        "static_hash": snapshot.composition.static_hash[:16],
        "runtime_hash": snapshot.runtime_hash[:16],
        "prompt_hash": snapshot.prompt_hash[:16],
    }

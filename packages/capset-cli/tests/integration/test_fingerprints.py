"""The three hashes are the same in every process, and anybody can compute two of them again from what is shown."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.helpers.cli.agent_files import HASHES, agent_files
from tests.helpers.cli.support import FILES, Command


def sha256_of(payload: dict[str, Any]) -> str:
    """Hash a payload with nothing but json and hashlib, which is RFC 8785 for texts with ASCII keys."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.nightly
@pytest.mark.spec("F1", "F12")
def test_every_process_and_every_format_gives_the_same_hashes(capset: Command) -> None:
    composed = [
        capset("compose", str(path), *FILES, "--json", env={"PYTHONHASHSEED": str(seed)}).json
        for seed, path in enumerate([*agent_files(capset.folder), capset.folder / "a.yaml"])
    ]
    for name in HASHES:
        assert len({composition[name] for composition in composed}) == 1, name
    assert len({composed[0][name] for name in HASHES}) == 3


@pytest.mark.spec("F12")
def test_a_record_and_a_composition_show_the_same_hashes(capset: Command) -> None:
    path = str(agent_files(capset.folder)[1])
    composed = capset("compose", path, *FILES, "--json").json
    call = capset("call", "add", "--agent", path, *FILES, "--args", '{"a": 1, "b": 2}', "--json").json
    (record,) = capset("audit", "query", "--json").json["items"]
    assert [record[name] for name in HASHES] == [composed[name] for name in HASHES]
    assert call["runtime_hash"] == composed["runtime_hash"]
    (tool,) = [tool for tool in composed["tools"] if tool["name"] == "add"]
    assert record["tool_hash"] == tool["hash"]
    assert record["profile"] == composed["profile"] == "jcs-1"


@pytest.mark.spec("F2", "F8", "F9")
def test_what_compose_shows_is_enough_to_compute_the_hashes_again(capset: Command) -> None:
    path = str(agent_files(capset.folder)[0])
    for grants, in_play in (((), 5), (FILES[:2], 9), (FILES, 13)):
        composed = capset("compose", path, *grants, "--json").json
        tools = [{"hash": tool["hash"], "name": tool["name"]} for tool in composed["tools"] if tool["in_play"]]
        assert len(tools) == in_play
        runtime = {"kind": "runtime", "tools": sorted(tools, key=lambda tool: tool["name"])}
        assert composed["runtime_hash"] == sha256_of(runtime)
        texts = {"systemPrompt": composed["system_prompt"], "instructions": composed["instructions"]}
        assert composed["prompt_hash"] == sha256_of({"kind": "prompt", **texts})


@pytest.mark.realtime
@pytest.mark.spec("F2")
def test_jq_and_sha256sum_compute_them_too(capset: Command) -> None:
    if shutil.which("jq") is None or shutil.which("sha256sum") is None:
        pytest.skip("jq or sha256sum is not installed")
    done = capset("compose", str(agent_files(capset.folder)[2]), *FILES, "--json")
    payloads = {
        "runtime_hash": '{kind: "runtime", tools: [.tools[] | select(.in_play) | {name, hash}]}',
        "prompt_hash": '{kind: "prompt", systemPrompt: .system_prompt, instructions}',
    }
    for name, payload in payloads.items():
        script = f"jq -jcS '{payload}' | sha256sum"
        piped = subprocess.run(["sh", "-c", script], input=done.out, capture_output=True, text=True, check=True)
        assert piped.stdout.split()[0] == done.json[name]

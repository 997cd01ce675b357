"""``capset runs`` and ``capset fingerprint HASH``: what ran in a local database, as a list, as a tree, and followed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.helpers.cli.conversation.scripted import call, events, script
from tests.helpers.cli.support import Run


@pytest.mark.spec("P99", "F36")
def test_runs_are_listed_shown_and_followed(run: Run, tmp_path: Path) -> None:
    action = {"name": "look", "description": "Look.", "handler": "./look.py", "effect": "read", "permissions": []}
    (tmp_path / "look.py").write_text("def handler(params):\n    return 'seen'\n")
    (tmp_path / "capset.yaml").write_text(json.dumps({"name": "clerk", "actions": [action]}))
    model = script(tmp_path, {"text": "I look."} | call("look"), {"text": "It is there."})
    done = run("run", "capset.yaml", "look around", "--model", model)
    assert done.code == 0, done.err
    (listed,) = run("runs", "list", "--json").json["items"]
    assert (listed["agent"], listed["state"], listed["usage"]["steps"]) == ("clerk", "succeeded", 2)
    assert run("runs", "list", "--state", "failed", "--json").json["items"] == []
    assert listed["id"] in run("runs", "list", "--own").out
    trace = run("runs", "show", listed["id"], "--json").json
    (looked,) = trace["steps"][0]["calls"]
    assert (looked["tool"], looked["outcome"], looked["result"]) == ("look", "succeeded", "seen")
    shown = run("runs", "show", listed["id"])
    assert shown.code == 0, shown.err
    assert all(part in shown.out for part in ("look around", "step 1", "look", "seen", "It is there."))
    assert events(run("runs", "tail", listed["id"], "--json"))[-1]["type"] == "turn.ended"
    missing = run("runs", "show", "nothing")
    assert (missing.code, "there is no run 'nothing'" in missing.err) == (2, True)
    (tmp_path / "capset.yaml").unlink()
    for digest in (trace["versions"][0]["static_hash"], looked["tool_hash"]):
        covered = run("fingerprint", digest)
        assert (covered.code, hashlib.sha256(covered.out.encode()).hexdigest()) == (0, digest), covered.err
    unknown = run("fingerprint", "0" * 64)
    assert (unknown.code, "nothing known here" in unknown.err) == (2, True)
    refused = run("fingerprint", "0" * 64, "--grant", "a", "--payloads")
    assert (refused.code, "no --grant or --payloads" in refused.err) == (2, True)
    refused = run("runs", "list", "--own", "--of", "ada")
    assert (refused.code, "whose=all" in refused.err) == (2, True)

"""``capset runs``: the turns of a local database, as a list, as a tree, and followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.conversation.scripted import SHELF, call, events, script
from tests.helpers.cli.support import Command, clean_environment, install


@pytest.mark.spec("P97")
def test_runs_are_listed_shown_and_followed(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages, "shelf", SHELF, capabilities={"shelf": "shelf:shelf"}, agents={"keeper": "shelf:keeper"})
    keeper = Command(tmp_path, clean_environment(tmp_path, PYTHONPATH=str(packages)))
    model = script(tmp_path, {"text": "I put it there."} | call("put", text="milk"), {"text": "It is done."})
    assert keeper("run", "keeper", "keep milk", "--model", model).code == 0
    (run,) = keeper("runs", "list", "--json").json["items"]
    assert (run["agent"], run["state"], run["usage"]["steps"]) == ("keeper", "succeeded", 2)
    assert keeper("runs", "list", "--state", "failed", "--json").json["items"] == []
    assert run["id"] in keeper("runs", "list").out
    trace = keeper("runs", "show", run["id"], "--json").json
    (stored,) = trace["steps"][0]["calls"]
    assert (stored["tool"], stored["outcome"], stored["result"]) == ("put", "succeeded", "kept milk")
    shown = keeper("runs", "show", run["id"])
    assert shown.code == 0, shown.err
    assert all(part in shown.out for part in ("keep milk", "step 1", "put", "kept milk", "It is done."))
    assert events(keeper("runs", "tail", run["id"], "--json"))[-1]["type"] == "turn.ended"
    missing = keeper("runs", "show", "nothing")
    assert (missing.code, "there is no run 'nothing'" in missing.err) == (2, True)

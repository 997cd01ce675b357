"""What the wheels need, tried where all extras are installed: the imports of those that are absent fail."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lab.wheels import EXTRAS, IMPORT_ALL

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
DECLARED = {"capset-cli": {"cryptography"}}
"""Dependencies of a package that are an extra of another."""


@pytest.mark.realtime
@pytest.mark.gate
@pytest.mark.parametrize("name", ["capset-cli", "capset-connect"])
def test_modules_need_no_package_that_only_other_extras_bring(name: str) -> None:
    absent = set[str]().union(*EXTRAS.values()) - DECLARED.get(name, set())
    code = f"ABSENT = {absent!r}{WITHOUT}{IMPORT_ALL}"
    done = subprocess.run(
        [sys.executable, "-c", code, name.replace("-", "_")], capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    assert report["modules"] > 10
    assert report["missing"].keys() <= EXTRAS[name]

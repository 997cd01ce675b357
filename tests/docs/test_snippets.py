"""The code in the documentation is real: it parses, it runs where it is whole, and what it imports is there."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from scripts.packages import ROOT
from tests.helpers.snippets import CAPABILITIES, blocks, is_elsewhere

LIBRARY = ROOT / "packages/capset/README.md"
PAGES = sorted([ROOT / "README.md", LIBRARY, *(ROOT / "docs" / "guide").glob("*.md"), *CAPABILITIES])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_parses_and_imports_what_there_is(page: Path) -> None:
    for block in blocks(page):
        # Snippets show `await` as one would write it inside a function.
        tree = compile(block, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("capset"):
                if is_elsewhere(node.module or ""):
                    continue
                module = import_module(node.module or "")
                assert not [name.name for name in node.names if not hasattr(module, name.name)]


@pytest.mark.realtime
def test_the_readme_of_the_library_runs(tmp_path: Path) -> None:
    (program,) = [block for block in blocks(LIBRARY) if "asyncio.run" in block]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "export needs the pro tier" in done.stdout


@pytest.mark.realtime
@pytest.mark.nightly
def test_the_tests_of_the_guide_pass(tmp_path: Path) -> None:
    (tmp_path / "test_stopwatch.py").write_text(
        "\n".join(blocks(ROOT / "docs" / "guide" / "testing.md")), encoding="utf-8"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-o",
            "anyio_mode=auto",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:schemathesis",
            ".",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.realtime
def test_the_guide_recomputes_its_hashes(tmp_path: Path) -> None:
    if shutil.which("jq") is None or shutil.which("sha256sum") is None:
        pytest.skip("jq or sha256sum is not installed; examples/recompute_hash.sh does the same without jq")
    text = (ROOT / "docs/guide/fingerprints.md").read_text(encoding="utf-8")
    (block,) = [
        snippet for snippet in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "jq -jcS" in snippet
    ]
    script = block.replace("examples/", f"{ROOT / 'examples'}/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script + "\njq -r .prompt_hash composed.json"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reported_runtime, runtime, prompt, reported_prompt = [line.split()[0] for line in done.stdout.splitlines()]
    assert re.fullmatch("[0-9a-f]{64}", runtime)
    assert (runtime, prompt) == (reported_runtime, reported_prompt)

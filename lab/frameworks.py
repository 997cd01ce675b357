"""Run the contract of adapters with the real frameworks, in environments that are locked, and make the guide's table.

``python -m lab.frameworks [NAME …]`` runs those that are named, or all; ``--write`` puts the table into the guide,
and without it a table that differs from the guide's is an error. ``make lab-frameworks`` calls this.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.packages import source_folders
from scripts.run_examples import run
from tests.helpers.frameworks.contract import ROWS

ROOT: Final = Path(__file__).resolve().parents[1]
ADAPTERS: Final = "packages/capset-frameworks"
GUIDE: Final = ROOT / "docs/guide/frameworks.md"
BEGIN: Final = "<!-- made by lab/frameworks.py -->"
END: Final = "<!-- end -->"


@dataclass(frozen=True)
class Environment:
    """An environment for some frameworks, by the names of their tests.

    What is in it is locked: by ``uv.lock``, as extras of capset, or by a file of its own, where the framework's
    requirements do not go together with those of the others.
    """

    frameworks: Mapping[str, str]
    """Their titles by the names of their tests."""
    extras: tuple[str, ...] = ()
    lock: str | None = None
    is_apart: bool = False
    """Whether capset is not in it, and its tests run in ``.venv``, since the two do not go together."""

    def folder(self, name: str) -> Path:
        """Return where it is made."""
        return ROOT / f".venv-{name}"

    def tests(self, name: str) -> Path:
        """Return the environment in which its tests run."""
        return ROOT / ".venv" if self.is_apart else self.folder(name)


ENVIRONMENTS: Final = {
    "frameworks": Environment(
        {
            "pydantic_ai": "pydantic-ai",
            "openai_agents": "OpenAI Agents SDK",
            "agent_framework": "Microsoft Agent Framework",
            "langchain": "LangChain",
            "llama_index": "LlamaIndex",
            "tool_json": "tool-call JSON",
        },
        extras=("openai-agents", "langchain", "agent-framework", "llama-index"),
    ),
    "google-adk": Environment(
        {"google_adk": "Google Agent Development Kit"}, lock="tests/helpers/frameworks/locks/google-adk.txt"
    ),
    # Its wheel has the whole of Claude Code, which takes more room than all the others together.
    "claude-agent-sdk": Environment({"claude_agent": "Claude Agent SDK"}, extras=("claude-agent-sdk", "otel")),
    "crewai": Environment({"crewai": "CrewAI"}, lock="tests/helpers/frameworks/locks/crewai.txt", is_apart=True),
}


def main() -> int:
    """Run what is named, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [name for environment in ENVIRONMENTS.values() for name in environment.frameworks]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all, if none is named")
    parser.add_argument("--write", action="store_true", help="put the table into the guide")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*names}):
        parser.error(f"unknown frameworks: {', '.join(unknown)}; there are {', '.join(names)}")
    outcomes: dict[str, dict[str, str]] = {}
    for name, environment in ENVIRONMENTS.items():
        chosen = [framework for framework in environment.frameworks if framework in (options.names or names)]
        if chosen:
            _make(name, environment)
            if not (
                _check_types(name, environment)
                and _run(name, environment, chosen, outcomes)
                and _run_examples(environment.folder(name), chosen)
            ):
                return 1
    return (
        0
        if options.names and not options.write
        else _table(outcomes, is_written=options.write, is_whole=not options.names)
    )


def _make(name: str, environment: Environment) -> None:
    """Install what is locked, which takes a moment where it is there already."""
    folder, uv = environment.folder(name), str(ROOT / ".venv/bin/uv")
    print(f"frameworks: bringing {folder.name} up to date", flush=True)
    if environment.lock is None:
        extras = [part for extra in environment.extras for part in ("--extra", extra)]
        environ = os.environ | {"UV_PROJECT_ENVIRONMENT": folder.name}
        groups = ("--all-packages", "--no-default-groups", "--group", "dev", "--group", "frameworks")
        command = [uv, "sync", "--frozen", "--quiet", *groups, *extras]
        subprocess.run(command, cwd=ROOT, env=environ, check=True)
        return
    environ = os.environ | {"VIRTUAL_ENV": str(folder)}
    if not folder.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], cwd=ROOT, check=True)
    subprocess.run([uv, "pip", "sync", "--quiet", environment.lock], cwd=ROOT, env=environ, check=True)
    if not environment.is_apart:
        packages = [part for folder in source_folders() for part in ("--editable", str(folder.parent))]
        install = [uv, "pip", "install", "--quiet", "--no-deps", *packages]
        subprocess.run(install, cwd=ROOT, env=environ, check=True)


def _check_types(name: str, environment: Environment) -> bool:
    """Check the types of the adapters and their tests, beside the frameworks that this environment has."""
    groups: dict[Path, list[str]] = {}
    for framework in environment.frameworks:
        sources = (
            f"{ADAPTERS}/src/capset_frameworks/{framework}.py",
            f"tests/helpers/frameworks/{framework}_program.py",
        )
        paths = [*(path for path in sources if (ROOT / path).exists()), *map(_relative, _examples(framework))]
        groups.setdefault(environment.folder(name), []).extend(paths)
        groups.setdefault(environment.tests(name), []).extend(_tests(framework))
    return all(_check_files(folder, files) for folder, files in groups.items())


def _check_files(folder: Path, files: Sequence[str]) -> bool:
    """Check the types of files beside what an environment has."""
    sources = [f"../{_relative(source)}" for source in source_folders()]
    settings = {
        "include": [f"../{path}" for path in files],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "venvPath": "..",
        "venv": folder.name,
        "reportMissingTypeStubs": False,
        "enableTypeIgnoreComments": False,
        "executionEnvironments": [
            {
                "root": f"../{ADAPTERS}/tests",
                "extraPaths": ["..", *sources],
                **dict.fromkeys(LOOSE, False),
            },
            {"root": "../tests", "extraPaths": ["..", *sources], **dict.fromkeys(LOOSE, False)},
            {"root": "../examples", "extraPaths": sources, **dict.fromkeys(LOOSE, False)},
            {"root": "..", "extraPaths": sources},
        ],
    }
    file = folder / "pyrightconfig.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    return subprocess.run([ROOT / ".venv/bin/pyright", "-p", file], cwd=ROOT, check=False).returncode == 0


LOOSE: Final = (
    "reportPrivateUsage",
    "reportUnknownArgumentType",
    "reportUnknownLambdaType",
    "reportUnknownMemberType",
    "reportUnknownParameterType",
    "reportUnknownVariableType",
)
"""What ``pyproject.toml`` leaves to tests; for examples too, since not all frameworks have whole types."""


def _run(name: str, environment: Environment, frameworks: Sequence[str], outcomes: dict[str, dict[str, str]]) -> bool:
    """Run the tests of frameworks, and keep what came of their contract."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        files = [path for framework in frameworks for path in _tests(framework)]
        command = [environment.tests(name) / "bin/pytest", "-n", "2", *files]
        environ = os.environ | {"CAPSET_CONTRACT": str(results)}
        if subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode != 0:
            return False
        outcomes |= json.loads(results.read_text("utf-8"))
    if missing := [framework for framework in frameworks if framework not in outcomes]:
        print(f"frameworks: the contract did not run for {', '.join(missing)}", file=sys.stderr)
        return False
    return True


def _tests(name: str) -> list[str]:
    """Return the paths of a framework's tests: ``test_NAME.py``, which has the contract, and ``test_NAME_*.py``."""
    folder = ROOT / ADAPTERS / "tests/integration/frameworks"
    paths = [folder / f"test_{name}.py", *sorted(folder.glob(f"test_{name}_*.py"))]
    return list(map(_relative, paths))


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _run_examples(folder: Path, frameworks: Sequence[str]) -> bool:
    """Run the examples of frameworks, each in a fresh folder."""
    for example in (path for framework in frameworks for path in _examples(framework)):
        failed = run(example, python=folder / "bin/python")
        print(f"frameworks: examples/frameworks/{example.name} {failed or 'passed'}", flush=True)
        if failed is not None:
            return False
    return True


def _examples(name: str) -> list[Path]:
    """Return the examples of a framework: those whose names begin with its own.

    One that had the name of the module that it imports would import itself.
    """
    return sorted((ROOT / "examples/frameworks").glob(f"{name}*.py"))


def _table(outcomes: Mapping[str, Mapping[str, Any]], *, is_written: bool, is_whole: bool) -> int:
    """Write the table, or compare it with that of the guide; return the exit code."""
    if not is_whole:
        print("frameworks: the table needs all frameworks; leave the names out", file=sys.stderr)
        return 2
    titles = {name: title for environment in ENVIRONMENTS.values() for name, title in environment.frameworks.items()}
    lines = [f"| | {' | '.join(titles.values())} |", f"|---|{'---|' * len(titles)}"]
    notes: list[str] = []
    for row, description in ROWS.items():
        cells: list[str] = []
        for name, title in titles.items():
            reason = outcomes[name].get(row, "was not run")
            cells.append("yes" if not reason else "**no**")
            if reason:
                notes.append(f"- **{title}**, {description}: {reason}.")
        lines.append(f"| {description} | {' | '.join(cells)} |")
    table = "\n".join([*lines, *(["", "What is missing:", "", *notes] if notes else [])])
    text = GUIDE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    updated = f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}"
    if is_written:
        GUIDE.write_text(updated, encoding="utf-8")
    elif updated != text:
        print(
            "frameworks: the table in the guide is not what the tests find: make lab-frameworks ARGS=--write",
            file=sys.stderr,
        )
        return 1
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

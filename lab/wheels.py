"""Build each package's wheel, install it alone, import all of its modules, and run its unit tests.

``python -m lab.wheels [PACKAGE …]``; ``make lab-wheels`` calls this. A module may need an extra; then what is missing
is a package that one of the extras brings. A module that needs another package of capset than those declared, or a
dependency that no extra brings, is an error. For the unit tests its extras are installed too, and what the tests
themselves need, with ``capset-testing``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from scripts.packages import ROOT, source_folders

UV: Final = Path(sys.executable).with_name("uv")
IMPORT_ALL: Final = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
missing, modules = {}, 1
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if module.name.endswith((".env", ".__main__")) or ".versions." in module.name or ".child." in module.name:
        continue  # Alembic's, and what runs in processes of its own
    modules += 1
    try:
        importlib.import_module(module.name)
    except Exception as error:
        cause = error
        while cause.__context__ is not None:
            cause = cause.__context__
        if not isinstance(cause, ModuleNotFoundError):
            raise
        missing.setdefault((cause.name or "").partition(".")[0], []).append(module.name)
from importlib.metadata import distributions
print(json.dumps({"modules": modules, "missing": missing, "installed": sorted(one.name for one in distributions())}))
"""
EXTRAS: Final = {
    "capset": {"psycopg", "redis", "httpx2", "httpcore2", "h11", "anyio"},
    "capset-agents": {"pydantic_ai", "dbos"},
    "capset-connect": {"mcp", "mcp_types", "httpx2", "httpcore2", "anyio", "slack_sdk"},
    "capset-tools": {"pydantic_monty", "psycopg"},
    "capset-server": {
        *(
            "ag_ui",
            "cronsim",
            "cryptography",
            "fastapi",
            "httptools",
            "jinja2",
            "joserfc",
            "markupsafe",
            "mcp",
            "mcp_types",
        ),
        *("prometheus_client", "pydantic_ai", "starlette", "structlog", "uvicorn"),
    },
    "capset-cli": set[str](),
    "capset-frameworks": {
        *("agent_framework", "agents", "claude_agent_sdk", "google", "langchain", "langchain_core", "langgraph"),
        *("langsmith", "llama_index", "mcp", "pydantic_ai", "workflows"),
    },
    "capset-testing": {"pydantic_ai"},
}
"""What modules of each package may lack: what its extras bring."""
NOT_IN_THE_CORE: Final = frozenset({"cryptography", "typer", "rich", "pyyaml", "httpx2", "fastapi", "hypothesis"})


WITH_EXTRAS: Final = {
    "capset": ("capset[postgres,redis,signing,otel]",),
    "capset-agents": ("capset-agents[agent,dbos]",),
    "capset-connect": ("capset-connect[mcp,email,slack]",),
    "capset-tools": ("capset-tools[web,email,sandbox]",),
    "capset-server": ("capset-server[server]",),
    "capset-cli": ("capset-server[server]", "capset-connect[mcp]"),
    "capset-frameworks": ("capset-agents[agent]",),
}
"""What is installed for the unit tests of each package: it, or what it requires, with the extras that it names."""
TEST_TOOLS: Final = (
    *("pytest>=9", "pytest-timeout", "anyio", "hypothesis", "uvloop", "psutil", "rfc8785", "httpx2[brotli,zstd]"),
    *("pyyaml", "jsonschema", "cryptography", "aiosmtpd", "psycopg[binary]"),
)


MARKS: Final = "not nightly and not weekly"


def build(folder: Path) -> None:
    """Build all wheels into a folder."""
    subprocess.run([UV, "build", "--quiet", "--all-packages", "--wheel", "--out-dir", folder], cwd=ROOT, check=True)


def problems(name: str, wheels: Path, folder: Path) -> list[str]:
    """Install one package in a new environment, and return what is wrong with it there."""
    environment = folder / name
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin/python"
    _install(python, wheels, name)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [python, "-I", "-W", "error", "-c", IMPORT_ALL, name.replace("-", "_")]
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        return [f"{name}: {done.stderr.strip().splitlines()[-1]}"]
    report = json.loads(done.stdout)
    print(f"wheels: {name}: {report['modules']} modules, {len(report['installed'])} packages installed", flush=True)
    wrong = [
        f"{name}: {', '.join(modules)} need {missing}, which no extra brings"
        for missing, modules in report["missing"].items()
        if missing not in EXTRAS[name]
    ]
    if name == "capset" and (more := NOT_IN_THE_CORE.intersection(report["installed"])):
        wrong.append(f"capset: the library alone installs {', '.join(sorted(more))}")
    _install(python, wheels, *WITH_EXTRAS.get(name, ()), "capset-testing", *TEST_TOOLS)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", MARKS, f"packages/{name}/tests/unit"]
    if subprocess.run(command, cwd=ROOT, env=clean, check=False).returncode:
        wrong.append(f"{name}: its unit tests fail beside what it declares alone")
    return wrong


def _install(python: Path, wheels: Path, *requirements: str) -> None:
    """Install packages in an environment, those of capset from their wheels."""
    where = ["--python", python, "--find-links", wheels, "--prerelease", "allow"]
    subprocess.run([UV, "pip", "install", "--quiet", *where, *requirements], check=True)


def main(names: list[str]) -> int:
    """Check the packages that are named, or all."""
    every = [source.parent.name for source in source_folders()]
    if unknown := set(names) - set(every):
        print(f"wheels: expected some of {', '.join(every)}; got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build(folder / "wheels")
        wrong = [problem for name in names or every for problem in problems(name, folder / "wheels", folder)]
    for problem in wrong:
        print(f"wheels: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Importing capset is cheap and has no effects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.realtime

HEAVY = {
    "alembic", "click", "docstring_parser", "fastapi", "httpx", "httpx2", "jinja2", "joserfc",
    "jsonschema_rs", "mcp", "opentelemetry", "prometheus_client", "psycopg", "pydantic_ai", "pydantic_monty",
    "re2", "requests", "rich", "sqlalchemy", "sqlite3", "starlette", "structlog", "typer", "uvicorn", "uvloop", "yaml",
}  # fmt: skip

WATCH = """
import json, os, signal, sys, threading, warnings
import asyncio, logging

effects = []

def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC):
            effects.append(f"opens {path} to write")
    elif event.split(".")[0] in ("socket", "subprocess", "shutil", "sqlite3", "urllib", "tempfile") or event in (
        "os.mkdir", "os.remove", "os.rename", "os.fork", "os.exec", "os.system", "os.putenv", "os.chdir",
        "signal.signal", "_thread.start_new_thread", "ctypes.dlopen",
    ):
        effects.append(f"{event} {arguments}")

def state():
    return {
        "threads": [thread.name for thread in threading.enumerate()],
        "environment": dict(os.environ),
        "handlers": [repr(handler) for handler in logging.getLogger().handlers],
        "level": logging.getLogger().level,
        "disabled": logging.root.manager.disable,
        "filters": [repr(one) for one in warnings.filters],
        "signals": {str(one): repr(signal.getsignal(one)) for one in signal.valid_signals()},
        "policy": type(asyncio.get_event_loop_policy()).__name__,
        "directory": os.getcwd(),
        "hooks": [repr(sys.excepthook), repr(sys.displayhook), repr(threading.excepthook)],
        "recursion": sys.getrecursionlimit(),
        "locale": __import__("locale").setlocale(__import__("locale").LC_ALL),
    }

import pydantic, typing_extensions
before = state()
sys.addaudithook(watch)
import IMPORTED
found = list(effects)
after = state()
loggers = {
    name: [repr(handler) for handler in logger.handlers] + ([logger.level] if logger.level else [])
    for name, logger in logging.root.manager.loggerDict.items()
    if name.startswith("capset") and isinstance(logger, logging.Logger)
}
print(json.dumps({
    "modules": sorted(sys.modules),
    "effects": found,
    "changed": {key: [before[key], after[key]] for key in before if before[key] != after[key]},
    "loggers": {name: marks for name, marks in loggers.items() if marks},
}))
"""


def imported(module: str, folder: Path) -> dict[str, Any]:
    environment = os.environ | {"HOME": str(folder), "PYTHONPATH": ""}
    environment.pop("PYTHONSTARTUP", None)
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", WATCH.replace("IMPORTED", module)],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1, "importing prints nothing"
    return json.loads(done.stdout)


ALL = ["capset; capset.Kernel", "capset.ext"]
"""The first of the public names to be used loads all of them."""


@pytest.mark.parametrize("module", ALL)
def test_importing_loads_nothing_heavy(module: str, tmp_path: Path) -> None:
    loaded = set(imported(module, tmp_path)["modules"])
    assert {"capset.definitions.tools.definition", "pydantic"} <= loaded
    assert not HEAVY & loaded
    assert not {name for name in loaded if name.startswith(("capset_tools", "capset_cli", "capset.stores.sql"))}


@pytest.mark.parametrize("module", ALL)
def test_importing_has_no_effects(module: str, tmp_path: Path) -> None:
    report = imported(module, tmp_path)
    assert report["effects"] == []
    assert report["changed"] == {}
    assert report["loggers"] == {}
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_there_is_told_as_by_any_module(tmp_path: Path) -> None:
    code = (
        "import sys, capset\n"
        "assert 'pydantic' not in sys.modules, 'nothing is loaded before it is used'\n"
        "assert {'Kernel', 'tool', '__all__', '__doc__'} <= {*dir(capset), '__all__'}\n"
        "from capset import *\n"
        "assert Kernel is capset.Kernel and not hasattr(capset, 'nothing') and not hasattr(capset, '_nothing')\n"
        "from capset import nothing\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("ImportError: cannot import name 'nothing' from 'capset'")


def test_defining_a_tool_with_a_docstring_of_one_line_loads_no_parser(tmp_path: Path) -> None:
    code = (
        "import sys, capset\n"
        "@capset.tool\n"
        "def one(a: int) -> int:\n    'One line.'\n    return a\n"
        "capset.compose(capset.Agent('a', uses=[capset.Capability('c', tools=[one])]))\n"
        "assert 'docstring_parser' not in sys.modules\n"
        "@capset.tool\n"
        "def two(a: int) -> int:\n    'Two.\\n\\n    Args:\\n        a: it\\n    '\n    return a\n"
        "assert 'docstring_parser' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_command_line_loads_no_door_before_it_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys, capset_cli.app\n"
        "assert not {'mcp', 'mcp_types', 'starlette', 'fastapi', 'uvicorn', 'capset_server.mcp'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_mcp_door_needs_nothing_of_the_rest_of_the_server(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['fastapi'] = sys.modules['structlog'] = None\nimport capset_server.mcp"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)

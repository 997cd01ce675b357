"""What every built-in says of itself, and how it is found."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint

import pytest

from capset import Agent, Capability, compose
from scripts.capability_pages import UNTOLD
from scripts.packages import ROOT

READ, WRITE = frozenset({"session_files:read"}), frozenset({"session_files:write"})
KEEP, FIND = frozenset({"memory:write"}), frozenset({"memory:read"})
RESEARCH = frozenset({"research:write"})
NONE = frozenset[str]()
MEMORY = {"remember": ("write", KEEP), "recall": ("read", FIND), "forget": ("destructive", KEEP)}
EXPECTED = {
    "noop": (None, "Testing", {}),
    "current_time": ("clock", "Utilities", {"get_current_time": ("read", NONE)}),
    "test_math": (
        "calculator",
        "Testing",
        dict.fromkeys(("add", "subtract", "multiply", "divide"), ("read", NONE)),
    ),
    "test_weather": ("cloud-sun", "Testing", dict.fromkeys(("get_weather", "get_forecast"), ("read", NONE))),
    "session_file_system": (
        "folder",
        "File Operations",
        {
            "read_file": ("read", READ),
            "write_file": ("write", WRITE),
            "edit_file": ("write", READ | WRITE),
            "move_file": ("write", WRITE),
            "list_directory": ("read", READ),
            "grep_files": ("read", READ),
            "delete_file": ("destructive", WRITE),
            "stat_file": ("read", READ),
        },
    ),
    "stateless_todo_list": ("list-checks", "Productivity", {"write_todos": ("read", NONE)}),
    "syscall": (
        "terminal",
        "System",
        dict.fromkeys(("Syscall_Describe", "Syscall_Ping", "Syscall_List"), ("read", NONE)),
    ),
    "database": ("database", "Data", {"db_query": ("read", frozenset({"database:read"}))}),
    "files": ("file-text", "File Operations", {"file_read": ("read", frozenset({"file:read"}))}),
    "http": ("globe", "Network", {"http_get": ("read", frozenset({"http:read"}))}),
    "web_fetch": ("globe", "Network", {"web_fetch": ("read", frozenset({"http:read"}))}),
    "memory": ("brain", "Memory", MEMORY),
    "memory:user": ("brain", "Memory", MEMORY),
    "research": (
        "search",
        "AI",
        {
            "research_note": ("write", RESEARCH),
            "research_fetch": ("write", RESEARCH | {"http:read"}),
            "research_search": ("read", RESEARCH),
            "research_report": ("read", RESEARCH),
        },
    ),
    "email": ("mail", "Communication", {"email_send": ("external", frozenset({"email:send"}))}),
    "sandbox": ("box", "Execution", {"execute_code": ("destructive", frozenset({"sandbox:execute"}))}),
}

PROJECT = tomllib.loads((ROOT / "packages/capset-tools/pyproject.toml").read_text("utf-8"))["project"]
POINTS: dict[str, str] = PROJECT["entry-points"]["capset.capabilities"]


def installed(name: str) -> Capability:
    capability = EntryPoint(name.replace(":", "_"), POINTS[name.replace(":", "_")], "capset.capabilities").load()
    assert isinstance(capability, Capability)
    return capability


def test_these_are_all() -> None:
    names = {name.replace(":", "_") for name in EXPECTED}
    missing, gone = sorted(POINTS.keys() - names), sorted(names - POINTS.keys())
    assert not missing, f"{missing} of pyproject.toml have no line in EXPECTED of {__name__}"
    assert not gone, f"{gone} in EXPECTED of {__name__} are no entry points of pyproject.toml"


@pytest.mark.spec("G10", "P17")
@pytest.mark.parametrize("name", EXPECTED)
def test_each_is_installed_as_it_is_specified(name: str) -> None:
    capability = installed(name)
    icon, category, tools = EXPECTED[name]
    assert capability.name == name
    assert (capability.status, capability.icon, capability.category) == ("available", icon, category)
    assert {tool.name: (tool.effect, tool.permissions) for tool in capability.every_tool} == tools
    assert capability.title
    assert capability.description
    instructions = [text for part in capability.parts.values() for text in part.instructions]
    message = f"a built-in without instructions, and no other, stands in UNTOLD of scripts/capability_pages.py: {name}"
    assert bool(instructions) is (name not in UNTOLD), message


@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_is_told_what_every_parameter_and_result_field_is(name: str) -> None:
    for tool in installed(name).every_tool:
        assert "Use it" in tool.description
        assert tool.arguments.json_schema["additionalProperties"] is False
        assert all(field["description"] for field in tool.arguments.json_schema["properties"].values())
        if tool.type == "Syscall.Ping":  # whose result is any JSON value
            continue
        assert tool.output.json_schema["type"] == "object"
        assert tool.output.json_schema["properties"]


@pytest.mark.parametrize("name", EXPECTED)
def test_handlers_share_the_event_loop(name: str) -> None:
    assert {tool.shape for tool in installed(name).every_tool} <= {"async", "processor"}


@pytest.mark.spec("P17")
def test_all_of_them_fit_into_one_agent() -> None:
    every = [installed(name) for name in EXPECTED if name != "memory:user"]
    composition = compose(Agent("all", uses=[*every, installed("memory:user").with_names(prefix="user_")]))
    assert composition.static_hash


@pytest.mark.realtime
def test_loading_them_loads_no_library_that_only_some_need() -> None:
    code = (
        "import sys; from importlib import import_module\n"
        f"for point in {list(POINTS.values())}: import_module(point.partition(':')[0])\n"
        "heavy = {'re2', 'httpcore2', 'httpx2', 'brotli', 'aiosmtplib', 'html_to_markdown', 'charset_normalizer'}\n"
        "assert not (heavy | {'pydantic_monty'}) & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

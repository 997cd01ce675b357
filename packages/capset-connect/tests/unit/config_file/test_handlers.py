"""How handler files are loaded (spec 4, G27, G28)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from capset import Kernel, Principal
from capset.errors import DefinitionError
from tests.helpers.connect.config_file.support import read, refused

ACTION = "actions:\n- {name: a, title: A, permissions: [], handler: HANDLER}\n"


@pytest.mark.spec("G28", "T21")
def test_a_handler_file_enters_neither_the_path_nor_the_names_of_others(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def handler(params): return 1", encoding="utf-8")
    before, path = set(sys.modules), list(sys.path)
    json = sys.modules["json"]
    tool = read(tmp_path, ACTION.replace("HANDLER", "./json.py")).tools[0]
    assert tool.handler() == 1
    assert (sys.path, sys.modules["json"]) == (path, json)
    below = {
        name for name in set(sys.modules) - before if str(tmp_path) in str(getattr(sys.modules[name], "__file__", ""))
    }
    assert len(below) == 1
    assert all(name.startswith("_capset_configuration_") for name in below)
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.spec("G28")
def test_what_a_refused_file_loaded_is_taken_back(tmp_path: Path) -> None:
    refused(tmp_path, ACTION.replace("HANDLER", "./handlers/weather.py") + "  \n- {name: b}\n")
    assert not [module for module in sys.modules.values() if str(tmp_path) in str(getattr(module, "__file__", ""))]


@pytest.mark.spec("G27")
async def test_a_handler_may_be_a_tool_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from capset import Context, tool\n"
        "@dataclass\n"
        "class Sum:\n"
        "    value: int\n"
        "@tool(effect='read', permissions={'sums:read'})\n"
        "async def add(ctx: Context, a: int, b: int = 1) -> Sum:\n"
        "    'Add.'\n"
        "    return Sum(a + b)\n",
        encoding="utf-8",
    )
    text = "actions:\n- {name: add-up, permissions: [sums:more], limits: 5/1m, handler: './tools.py:add'}\n"
    (tool,) = read(tmp_path, text).tools
    assert (tool.name, tool.description, tool.effect) == ("add-up", "Add.", "read")
    assert tool.permissions == {"sums:read", "sums:more"}
    assert (tool.version or "").startswith("sha256:")
    principal = Principal("ada", permissions=["sums:read", "sums:more"])
    agent = read(tmp_path, text).agent
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=principal) as session:
        result = await session.try_message(session.message("add-up", {"a": 2}))
        assert result.data == {"value": 3}
    ((_, path, message),) = refused(tmp_path, text.replace("limits: 5/1m", "effect: read"))
    assert path == "actions.0.effect"
    assert "defines its own effect" in message


@pytest.mark.spec("G27")
def test_a_handler_may_be_of_an_installed_package(tmp_path: Path) -> None:
    (tool,) = read(tmp_path, ACTION.replace("HANDLER", "'json:dumps'")).tools
    assert tool.handler(a=1) == '{"a": 1}'
    assert tool.version is None


def test_one_file_is_run_once_however_many_actions_name_it(tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text("ran = []\ndef one(params): return ran\ntwo = one\nran.append(1)", encoding="utf-8")
    text = "actions:\n" + "".join(
        f"- {{name: {name}, title: T, permissions: [], handler: './h.py:{name}'}}\n" for name in ("one", "two")
    )
    first, second = read(tmp_path, text).tools
    assert first.handler() is second.handler()
    assert first.handler() == [1]


def test_a_file_is_of_a_known_kind_and_size(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="a configuration file ends in"):
        read(tmp_path, "", "a.ini")
    with pytest.raises(DefinitionError, match="at most 1048576 bytes"):
        read(tmp_path, "#" * 1_048_577)

"""How public MCP servers are compared with themselves behind the gateway, on servers of our own."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lab.mcpservers.__main__ import SERVERS, ServerReport, compare, report
from lab.mcpservers.comparison import difference, first_difference, shape_of
from lab.mcpservers.packages import LIST, PublicServer

ODD = Path(__file__).with_name("odd_server.py")


def odd(folder: Path, name: str, kind: str, **options: Any) -> PublicServer:
    return PublicServer(name, "our own", (sys.executable, str(ODD), kind), folder / "worlds" / name, **options)


@pytest.mark.realtime
@pytest.mark.spec("M7")
async def test_results_at_the_gateway_are_the_direct_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = [odd(tmp_path, name, "whole", values={"text": name}) for name in ("one", "two")]
    rows = await compare(servers, tmp_path)
    for row in rows:
        assert (row.problem, row.refused, row.different) == ("", {}, {})
        assert (row.revision, row.printed, row.same, row.changing) == ("2025-03-26", 1, 3, 1)
    assert report(rows, seconds=1.0, is_whole=False)
    assert not report(rows, seconds=61.0, is_whole=False)
    assert not report(rows, seconds=1.0, is_whole=True), "there are two servers"
    printed = capsys.readouterr().out
    for peculiarity in ("speaks 2025-03-26", "prints to its standard output", "sends images"):
        assert f"met     a server {peculiarity}" in printed
    assert "met     an argument is a text, and null by default" in printed


@pytest.mark.realtime
async def test_a_tool_without_a_schema_is_refused_with_its_own_reason(tmp_path: Path) -> None:
    (row,) = await compare([odd(tmp_path, "odd", "broken", skipped={"fail": "it fails"})], tmp_path)
    assert list(row.refused) == ["broken"]
    assert row.refused["broken"]
    assert (row.same, row.changing, row.different) == (2, 1, {})


@pytest.mark.realtime
async def test_a_server_that_does_not_start_costs_no_other(tmp_path: Path) -> None:
    absent = PublicServer("absent", "none", (str(tmp_path / "absent"),), tmp_path / "worlds" / "absent")
    first, second = await compare([absent, odd(tmp_path, "odd", "whole")], tmp_path)
    assert (bool(first.problem), second.problem, second.same) == (True, "", 3)
    assert not report([first, second], seconds=1.0, is_whole=False)


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


def test_only_names_may_differ_in_results() -> None:
    names = {"odd_draw": "draw"}
    assert difference(text("See draw"), text("See odd_draw", _meta={"dev.capset/record": "1"}), names) is None
    assert difference(text("See draw"), text("See it"), names) == '.content[0].text is "See it", not "See draw"'
    assert difference(text("a"), text("a", structuredContent={"a": 1}), {}) is not None
    assert difference(text("a", _meta={"ui": 1}), text("a"), {}) == "._meta.ui is missing"
    assert difference(text("a"), {"content": [*text("a")["content"], *text("b")["content"]]}, {}) is not None
    assert difference(text("1"), text("1", isError=True), {}) is not None


def test_an_error_at_the_gateway_says_what_the_server_said() -> None:
    failed = text("there is no such book", isError=True)
    assert difference(failed, text("there is no such book\ncode: tool_error", isError=True), {}) is None
    assert difference(failed, text("it failed", isError=True), {}) is not None
    assert difference(failed, text("there is no such book"), {}) is not None
    structured = {"content": [], "structuredContent": {"reason": "no room"}, "isError": True}
    assert difference(structured, text('{"reason": "no room"}', isError=True), {}) is None


def test_the_shape_of_a_changing_result_stays() -> None:
    assert first_difference(shape_of({"a": [1, "x"]}), shape_of({"a": [2, "y"]})) is None
    assert first_difference(shape_of({"a": [1, "x"]}), shape_of({"a": ["2", "y"]})) is not None
    assert first_difference(1, True) is not None


def test_a_tool_that_is_missing_without_a_reason_fails(tmp_path: Path) -> None:
    row = ServerReport(odd(tmp_path, "odd", "whole"), different={"shout": "it is missing"})
    assert not report([row], seconds=1.0, is_whole=False)


def test_the_list_has_twenty_servers_of_exact_versions() -> None:
    declared = tomllib.loads(LIST.read_text(encoding="utf-8"))
    assert len(declared) == SERVERS
    for entry in declared.values():
        assert ("npm" in entry) != ("pypi" in entry)
        assert re.fullmatch(r"\d+(\.\d+)+", entry["version"])
        assert "" not in entry.get("skipped", {}).values()

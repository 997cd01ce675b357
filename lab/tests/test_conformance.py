"""How the results of the MCP conformance suite, as it leaves them, are held against what is expected."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.conformance import suite
from lab.conformance.client import Scenario, answering, play
from lab.conformance.server import TOOLS
from lab.conformance.verdicts import Verdict, expectations, judge, read_results, unused
from tests.helpers.connect.mcp.urls import books, serving


def leave(root: Path, scenario: str, *checks: tuple[str, str] | tuple[str, str, str], prefix: str = "server-") -> Path:
    folder = root / f"{prefix}{scenario}-2026-11-21T11-57-19-003Z"
    folder.mkdir(parents=True)
    fields = [dict(zip(("id", "status", "errorMessage"), check, strict=False)) for check in checks]
    (folder / "checks.json").write_text(json.dumps(fields), encoding="utf-8")
    return folder


def verdicts(root: Path, *expected: str) -> dict[str, Verdict]:
    return {name: judge(name, checks, frozenset(expected)) for name, checks in read_results(root).items()}


def test_what_passes_is_ok_and_what_is_skipped_is_no_fault(tmp_path: Path) -> None:
    leave(tmp_path, "tools-list", ("a", "SUCCESS"), ("b", "SKIPPED"), ("c", "INFO"))
    verdict = verdicts(tmp_path)["tools-list"]
    assert (verdict.word, verdict.said, verdict.wrong) == ("ok", "1 passed", ())


@pytest.mark.parametrize("status", ["FAILURE", "WARNING"])
def test_a_failure_and_a_warning_are_wrong_unless_expected(tmp_path: Path, status: str) -> None:
    leave(tmp_path, "ping", ("a", "SUCCESS"), ("b", status, "no pong"))
    verdict = verdicts(tmp_path, "ping:c", "pong:b")["ping"]
    assert (verdict.word, verdict.wrong) == ("FAILED", ("ping:b fails: no pong",))
    verdict = verdicts(tmp_path, "ping:b")["ping"]
    assert (verdict.word, verdict.said, verdict.wrong) == ("expected", "1 passed, 1 failed as expected", ())


def test_what_is_expected_to_fail_must_fail(tmp_path: Path) -> None:
    leave(tmp_path, "ping", ("a", "SUCCESS"), ("b", "SKIPPED"))
    verdict = verdicts(tmp_path, "ping:a", "ping:b")["ping"]
    assert (verdict.word, verdict.wrong) == ("FAILED", ("ping:a passes: it is expected to fail",))


def test_an_expected_failure_excuses_no_other_of_its_scenario(tmp_path: Path) -> None:
    leave(tmp_path, "ping", ("a", "FAILURE", "bad"), ("b", "FAILURE"))
    verdict = verdicts(tmp_path, "ping:a")["ping"]
    assert (verdict.word, verdict.wrong) == ("FAILED", ("ping:b fails: FAILURE",))


def test_a_check_that_stands_twice_counts_as_its_gravest(tmp_path: Path) -> None:
    leave(tmp_path, "ping", ("a", "SUCCESS"), ("a", "FAILURE", "bad"), ("a", "SUCCESS"))
    assert verdicts(tmp_path)["ping"].wrong == ("ping:a fails: bad",)


def test_a_scenario_without_checks_is_wrong(tmp_path: Path) -> None:
    leave(tmp_path, "ping")
    assert verdicts(tmp_path)["ping"].wrong == ("ping checks nothing",)


def test_an_expectation_that_nothing_meets_is_told(tmp_path: Path) -> None:
    leave(tmp_path, "ping", ("a", "FAILURE"), ("b", "SKIPPED"))
    expected = frozenset({"ping:a", "ping:b", "gone:a"})
    assert unused(expected, [judge("ping", read_results(tmp_path)["ping"], expected)]) == ["gone:a", "ping:b"]


def test_a_folder_that_is_none_of_a_scenario_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/checks.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="no folder of a scenario: other"):
        read_results(tmp_path)


@pytest.mark.parametrize("side", suite.SIDES)
def test_every_expectation_stands_once_and_names_one_check(side: suite.Side) -> None:
    expected_failures: list[Any] = yaml.safe_load((TOOLS / "expected-failures.yaml").read_text(encoding="utf-8"))[side]
    assert sorted(expected_failures) == sorted(expectations(TOOLS / "expected-failures.yaml", side))
    assert [check for check in expected_failures if len(check.split(":")) != 2] == []


def test_required_scenarios_are_those_that_the_suite_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "PACKAGE", tmp_path)
    (tmp_path / "requirements").mkdir()
    requirements = {"server": ["ping", "tools-list"], "client": ["initialize"], "not_scored": []}
    (tmp_path / "requirements" / "2026-07-28.yaml").write_text(yaml.safe_dump(requirements), encoding="utf-8")
    assert suite.required("server", "2026-07-28") == ("ping", "tools-list")
    assert suite.required("client", "2026-07-28") == ("initialize",)
    assert suite.required("server", "2025-03-26") == ()


def test_scenarios_of_a_client_are_in_folders_of_their_own(tmp_path: Path) -> None:
    leave(tmp_path, "auth/basic", ("a", "FAILURE"), prefix="")
    leave(tmp_path, "tools_call", ("a", "SUCCESS"), prefix="")
    assert list(read_results(tmp_path)) == ["auth/basic", "tools_call"]


def test_a_client_that_failed_where_the_suite_finds_no_fault_is_wrong(tmp_path: Path) -> None:
    for scenario, status, error in (("quiet", "SKIPPED", "no\n"), ("told", "FAILURE", "no\n"), ("well", "SUCCESS", "")):
        (leave(tmp_path, scenario, ("a", status), prefix="") / "stderr.txt").write_text(error, encoding="utf-8")
    by_scenario = verdicts(tmp_path, "told:a")
    assert {name: verdict.wrong for name, verdict in by_scenario.items()} == {
        "quiet": ("quiet:client-error fails: no",),
        "told": (),
        "well": (),
    }


@pytest.mark.realtime
@pytest.mark.spec("M18")
async def test_what_the_suite_runs_as_its_client_calls_the_tools_of_its_server(tmp_path: Path) -> None:
    async def run(command: str, url: str, calls: Any) -> tuple[int | None, str]:
        environ = {
            "MCP_CONFORMANCE_SCENARIO": "tools_call",
            "MCP_CONFORMANCE_CONTEXT": json.dumps({"toolCalls": calls}),
        }
        process = await asyncio.create_subprocess_shell(f"{command} {url}", env=environ, stderr=asyncio.subprocess.PIPE)
        _, error_output = await process.communicate()
        return process.returncode, error_output.decode().strip()

    async with serving(books()) as server, answering(tmp_path) as command:
        good = {"name": "title", "arguments": {"number": 1, "other": None}}
        assert await run(command, server.url, [good]) == (0, "")
        bad = {"name": "title", "arguments": {"number": "one"}}
        code, message = await run(command, server.url, [bad, good])
        assert code == 1
        assert message.startswith("title: Invalid arguments for 'suite_title': number:")
        assert sum(headers.get("mcp-method") == "tools/call" for headers in server.headers) == 2
    assert "cannot be reached" in await play(Scenario("tools_call", server.url, {}))

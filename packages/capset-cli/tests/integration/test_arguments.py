"""``--args``: whatever comes, from wherever it comes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from capset_cli.common.options import MAX_ARGUMENT_BYTES
from tests.helpers.cli.support import Command, Run

ADD = ("call", "test_math.add", "--json", "--args")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--args is not JSON"),
        ("{", "--args is not JSON"),
        ('{"a": 1,}', "--args is not JSON"),
        ("{'a': 1}", "--args is not JSON"),
        ('{"a": NaN, "b": 1}', "--args is not JSON"),
        ('{"a": Infinity, "b": 1}', "--args is not JSON"),
        ('{"a": 1, "b": 2} {}', "--args is not JSON"),
        ('{"a": "\\ud800"}', "--args is not JSON"),
        ("5", "must be a JSON object, such as {}; got int"),
        ("[1, 2]", "must be a JSON object, such as {}; got list"),
        ("null", "must be a JSON object"),
        ('"@file"', "must be a JSON object"),
        ('{"a":' * 5_000 + "1" + "}" * 5_000, "recursion limit exceeded"),
        ("[" * 100_000, "recursion limit exceeded"),
    ],
)
def test_what_is_no_json_object_is_bad_input_and_no_attempt(text: str, message: str, run: Run) -> None:
    done = run(*ADD, text)
    assert done.code == 2
    assert message in done.json["error"]["message"]
    assert done.json["error"]["status"] == 422
    assert not Path("capset.db").exists(), "nothing was tried, so there is nothing to keep"


@pytest.mark.spec("G11", "G12")
@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, {"a": "required, but missing", "b": "required, but missing"}),
        ({"a": True, "b": "5"}, {"a": "Input should be a finite number", "b": "Input should be a finite number"}),
        ({"a": 1, "b": 2, "c": 3}, {"c": "no such parameter"}),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_every_field(
    arguments: dict[str, object], fields: dict[str, str], run: Run
) -> None:
    done = run(*ADD, json.dumps(arguments))
    assert done.code == 3
    assert (done.json["error"]["code"], done.json["error"]["status"]) == ("invalid_arguments", 422)
    assert {field["path"]: field["expected"] for field in done.json["error"]["fields"]} == fields


def test_a_number_too_large_for_json_readers_is_refused_not_rounded_to_infinity(run: Run) -> None:
    assert run(*ADD, '{"a": 1e400, "b": 1}').code == 3
    exact = run(*ADD, '{"a": 9007199254740993, "b": 0}')
    assert exact.json["data"]["result"] == 9007199254740993


def test_a_file_and_stdin_give_arguments_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text('{"a": 1, "b": 2}', encoding="utf-8")
    assert run(*ADD, "@args.json").json["data"]["result"] == 3
    assert run(*ADD, "-", stdin='{"a": 4, "b": 5}').json["data"]["result"] == 9


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@missing.json", "'missing.json' cannot be read: No such file or directory"),
        ("@folder", "'folder' cannot be read: Is a directory"),
        ("@", "'' cannot be read: Is a directory"),
        ("@latin1.json", "--args is not JSON"),
        ("-", "--args is not JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_bad_input(source: str, message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin1.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    done = run(*ADD, source, stdin="")
    assert done.code == 2
    assert message in done.json["error"]["message"]


def test_arguments_without_end_are_refused_before_they_are_parsed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "huge.json").write_bytes(b" " * (MAX_ARGUMENT_BYTES + 1))
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    for source in ("@huge.json", "@endless.json"):
        done = run(*ADD, source)
        assert done.code == 2
        assert "at most 16777216 bytes" in done.json["error"]["message"]


def test_what_is_no_text_is_bad_input(capset: Command) -> None:
    noise = os.fsdecode(b"\xff\xfe")
    assert capset("call", "test_math.add", "--args", '{"a": 1, "b": 2}').code == 0, "there is a database to look in"
    for arguments in (
        ("audit", "query", "--tool", noise, "--json"),
        (*ADD, f'{{"a": "{noise}"}}'),
        ("call", f"{noise}.add", "--json"),
        ("call", "test_math.add", "--session", noise, "--json"),
        ("call", "test_math.add", "--principal", noise, "--json"),
        ("describe", noise, "--json"),
        ("compose", f"{noise}.yaml", "--json"),
    ):
        done = capset(*arguments)
        assert (done.code, done.json["success"], done.err) == (2, False, ""), arguments


@pytest.mark.realtime
def test_stdin_that_is_closed_is_empty(capset: Command) -> None:
    with capset.start(*ADD, "-", stdin=None, preexec_fn=lambda: os.close(0)) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "")
    assert "--args is not JSON" in json.loads(out)["error"]["message"]

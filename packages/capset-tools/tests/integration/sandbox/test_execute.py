"""What a run gives: output, value, errors; and that nothing of it is there in the next (spec 5, P18)."""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.util import find_spec

import pytest
from pydantic import ValidationError

from capset.errors import InvalidArguments, PermissionDenied, ToolError
from capset.extras import install_command
from capset_tools.sandbox import SandboxConfig
from tests.helpers.tools.sandbox.support import PYTHONS, box, execute_code, run

pytestmark = pytest.mark.realtime


@pytest.mark.spec("P18")
@pytest.mark.parametrize("python", PYTHONS)
async def test_python_gives_what_it_prints_and_the_value_of_the_last_line(python: str) -> None:
    async with box(python) as desk:
        result = await run(desk.session, python, "import sys\nprint('hi', 'ü')\nprint('no', file=sys.stderr)\n[1, 'a']")
    assert (result["stdout"], result["stderr"], result["value"]) == ("hi ü\n", "no\n", "[1, 'a']")
    assert (result["exit_code"], result["error"], result["stopped"], result["truncated"]) == (0, None, None, False)
    assert result["duration_ms"] >= 0


@pytest.mark.spec("P18")
async def test_bash_gives_what_it_prints_and_its_status() -> None:
    async with box("bash") as desk:
        result = await run(desk.session, "bash", "echo hi | tr a-z A-Z; echo ü; nowhere; exit 3")
    assert (result["stdout"], result["exit_code"]) == ("HI\nü\n", 3)
    assert "nowhere: command not found" in result["stderr"]
    assert (result["value"], result["error"], result["stopped"]) == (None, None, None)


@pytest.mark.spec("P18", "G24")
@pytest.mark.parametrize("python", PYTHONS)
async def test_an_error_of_the_code_is_a_result_with_places_in_the_code_alone(python: str) -> None:
    async with box(python) as desk:
        raised = await run(desk.session, python, "def f():\n    return 1 / 0\nprint('before')\nf()")
        unread = await run(desk.session, python, "x = (")
    assert raised["stdout"] == "before\n"
    assert raised["exit_code"] == 1
    assert raised["error"] is not None
    assert "line 2, in f" in raised["error"]
    assert raised["error"].endswith("ZeroDivisionError: division by zero")
    assert "SyntaxError" in str(unread["error"])
    assert "site-packages" not in repr((raised, unread))


@pytest.mark.spec("P18", "G24")
async def test_a_script_that_bash_cannot_read_is_a_result_with_its_words() -> None:
    async with box("bash") as desk:
        result = await run(desk.session, "bash", "echo 'open")
    assert "unexpected EOF" in result["stderr"]
    assert (result["exit_code"], result["error"], result["stopped"]) == (2, None, None)


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    "words",
    ["TimeoutError('feed time limit exceeded: 9s > 1s')", "MemoryError('the worker exceeded its memory limit')"],
)
@pytest.mark.parametrize("python", PYTHONS)
async def test_the_words_of_a_limit_that_was_not_hit_are_an_error_like_any_other(words: str, python: str) -> None:
    async with box(python) as desk:
        result = await run(desk.session, python, f"open('/f', 'w').write('1')\nraise {words}")
    assert (result["exit_code"], result["stopped"], result["files"]["created"]) == (1, None, ["/f"])
    assert "limit" in str(result["error"])


@pytest.mark.spec("P18")
@pytest.mark.parametrize("python", PYTHONS)
async def test_nothing_of_a_run_is_there_in_the_next(python: str) -> None:
    async with box(python) as desk:
        await run(
            desk.session, python, "import os\nx = 1\nos.mkdir('/q')\nos.chdir('/q')\nopen('/tmp/t', 'w').write('1')"
        )
        second_run = await run(desk.session, python, "import os\nprint(os.getcwd(), os.listdir('/tmp'), os.environ)\nx")
    assert second_run["stdout"].startswith("/ [] ")
    assert "CAPSET" not in second_run["stdout"]
    assert "NameError" in str(second_run["error"])


@pytest.mark.spec("P18")
async def test_nothing_of_a_script_is_there_in_the_next() -> None:
    async with box("bash") as desk:
        await run(
            desk.session, "bash", "v=1; f() { echo f; }; mkdir -p /d; cd /d; echo t > /tmp/t; export E=1; alias a=ls"
        )
        after = await run(desk.session, "bash", 'echo "[$v$E]" $PWD; f; ls /tmp; ls /dev; alias')
    assert after["stdout"].splitlines()[0] == "[] /"
    assert "f: command not found" in after["stderr"]
    assert "\nt\n" not in after["stdout"]


@pytest.mark.spec("P18", "G20")
async def test_a_result_is_on_record_with_the_digest_of_its_code() -> None:
    code = "# long\n" * 1_000 + "1 + 1"
    async with box() as desk:
        result = await run(desk.session, "python", code)
        (record,) = await desk.records(tool="execute_code")
    recorded = json.loads(record.arguments)
    assert result["code_sha256"] == recorded["code#sha256"] == sha256(code.encode()).hexdigest()
    assert len(recorded["code"]) < len(code)
    assert (record.effect, record.outcome) == ("destructive", "succeeded")


@pytest.mark.spec("G10", "P18")
async def test_running_code_needs_its_own_permission() -> None:
    async with box(permissions=["session_files:read", "session_files:write"]) as desk:
        result = await desk.session.try_call(execute_code, language="bash", code="echo hi")
    assert isinstance(result.error, PermissionDenied)


@pytest.mark.spec("P18")
@pytest.mark.parametrize("arguments", [{"language": "perl", "code": "1"}, {"language": "bash", "code": "x" * 300_000}])
async def test_other_languages_and_too_much_code_are_refused(arguments: dict[str, str]) -> None:
    async with box() as desk:
        result = await desk.session.try_call(execute_code, **arguments)
    assert isinstance(result.error, InvalidArguments)


@pytest.mark.spec("P18")
async def test_without_the_extra_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "capset_tools.sandbox.backends.find_spec"
    monkeypatch.setattr(missing, lambda name: None if name == "pydantic_monty" else find_spec(name))
    async with box("monty") as desk:
        result = await desk.session.try_call(execute_code, language="python", code="1")
        system_text = await desk.session.system_text()
    assert isinstance(result.error, ToolError)
    assert (result.error.code, result.error.status) == ("not_installed", 501)
    assert "the extra 'sandbox'" in result.error.message
    assert result.error.message in system_text
    assert result.error.hint == install_command("sandbox")


@pytest.mark.spec("P18")
@pytest.mark.parametrize("python", PYTHONS)
async def test_what_is_too_long_is_cut_between_characters_and_the_run_goes_on(python: str) -> None:
    async with box(python, output_bytes=1_000) as desk:
        printed = await run(desk.session, python, "print('€' * 400)\nopen('/a', 'w').write('1')\n'v' * 5000")
        raised = await run(desk.session, python, "raise ValueError('€' * 400)")
        assert [file.path for file in await desk.session.files.list()] == ["/a"]
    assert printed["stdout"] == "€" * 333
    assert printed["value"] == "'" + "v" * 999
    assert len(str(raised["error"]).encode()) <= 1_000
    assert all(outcome["truncated"] and outcome["stopped"] is None for outcome in (printed, raised))


@pytest.mark.spec("P18")
async def test_what_bash_prints_is_cut_in_each_stream_and_the_run_goes_on() -> None:
    async with box("bash", output_bytes=1_000) as desk:
        echoed = await run(desk.session, "bash", "seq 1 500; echo 1 > /b; seq 1 500 >&2")
        assert [file.path for file in await desk.session.files.list()] == ["/b"]
    assert len(echoed["stdout"]) == len(echoed["stderr"]) == 1_000
    assert (echoed["truncated"], echoed["stopped"]) == (True, None)


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("seconds", (0, 301, float("nan"))),
        ("memory_bytes", (1 << 20, 1 << 40)),
        ("output_bytes", (10, 1 << 30)),
        ("max_files", (0, 100_000)),
        ("max_bytes", (0, 1 << 40)),
        ("network", (True,)),
    ],
)
def test_every_limit_has_a_highest_value(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(ValidationError):
            SandboxConfig.model_validate({name: value})
    assert SandboxConfig().limits["seconds"] == 10

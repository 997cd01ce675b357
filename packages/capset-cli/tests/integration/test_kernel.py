"""``capset kernel``: a real process, and lines at its standard streams."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.helpers.cli.foundry import cause, message, outcomes, pour, running, served
from tests.helpers.cli.processes import closed
from tests.helpers.cli.support import Command, Run


@pytest.mark.realtime
@pytest.mark.spec("K3", "K8", "K11")
def test_a_message_is_answered_in_its_own_words_and_on_record(foundry: Command) -> None:
    answers, done = served(foundry, pour(2, id="a"))
    assert [(answer["kind"], answer["type"], answer["data"]) for answer in answers] == [
        ("event", "Foundry.Ladle", "0x"),
        ("event", "Foundry.Ladle", "1x"),
        ("reply", "Foundry.Poured", 2),
    ]
    assert {cause(answer) for answer in answers} == {answer["meta"]["correlation"] for answer in answers} == {"a"}
    assert len({answer["meta"]["id"] for answer in answers}) == 3
    assert done.code == 0
    session = done.err.split()[-1]
    assert done.err == f"serving founder as local, session {session}\n"
    assert outcomes(foundry.folder) == [("pour", "succeeded")]
    resumed = foundry("kernel", "--session", session, stdin=message("echo", {"text": "é\u2028"}, kind="query"))
    assert json.loads(resumed.out)["data"] == "é\u2028"


@pytest.mark.realtime
@pytest.mark.spec("K2", "K12")
def test_what_is_refused_is_an_error_and_the_stream_goes_on(foundry: Command) -> None:
    answers, done = served(
        foundry,
        message("Foundry.Por", {}, "typo"),
        message("echo", {"text": 5}, "misfit", kind="query"),
        message("echo", {"text": "x"}, "kind"),
        message("foundry.refuse", {"text": "No."}, "no", kind="query", correlation="c", traceparent="00-0af-b7-01"),
        message("echo", {"text": "late"}, "late", kind="query", deadline=1),
    )
    errors = {cause(answer): answer for answer in answers}
    assert {name: (answer["kind"], answer["data"]["status"]) for name, answer in errors.items()} == {
        "typo": ("error", 404),
        "misfit": ("error", 422),
        "kind": ("error", 422),
        "no": ("error", 409),
        "late": ("error", 504),
    }
    assert "did you mean 'Foundry.Pour'?" in errors["typo"]["data"]["message"]
    assert errors["misfit"]["data"]["fields"] == [{"path": "text", "expected": "Input should be a valid string"}]
    assert errors["no"]["data"]["code"] == "refused_politely"
    assert errors["no"]["meta"]["correlation"] == errors["no"]["data"]["correlation"] == "c"
    assert errors["no"]["meta"]["traceparent"] == "00-0af-b7-01"
    assert done.code == 0
    assert len(outcomes(foundry.folder)) == 5


@pytest.mark.realtime
@pytest.mark.spec("K12")
def test_kinds_that_no_tool_takes_pass_through_untouched(foundry: Command) -> None:
    lines = ['{"kind": "event",  "type":"x", "data": 1.00}', '{"type":"y:z","kind":"reply","meta":{"id":"1"}}']
    done = foundry("kernel", "--agent", "founder", stdin="\n".join(lines))
    assert done.out.splitlines() == lines


@pytest.mark.realtime
@pytest.mark.spec("K3")
def test_lines_that_are_no_messages_are_told_and_the_next_are_read(foundry: Command) -> None:
    good = message("echo", {"text": "x" * 300}, "good", kind="query")
    lines = [
        "",
        "nonsense",
        '{"kind":"query","type":"echo","meta":{"id":"i","x":1}}',
        '"' + "x" * 3_000_000 + '"',
        good,
    ]
    answers, done = served(foundry, *lines, options=("--max-line", str(len(good))))
    assert [(answer["kind"], answer["data"]["status"]) for answer in answers[:3]] == [
        ("error", 400),
        ("error", 422),
        ("error", 413),
    ]
    assert cause(answers[1]) == "i"
    assert (answers[3]["kind"], cause(answers[3]), answers[3]["data"]) == ("reply", "good", "x" * 300)
    assert done.code == 0


@pytest.mark.realtime
@pytest.mark.spec("K8")
def test_calls_run_beside_each_other_up_to_a_limit(foundry: Command) -> None:
    lines = (message("await_other", {}, "one", kind="query"), message("come", {}, "other"))
    answers, _ = served(foundry, *lines)
    assert {cause(answer): answer["data"] for answer in answers} == {"one": "met", "other": "came"}
    answers, _ = served(foundry, *lines, options=("--limit", "1", "--timeout", "0.5"))
    assert [(cause(answer), answer["kind"]) for answer in answers] == [("one", "error"), ("other", "reply")]
    assert answers[0]["data"]["status"] == 504


@pytest.mark.realtime
@pytest.mark.spec("K8", "K14")
def test_a_thousand_messages_each_in_its_own_order(foundry: Command) -> None:
    answers, done = served(foundry, *[pour(number % 3, id=str(number)) for number in range(1000)], timeout=110)
    by_cause: dict[str | None, list[object]] = {}
    for answer in answers:
        by_cause.setdefault(cause(answer), []).append(answer["data"])
    expected = {str(number): [*[f"{index}x" for index in range(number % 3)], number % 3] for number in range(1000)}
    assert by_cause == expected
    assert done.code == 0
    assert outcomes(foundry.folder) == [("pour", "succeeded")] * 1000


@pytest.mark.realtime
@pytest.mark.spec("K3")
def test_each_answer_comes_at_once(foundry: Command) -> None:
    with running(foundry) as kernel:
        for text in ("a", "b"):
            kernel.send(message("echo", {"text": text}, text, kind="query"))
            assert kernel.receive()["data"] == text
        assert kernel.end()[:2] == (0, "")


@pytest.mark.realtime
def test_stdout_has_nothing_but_messages_whatever_a_handler_prints(foundry: Command) -> None:
    answers, done = served(foundry, message("shout", {}))
    assert [answer["data"] for answer in answers] == ["done"], "a handler's stdin is empty"
    for word in ("PRINTED", "WRITTEN", "ECHOED"):
        assert word in done.err


@pytest.mark.realtime
def test_permissions_and_environment_are_those_of_the_settings(foundry: Command) -> None:
    (foundry.folder / "clerk.yaml").write_text("name: clerk\ncapabilities: [session_file_system]\n", encoding="utf-8")
    query = message("read_file", {"path": "/a"}, kind="query")
    refused = foundry("kernel", "--agent", "clerk.yaml", stdin=query)
    assert json.loads(refused.out)["data"]["status"] == 403
    let = foundry("kernel", "--agent", "clerk.yaml", "--grant", "session_files:read", "--principal", "ada", stdin=query)
    assert json.loads(let.out)["data"]["code"] == "file_error"
    assert "serving clerk as ada" in let.err


@pytest.mark.nightly
def test_streams_that_are_closed_are_nobody(foundry: Command) -> None:
    assert foundry("kernel", "--agent", "founder", **closed(0)).code == 0
    done = foundry("kernel", "--agent", "founder", stdin=pour(1), **closed(1))
    assert (done.code, outcomes(foundry.folder)) == (0, [("pour", "succeeded")])


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "name an agent with --agent, or a session to continue with --session"),
        (("--agent", "founder", "--session", "x"), "give --agent or --session, not both"),
        (("--agent", "fonder"), "did you mean 'founder'?"),
        (("--session", "0" * 36), "there is no database"),
        (("--agent", "founder", "--timeout", "0"), "--timeout must be a positive number of seconds"),
        (("--agent", "founder", "--consumer-timeout", "nan"), "--consumer-timeout must be a positive number"),
        (("--agent", "founder", "--limit", "0"), "--limit"),
        (("--agent", "founder", "--max-line", "0"), "--max-line"),
    ],
)
def test_bad_usage_is_2_and_makes_no_database(arguments: tuple[str, ...], expected: str, foundry: Command) -> None:
    done = foundry("kernel", *arguments, stdin="")
    assert (done.code, done.out) == (2, "")
    assert expected in done.said
    assert not (foundry.folder / "capset.db").exists()


@pytest.mark.realtime
def test_an_output_without_room_is_one_line_and_1(foundry: Command) -> None:
    with open("/dev/full", "w") as full, running(foundry, stdout=full, stdin=subprocess.PIPE) as kernel:  # noqa: PTH123
        kernel.send(message("echo", {"text": "x"}, kind="query"))
        code, _, err = kernel.end()
    assert code == 1
    assert err.endswith("error: No space left on device\n")


def test_help_names_it(run: Run) -> None:
    assert "kernel" in run("--help").out
    assert run("kernel", "--help").code == 0

"""How ``capset kernel`` ends: by signals, by kills, by readers who stop or leave. What began is on record (K17)."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable

import pytest

from tests.helpers.cli.foundry import cause, message, outcomes, pour, running, settled
from tests.helpers.cli.support import Command

LONG = message("wait", {"seconds": 60}, "long")
PIPE = 65536
"""Bytes that a pipe holds."""
Ends = Callable[[], tuple[int, int]]


def connected() -> tuple[int, int]:
    """Return the ends of a pair of sockets, which is what Node gives its children."""
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


@pytest.mark.realtime
@pytest.mark.spec("K14", "K17")
def test_a_reader_who_stops_stops_whoever_emits_and_goes_on_where_it_was(foundry: Command) -> None:
    count, size = 500, 1000
    with running(foundry) as kernel:
        kernel.send(pour(count, size))
        started = settled(kernel.started)
        assert 1 < started <= PIPE // size + 3, "what the pipe holds, what is being written, and one more"
        for number in range(count):
            assert kernel.receive()["data"] == f"{number}{'x' * size}"
        assert kernel.receive()["data"] == count
        assert kernel.end()[0] == 0


@pytest.mark.realtime
@pytest.mark.spec("K16")
def test_a_reader_who_stops_for_too_long_ends_the_call(foundry: Command) -> None:
    with running(foundry, "--consumer-timeout", "0.2") as kernel:
        kernel.send(pour(500, 1000))
        settled(kernel.started)
        code, out, _ = kernel.end()
    assert code == 0
    assert '"code":"consumer_timeout"' in out.splitlines()[-1]
    assert len(outcomes(foundry.folder)) == 1


@pytest.mark.nightly
@pytest.mark.spec("K17")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_what_runs_end_in_time_and_cancels_the_rest(number: signal.Signals, foundry: Command) -> None:
    with running(foundry) as kernel:
        kernel.send(LONG, message("wait", {"seconds": 1}, "short"))
        kernel.told("WAITING")
        kernel.told("WAITING")
        kernel.process.send_signal(number)
        kernel.send(message("echo", {"text": "too late"}, "late", kind="query"))
        answers = [kernel.receive(), kernel.receive()]
        assert kernel.end()[:2] == (0, "")
    assert [(cause(answer), answer["kind"]) for answer in answers] == [("short", "reply"), ("long", "error")]
    assert answers[1]["data"]["code"] == "cancelled"
    assert outcomes(foundry.folder) == [("wait", "succeeded"), ("wait", "cancelled")]


@pytest.mark.realtime
@pytest.mark.spec("K17")
def test_a_second_signal_does_not_wait(foundry: Command) -> None:
    with running(foundry, "--limit", "1") as kernel:
        kernel.send(LONG, message("echo", {"text": "never begun"}, kind="query"))
        kernel.told("WAITING")
        kernel.process.send_signal(signal.SIGTERM)
        kernel.process.send_signal(signal.SIGINT)
        assert kernel.end()[0] == 0
    assert outcomes(foundry.folder) == [("wait", "cancelled")]


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("K14", "K17")
def test_a_signal_ends_it_though_nobody_reads(foundry: Command) -> None:
    with running(foundry) as kernel:
        kernel.send(pour(500, 1000))
        settled(kernel.started)
        kernel.process.send_signal(signal.SIGTERM)
        assert kernel.process.wait(timeout=60) == 0
    assert outcomes(foundry.folder) == [("pour", "cancelled")]


@pytest.mark.realtime
@pytest.mark.spec("K14")
@pytest.mark.parametrize("ends", [os.pipe, connected], ids=["pipe", "socket"])
def test_an_answer_larger_than_a_pipe_comes_whole_and_what_follows_after_it(ends: Ends, foundry: Command) -> None:
    texts = ["é" * 150_000, "short"]
    reading, writing = ends()
    with running(foundry, "--limit", "1", stdout=writing) as kernel, os.fdopen(reading, encoding="utf-8") as answers:
        os.close(writing)
        for number, text in enumerate(texts):
            kernel.send(message("echo", {"text": text}, str(number), kind="query"))
        assert [json.loads(answers.readline())["data"] for _ in texts] == texts
        assert kernel.end()[0] == 0


@pytest.mark.realtime
@pytest.mark.spec("K15", "K17")
@pytest.mark.parametrize("ends", [os.pipe, connected], ids=["pipe", "socket"])
def test_a_reader_who_leaves_cancels_what_runs(ends: Ends, foundry: Command) -> None:
    reading, writing = ends()
    with running(foundry, stdout=writing) as kernel:
        os.close(writing)
        kernel.send(LONG)
        kernel.told("WAITING")
        os.close(reading)
        code, _, err = kernel.end()
    assert (code, err) == (1, "")
    assert outcomes(foundry.folder) == [("wait", "cancelled")]


@pytest.mark.realtime
@pytest.mark.spec("K15", "K17")
def test_a_reader_who_leaves_in_the_middle_of_a_stream_ends_it(foundry: Command) -> None:
    with running(foundry) as kernel:
        kernel.send(pour(100_000, 1000))
        kernel.receive()
        assert kernel.process.stdout is not None
        kernel.process.stdout.close()
        assert kernel.process.wait(timeout=60) == 1
    assert outcomes(foundry.folder) == [("pour", "cancelled")]


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("K17", "G19")
def test_what_a_kill_interrupted_is_said_at_the_next_start(foundry: Command) -> None:
    with running(foundry) as kernel:
        kernel.send(message("wait", {"seconds": 0}, "done"), LONG)
        assert cause(kernel.receive()) == "done"
        kernel.told("WAITING")
        kernel.told("WAITING")
        kernel.process.kill()
        assert kernel.end()[0] == -signal.SIGKILL
    assert foundry("kernel", "--agent", "founder", stdin="").code == 0
    assert outcomes(foundry.folder) == [("wait", "succeeded"), ("wait", "interrupted")]
    assert foundry("audit", "verify", "--json").json["ok"] is True

"""The log: lines are gathered for a moment; none is lost that is read, and none that is not holds up the server."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import threading
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from capset_server.observability import log_writer, logs
from capset_server.observability.log_writer import MAX_PENDING, AccessLog, LogWriter
from tests.helpers.cli.support import CAPSET, Command, clean_environment
from tests.helpers.server.support import site
from tests.waiting import until, wait_until

HEAD = ("time", "level", "logger", "event")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Writes(io.BytesIO):
    """What was written, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []

    def write(self, part: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.parts.append(part)
        return len(part)


async def test_lines_of_one_moment_are_one_write() -> None:
    stream = Writes()
    log = AccessLog(LogWriter(stream))
    for number in range(3):
        log.put({"number": number})
    assert stream.parts == []
    await until(lambda: len(stream.parts) == 1, "the lines of the first moment to be written")
    log.put({"number": 3})
    await until(lambda: len(stream.parts) == 2, "the line of the second moment to be written")
    numbers = [[json.loads(line)["number"] for line in part.splitlines()] for part in stream.parts]
    assert numbers == [[0, 1, 2], [3]]


def has_ended(thread: threading.Thread) -> bool:
    return not thread.is_alive()


def test_a_writer_without_lines_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "IDLE_SECONDS", 0.05)
    before, stream = set(threading.enumerate()), io.BytesIO()
    log = LogWriter(stream)
    for line in (b"1", b"2"):
        log.put([line])
        (thread,) = set(threading.enumerate()) - before
        wait_until(partial(has_ended, thread), "the writer's thread to end")
    assert stream.getvalue() == b"1\n2\n"


async def test_every_line_begins_alike_whoever_logs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests, of capset, of a library and of Python's warnings, with a traceback or without."""
    root, stream = logging.getLogger(), io.BytesIO()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log = LogWriter(stream)
    async with site(log=stream) as server:
        logs.configure(log)
        try:
            async with server.client("ada") as client:
                await client.get("/v1/healthz")
            logging.getLogger("capset.server").info("it has started")
            try:
                raise ValueError("x")
            except ValueError:
                logging.getLogger("some.library").exception("it failed")
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn("too old", DeprecationWarning, stacklevel=1)
        finally:
            logging.captureWarnings(False)
    log.drain(10)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {line["logger"] for line in lines} >= {"capset.requests", "capset.server", "some.library", "py.warnings"}
    assert {"request", "it has started", "it failed"} < {line["event"] for line in lines}
    for line in lines:
        assert tuple(line)[:4] == HEAD
        assert TIME.fullmatch(line["time"])
        assert line["level"] in ("info", "warning", "error")


@pytest.mark.spec("T17")
def test_an_error_whose_text_is_no_utf_8_is_a_line_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    root, stream = logging.getLogger(), io.BytesIO()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log = LogWriter(stream)
    try:
        logs.configure(log)
        try:
            raise ValueError("no such file: caf\udce9")
        except ValueError:
            logging.getLogger("capset.calls").exception("a tool failed")
    finally:
        logging.captureWarnings(False)
    log.drain(10)
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert tuple(line)[:4] == HEAD
    assert "ValueError: no such file: caf\udce9" in line["exception"]


@pytest.mark.spec("P43")
def test_what_is_not_read_is_lost_and_counted_and_a_later_line_says_so() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream, os.fdopen(reading, "rb") as reader:
        log = LogWriter(stream)
        line = json.dumps({"filler": "a" * 10_000}).encode()
        count = 3 * MAX_PENDING // len(line)
        for _ in range(count):
            log.put([line])
        assert 0 < log.lost < count
        log.drain(0.05)  # it gives up
        # The writer says what is lost each time it takes lines: once, or again after what it took during the flood.
        lines = list[dict[str, Any]]()
        while sum(line.get("lost", 1) for line in lines) < count:
            lines.append(json.loads(reader.readline()))
        loss_lines = [line for line in lines if "lost" in line]
        assert {tuple(line) for line in loss_lines} == {(*HEAD, "lost")}
        assert {line["event"] for line in loss_lines} == {"log_lines_lost"}
        assert sum(line["lost"] for line in loss_lines) == log.lost
        log.put([b"{}"])
        assert reader.readline() == b"{}\n"
        log.drain()


@pytest.mark.spec("P43")
def test_a_log_that_is_closed_is_no_error() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        log = LogWriter(stream)
        os.close(reading)
        log.put([b"{}"])
        log.drain()
        log.put([b"{}"])
        log.drain()
        assert log.lost == 0


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P43")
def test_a_server_whose_log_nobody_reads_answers_all_the_same(tmp_path: Path) -> None:
    key = Command(tmp_path, clean_environment(tmp_path))(
        *("key", "create", "scraper", "--principal", "scraper", "--scope", "metrics", "--json")
    ).json["key"]
    process = subprocess.Popen(
        [CAPSET, "serve", "--port", "0"],
        cwd=tmp_path,
        env=clean_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        address = re.search(rb"http://\S+", process.stderr.readline())
        assert address is not None
        with httpx2.Client(base_url=address[0].decode(), timeout=10, trust_env=False) as client:
            long = "/v1/none/" + "a" * 25_000
            count = 2 * MAX_PENDING // len(long)
            assert {client.get(long).status_code for _ in range(count)} == {401}
            time.sleep(4 * log_writer.FLUSH_SECONDS)  # until all lines have come to the log
            metrics = client.get("/v1/metrics", headers={"Authorization": f"Bearer {key}"}).text
            lost = re.search(r"^capset_log_lines_lost_total (\S+)$", metrics, re.MULTILINE)
            assert lost is not None
            assert 0 < float(lost[1]) < count
            lines = list[dict[str, Any]]()
            while not lines or lines[-1]["event"] != "log_lines_lost":
                lines.append(json.loads(process.stderr.readline()))
            assert lines[-1]["lost"] - float(lost[1]) in (0, 1)  # the line of the last request may be lost too
            # Every line is written or counted; a busy server writes a few beside those of the requests.
            assert 0 <= len(lines) - 1 + lines[-1]["lost"] - count <= 10
            assert {client.get(long).status_code for _ in range(count)} == {401}  # nobody reads again
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()

"""The process environment of a command: missing or limited standard streams, signals, the log."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable

from capset.definitions.environments import MissingValue
from capset_cli.common.texts import one_line


def on_termination_signal(end: Callable[[], object]) -> None:
    """Call ``end`` in the running event loop on each SIGINT and SIGTERM."""
    import asyncio  # imported here: loading it takes longer than some commands

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # on Windows, where Ctrl-C ends it with 130
            loop.add_signal_handler(number, end)


def set_up_process() -> None:
    """Make the streams accept any text, and log each error in one line.

    A closed stream is replaced by an empty input or a discarding output. ``CAPSET_DEBUG=1`` shows the whole log, with
    tracebacks.
    """
    # They stay open until the process ends, like the streams they replace.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("CAPSET_DEBUG"):
        logging.basicConfig(level=logging.DEBUG)
        return
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=logging.ERROR, handlers=[handler])


class OneLineFormatter(logging.Formatter):
    """A log formatter that escapes control characters, omits tracebacks, and adds a hint about a missing value."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{record.levelname.lower()}: {one_line(record.getMessage())}"
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, MissingValue):
            line += f"\nhint:  {error.option} {one_line(str(error.key))}=…"
        return line

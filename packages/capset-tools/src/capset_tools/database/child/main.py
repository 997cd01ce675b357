"""The main loop of the process: reads requests from stdin, and writes a response to each to stdout.

A message is its length in eight bytes, followed by JSON. The first request is a ``Start``; its response confirms that
the driver is loaded. All others are ``QueryOrder``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, TypedDict

SIZE: Final = 8
"""Size of the length before each message, in bytes."""
IDLE_SECONDS: Final = 60.0
"""How long the process waits for the next request before it ends."""
_MEMORY: Final = 48 << 20
"""Address space for a query in addition to its rows, in bytes: buffers of the driver, TLS, name resolution."""
_OF_ROWS: Final = 16
"""Bytes of memory for each byte of JSON that the rows may have: values take more memory than their text."""


class Start(TypedDict):
    """The import path for the driver, and the environment variables that it reads."""

    path: list[str]
    environment: dict[str, str]


class QueryOrder(TypedDict):
    """One query.

    ``seconds`` is the timeout of each statement, ``limit`` the timeout that the error message for the model names.
    ``functions`` may be called in addition to the ordinary ones.
    """

    url: str
    name: str
    query: str
    params: list[Any]  # JSON scalars
    seconds: float
    limit: float
    max_rows: int
    max_bytes: int
    functions: list[str]


def main() -> None:
    """Answer requests until there are no more, or a query has run out of memory."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep output of libraries out of the messages
    signal.signal(signal.SIGINT, signal.default_int_handler)  # makes the driver cancel its query
    start: Start | None = _receive()
    if start is None:
        return
    sys.path[:] = start["path"]
    os.environ.update(start["environment"])
    try:
        import psycopg  # noqa: F401  # pyright: ignore[reportUnusedImport]  # before memory is bounded

        from capset_tools.database.child.queries import answer_of

        base = _address_space()
        _send(out, {})
        while (order := _receive()) is not None:
            _bound(base, order["max_bytes"])
            answer, is_spent = answer_of(order)
            _send(out, answer)
            if is_spent:
                break
    except (KeyboardInterrupt, MemoryError, BrokenPipeError):
        os._exit(1)  # the caller sees that there is no answer


def _receive() -> Any:  # the JSON of a request
    """Return the next request, or ``None`` if there is none."""
    if sys.platform != "win32" and not select.select([0], [], [], IDLE_SECONDS)[0]:
        return None
    head = _read(SIZE)
    return json.loads(_read(int.from_bytes(head, "big"))) if len(head) == SIZE else None


def _send(out: BinaryIO, answer: Mapping[str, Any]) -> None:  # JSON
    body = json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")
    out.write(len(body).to_bytes(SIZE, "big") + body)
    out.flush()


def _read(size: int) -> bytes:
    """Read ``size`` bytes from stdin, or fewer at its end. Unbuffered, since ``select`` does not see a buffer."""
    data = bytearray()
    while len(data) < size and (part := os.read(0, size - len(data))):
        data += part
    return bytes(data)


def _address_space() -> int:
    """Return the size of this process's address space in bytes, or 0 on systems other than Linux."""
    if sys.platform != "linux":
        return 0
    import resource

    with open("/proc/self/statm") as sizes:  # noqa: PTH123  # loading pathlib takes too long
        return int(sizes.read().split()[0]) * resource.getpagesize()


def _bound(base: int, max_bytes: int) -> None:
    """Limit the memory of this process for one query. Does nothing except on Linux, which limits address space."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        size = base + _MEMORY + _OF_ROWS * max_bytes
        resource.setrlimit(
            resource.RLIMIT_AS, (size if hard_limit == resource.RLIM_INFINITY else min(size, hard_limit), hard_limit)
        )

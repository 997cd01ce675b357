"""The loop of the process: one request after the other from stdin, an answer to each on stdout.

A message is its length in eight bytes and then JSON. The first request is a ``Start``, whose answer says that the
driver is loaded; each other one is a ``QueryOrder``.
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
"""Bytes of the length of a message."""
IDLE_SECONDS: Final = 60.0
"""How long the process waits for its next request, before it ends."""
_MEMORY: Final = 48 << 20
"""Bytes of address space for a query beside those for its rows: buffers of the driver, TLS, the name service."""
_OF_ROWS: Final = 16
"""Bytes of memory for each byte of JSON that the rows may have: texts are shorter than the values that hold them."""


class Start(TypedDict):
    """Where Python finds the driver, and what the driver reads in the environment."""

    path: list[str]
    environment: dict[str, str]


class QueryOrder(TypedDict):
    """One query.

    ``seconds`` is how long a statement of it may take, ``limit`` what a model is told of that; ``functions`` may be
    called beside the ordinary ones.
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
    """Answer requests until there are no more, or a query needed too much memory."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep prints of libraries out of the messages
    signal.signal(signal.SIGINT, signal.default_int_handler)  # by which the driver cancels its query
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
    """Return so many bytes of stdin, or fewer at its end. It has no buffer: ``select`` would not see that."""
    data = bytearray()
    while len(data) < size and (part := os.read(0, size - len(data))):
        data += part
    return bytes(data)


def _address_space() -> int:
    """Return the bytes of address space that this process has, 0 where the system does not tell it."""
    if sys.platform != "linux":
        return 0
    import resource

    with open("/proc/self/statm") as sizes:  # noqa: PTH123  # loading pathlib takes too long
        return int(sizes.read().split()[0]) * resource.getpagesize()


def _bound(base: int, max_bytes: int) -> None:
    """Bound the memory of this process for one query; only Linux bounds address space."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        size = base + _MEMORY + _OF_ROWS * max_bytes
        resource.setrlimit(
            resource.RLIMIT_AS, (size if hard_limit == resource.RLIM_INFINITY else min(size, hard_limit), hard_limit)
        )

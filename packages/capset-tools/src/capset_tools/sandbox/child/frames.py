"""The protocol between capset and a child: one request, answered by frames. Both sides use this module."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, Literal, TypedDict, cast, get_args

STARTED: Final = b"S"
"""The code starts."""
STDOUT: Final = b"O"
STDERR: Final = b"E"
ENDED: Final = b"X"
"""The code has ended; its changes to the files follow."""
FILE: Final = b"F"
"""A new or changed file: the length of its path, the path, the content."""
DONE: Final = b"D"
"""The last frame: an ``Ending`` as JSON."""

HEAD: Final = struct.Struct(">cI")
"""The header of a frame: its kind, and the number of bytes that follow."""
_LENGTH: Final = struct.Struct(">I")

Backend = Literal["isolated-cpython", "isolated-bash", "monty"]
"""Back ends that run code: CPython or bash in a jail, or Monty, an interpreter without access to the system."""
Stopped = Literal["time", "memory", "output", "files", "processes", "crash"]


USER: Final = 1_000
"""The user id and the group id in a jail."""
PACKAGES: Final = "/.runtime/packages"
"""Where a CPython jail has its packages, if any."""
LOCALES: Final = "/.runtime/locale"
"""Where a jail has the locale C.UTF-8."""
MOST_TASKS: Final[Mapping[Backend, int]] = {"isolated-bash": 64, "isolated-cpython": 256}
"""Maximum number of processes and threads in a jail at once, including its first process."""


class RunLimits(TypedDict):
    seconds: float
    memory_bytes: int
    output_bytes: int
    max_files: int
    max_bytes: int


class Order(TypedDict):
    """The part of a request before the contents of the files."""

    backend: Backend
    code: str
    limits: RunLimits
    files: list[tuple[str, int]]


class Ending(TypedDict):
    """How the code ended: ``deleted`` are files, ``removed`` directories; the last two give reasons by path."""

    exit_code: int | None
    value: str | None
    error: str | None
    stopped: Stopped | None
    truncated: bool
    deleted: list[str]
    removed: list[str]
    not_shown: dict[str, str]
    not_kept: dict[str, str]


_MOST: Final = 1 << 31
"""Larger than any exit status."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "exit_code": (int, type(None)),
    "value": (str, type(None)),
    "error": (str, type(None)),
    "stopped": (str, type(None)),
    "truncated": (bool,),
    "deleted": (list,),
    "removed": (list,),
    "not_shown": (dict,),
    "not_kept": (dict,),
}


def request(order: Order, contents: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield the parts of a request; the contents are in the order of ``order["files"]``."""
    head = json.dumps(order).encode()
    yield _LENGTH.pack(len(head))
    yield head
    for path, _ in order["files"]:
        yield contents[path]


def read_request(stream: BinaryIO) -> tuple[Order, dict[str, bytes]]:
    """Read the single request to a child. Raises ``EOFError`` if it is incomplete."""
    (size,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    order: Order = json.loads(_exactly(stream, size))
    return order, {path: _exactly(stream, size) for path, size in order["files"]}


def packed_file(path: str, content: bytes) -> bytes:
    """Return the payload of a ``FILE`` frame."""
    name = path.encode(errors="replace")
    return _LENGTH.pack(len(name)) + name + content


def unpacked_file(payload: bytes) -> tuple[str, bytes]:
    """Return the path and the content in a ``FILE`` frame. Raises ``ValueError`` for an invalid one."""
    if len(payload) < _LENGTH.size:
        raise ValueError("truncated file frame")
    (size,) = _LENGTH.unpack_from(payload)
    end = _LENGTH.size + size
    return payload[_LENGTH.size : end].decode(), payload[end:]


def read_ending(payload: bytes) -> Ending:
    """Return the ``Ending`` in a ``DONE`` frame. Raises ``ValueError`` for an invalid one."""
    try:
        parsed: object = json.loads(payload)
    except RecursionError:
        raise ValueError("the last frame is nested too deeply") from None
    members = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    if members.keys() != _TYPES.keys() or not all(_is_of(members[name], kinds) for name, kinds in _TYPES.items()):
        raise ValueError("invalid last frame")
    if members["stopped"] not in (None, *get_args(Stopped)):
        raise ValueError("the last frame names an unknown limit")
    status = members["exit_code"]
    if isinstance(status, int) and not -_MOST < status < _MOST:
        raise ValueError("the last frame has an impossible exit code")
    return cast("Ending", members)


def _is_of(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether a value has one of these types. Lists and objects may hold only strings without lone surrogates."""
    kind, inner = type(value), list[object]()
    if isinstance(value, str):
        inner = [value]
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    elif isinstance(value, dict):
        members = cast("dict[str, object]", value)
        inner = [*members, *members.values()]
    return kind in kinds and all(isinstance(element, str) and _is_whole(element) for element in inner)


def _is_whole(text: str) -> bool:
    """Whether a text has no lone surrogate, which JSON may contain and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise EOFError("the request is incomplete")
    return content

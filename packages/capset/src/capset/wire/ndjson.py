"""Messages as lines of strict JSON, and the exact text of each member (spec 3, K3)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

from pydantic import Field, ValidationError
from pydantic_core import from_json

from capset.clock import Clock, SystemClock, iso
from capset.definitions.calls.messages import Json, Kind, Message, Meta
from capset.definitions.names import MESSAGE, TOOL
from capset.errors import CapsetError
from capset.errors import Field as Misfit
from capset.ids import Ids
from capset.kernel.streams.emission import error_data
from capset.schemas.validation_errors import validation_fields
from capset.wire.calls import message_data
from capset.wire.shapes import StrictShape

_SPACE: Final = re.compile(r"[ \t\r\n]*")


def parse_strictly(text: bytes) -> tuple[Any, dict[str, str]]:  # any JSON
    """Return the value of JSON text, and the text of each member if it is an object.

    Raises ``ValueError`` for text that is not UTF-8, for NaN and infinities, lone surrogates, a depth of more than 200
    and duplicate keys in an object. A number too large for a float becomes an infinity, but its text is exact.
    """
    parsed = from_json(text, allow_inf_nan=False)  # strict except for duplicate keys, of which the last one wins
    if isinstance(parsed, dict):
        return cast("dict[str, Any]", parsed), _members(text.decode())
    _DECODER.decode(text.decode())
    return parsed, {}


def _members(text: str) -> dict[str, str]:
    """Return the texts of an object's members; the object must be valid JSON."""
    members: dict[str, str] = {}
    position = _after_space(text, text.index("{") + 1)
    while text[position] != "}":
        key, position = _DECODER.raw_decode(text, position)
        start = _after_space(text, text.index(":", position) + 1)
        _, end = _DECODER.raw_decode(text, start)
        if key in members:
            raise _duplicate_key_error(key)
        members[key] = text[start:end]
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)
    return members


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            raise _duplicate_key_error(key)
        keys.add(key)


def _duplicate_key_error(key: str) -> ValueError:
    return ValueError(f"the key {key[:100]!r} occurs twice in one object")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_refuse_duplicates)


MAX_LINE_BYTES: Final = 1024 * 1024
"""The default maximum size of a line in bytes, without its line ending."""
LINE_ERROR_TYPE: Final = "capset.line"
"""The type of errors about lines without a valid type."""
_MAX_TYPE_CHARACTERS: Final = 200
_MAX_TEXT_CHARACTERS: Final = 1000
_MODEL: Final = re.compile(r" or instance of \w+")
"""Pydantic's mention of its models, which means nothing to senders."""

_Text = Annotated[str, Field(min_length=1, max_length=_MAX_TEXT_CHARACTERS)]
_Type = Annotated[str, Field(pattern=f"^(?:{MESSAGE.pattern}|{TOOL.pattern})$", max_length=_MAX_TYPE_CHARACTERS)]


class _Meta(StrictShape):
    """The metadata of a message. All members are optional."""

    id: _Text | None = None
    timestamp: _Text | None = None
    correlation: _Text | None = None
    causation: _Text | None = None
    traceparent: _Text | None = None
    deadline: Annotated[float, Field(allow_inf_nan=False)] | None = None


class _Envelope(StrictShape):
    kind: Kind
    type: _Type
    data: Any = None  # any JSON
    meta: _Meta | None = None


@dataclass(frozen=True, slots=True)
class Verbatim(Message):
    """A message that is not answered here. It is written as the exact line that it was read from."""

    line: bytes = field(default=b"", compare=False, repr=False)


class _LineError(CapsetError):
    """The error of one line."""

    def __init__(self, status: int, code: str, message: str, fields: list[Misfit] | None = None) -> None:
        super().__init__(message, fields=fields or ())
        self.status = status
        self.code = code


class Reader:
    """A decoder of bytes into messages. Pass chunks that are split anywhere to ``feed``, then call ``end``.

    Commands and queries have their data as ``Json``, exactly as sent; other kinds are ``Verbatim``. An invalid line
    becomes an error message, and reading continues with the next line: 413 ``message_too_large`` for a line of more
    than ``limit`` bytes, of which no more are buffered; 400 ``broken_message`` for anything but strict JSON; 422
    ``invalid_message`` for an envelope that does not conform to K1, with the causation if its id could be read. No
    method raises.
    """

    __slots__ = ("_clock", "_ids", "_is_skipping", "_limit", "_line", "_number")

    def __init__(self, limit: int = MAX_LINE_BYTES, clock: Clock | None = None) -> None:
        """Set the ``limit`` in bytes, at least 1. ``clock`` stamps error messages, and messages without a timestamp."""
        if limit < 1:
            raise ValueError(f"a line's limit is a number of bytes, 1 or more; got {limit!r}")
        self._limit = limit
        self._clock = clock or SystemClock()
        self._ids = Ids(self._clock)
        self._line = bytearray()
        self._is_skipping = False
        self._number = 1

    def feed(self, chunk: bytes) -> list[Message]:
        """Return the messages of the lines that end in ``chunk``, and the error for a line that became too long."""
        messages: list[Message] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end, messages)
            self._finish(messages)
        self._add(rest, messages)
        return messages

    def end(self) -> list[Message]:
        """Return the message of a last line without a line ending."""
        messages: list[Message] = []
        self._finish(messages)
        return messages

    def _add(self, part: bytes, messages: list[Message]) -> None:
        if self._is_skipping:
            return
        if len(self._line) + len(part) > self._limit:
            self._line.clear()
            self._is_skipping = True
            message = f"Line {self._number} has more than {self._limit} bytes, so it was skipped: send shorter lines"
            messages.append(self._error(_LineError(413, "message_too_large", message)))
        else:
            self._line += part

    def _finish(self, messages: list[Message]) -> None:
        line = bytes(self._line.strip(b" \t\r"))
        if line and not self._is_skipping:
            messages.append(self._message(line))
        self._line.clear()
        self._is_skipping = False
        self._number += 1

    def _message(self, line: bytes) -> Message:
        try:
            parsed, texts = parse_strictly(line)
        except ValueError as error:
            reason = str(error).replace(" at line 1 column ", " at column ")
            message = f"Line {self._number} is not strict JSON in UTF-8: {reason}"
            return self._error(_LineError(400, "broken_message", message))
        try:
            envelope = _Envelope.model_validate(parsed)
        except ValidationError as error:
            fields = [
                Misfit(misfit.path[:100], _MODEL.sub("", misfit.expected), misfit.did_you_mean)
                for misfit in validation_fields(error, list(_Envelope.model_fields), parsed)
            ]
            message = (
                f"Line {self._number} is no message: {'; '.join(map(str, fields)).replace('(arguments)', 'all of it')}"
            )
            return self._error(_LineError(422, "invalid_message", message, fields), parsed)
        meta = self._meta(envelope.meta)
        if envelope.kind not in ("command", "query"):
            return Verbatim(envelope.kind, envelope.type, envelope.data, meta, line)
        data = None if envelope.data is None else Json(texts["data"].encode())
        return Message(envelope.kind, envelope.type, data, meta)

    def _meta(self, meta: _Meta | None) -> Meta | None:
        """Return complete metadata for a message whose sender gave some of it."""
        if meta is None:
            return None
        message_id = meta.id or self._ids.new()
        timestamp = meta.timestamp or iso(self._clock.time_ns())
        return Meta(
            message_id, timestamp, meta.correlation or message_id, meta.causation, meta.deadline, meta.traceparent
        )

    def _error(self, error: CapsetError, parsed: object = None) -> Message:
        """Return the error message for an invalid line; ``parsed`` is its JSON value."""
        envelope = _mapping(parsed)
        sent = _mapping(envelope.get("meta"))
        message_id, causation = self._ids.new(), _valid_text(sent.get("id"))
        error.correlation = _valid_text(sent.get("correlation")) or causation or message_id
        meta = Meta(message_id, iso(self._clock.time_ns()), error.correlation, causation)
        return Message("error", _valid_type(envelope.get("type")), error_data(error), meta)


def line_of(message: Message) -> bytes:
    """Return a message as a line, with its ending. Raises ``ValueError`` or ``TypeError`` if its data is not JSON."""
    if isinstance(message, Verbatim):
        return message.line + b"\n"
    data = message_data(message)
    if isinstance(message.data, Json):
        data["data"] = from_json(message.data.text, allow_inf_nan=False)
    # Only texts for people, such as an error's, can still contain a lone surrogate here: it becomes a "?".
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace") + b"\n"


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _valid_text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT_CHARACTERS else None


def _valid_type(value: object) -> str:
    is_type = (
        isinstance(value, str)
        and len(value) <= _MAX_TYPE_CHARACTERS
        and (MESSAGE.fullmatch(value) or TOOL.fullmatch(value))
    )
    return cast("str", value) if is_type else LINE_ERROR_TYPE

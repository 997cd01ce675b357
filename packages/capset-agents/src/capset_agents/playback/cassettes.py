"""Cassettes: files of recorded answers (``--record FILE``), to be replayed (``--model cassette:FILE``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Discriminator, ValidationError
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent
from pydantic_core import from_json

from capset.errors import CapsetError, DefinitionError, InternalError, counted
from capset_agents.playback.request_hashes import HashedRequest, RequestHashes, find_changes

FORMAT: Final = 1
"""The format version of each line."""

StreamEvent = Annotated[PartStartEvent | PartDeltaEvent, Discriminator("event_kind")]
"""A recorded event of a streamed answer. Other events follow from these, and are not recorded."""


class CassetteMismatch(CapsetError):
    """A request to the model differs from the recorded one, or goes beyond the end of the recording."""

    code = "cassette_mismatch"
    status = 409


class RecordedExchange(BaseModel):
    """One line of a cassette: the hashes of a request, the model that answered, and its answer."""

    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    cassette: Literal[1] = FORMAT
    asked: RequestHashes
    model: str
    answer: ModelResponse
    events: list[StreamEvent] | None = None
    """The events of the stream, if the answer was streamed."""


class CassetteFile:
    """A cassette that is being recorded. Each exchange is written at once, as one line.

    The first exchange replaces an older recording in the file, unless ``append`` is set.
    """

    def __init__(self, path: str | Path, *, append: bool = False) -> None:
        """Check the file. Raises ``DefinitionError`` if it cannot be written, or contains anything but a cassette."""
        self._path = Path(path)
        self._mode = "ab" if append else "wb"
        if append and self._path.exists():
            read_cassette(self._path)
        try:
            self._path.touch(0o600)
            with self._path.open("rb") as file:
                first = file.readline()
        except OSError as error:
            raise DefinitionError(f"{self._path}: cannot be written: {error.strerror}") from None
        if first and _format_of(first) is None:
            raise DefinitionError(f"{self._path}: is not a cassette, and was left unchanged", hint="use another file")

    def add(self, exchange: RecordedExchange) -> None:
        """Write an exchange. Raises ``InternalError`` if that fails."""
        try:
            with self._path.open(self._mode) as file:
                file.write(exchange.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise InternalError(f"the cassette {self._path.name} cannot be written: {error.strerror}") from error
        self._mode = "ab"


class Cassette:
    """The exchanges of a cassette, each of which is used once."""

    def __init__(self, path: str | Path) -> None:
        """Read the file. Raises ``DefinitionError`` like ``read_cassette``."""
        self.name = Path(path).name
        self._exchanges = read_cassette(Path(path))
        self._unused = [*range(len(self._exchanges))]

    def take(self, request: HashedRequest) -> RecordedExchange:
        """Return the first unused exchange with the same request. Raises ``CassetteMismatch`` if there is none.

        Thus concurrent agents each get their own answers, and another process can continue a conversation.
        """
        for number in self._unused:
            if self._exchanges[number].asked == request.hashes:
                self._unused.remove(number)
                return self._exchanges[number]
        raise CassetteMismatch(f"{self._explain(request)}. {self._advice}")

    @property
    def _advice(self) -> str:
        model = self._exchanges[0].model if self._exchanges else "NAME"
        command = f"capset run AGENT TASK --model {model} --record {self.name}"
        return f"Record it again: {command}; in Python, CassetteRecorder(MODEL, {self.name!r})"

    def _explain(self, request: HashedRequest) -> str:
        """Describe how a request differs from the next exchange of its conversation."""
        last_match = max(
            (
                number
                for number, exchange in enumerate(self._exchanges)
                if request.continues(exchange.asked.conversation)
            ),
            default=-1,
        )
        expected = next((number for number in self._unused if number > last_match), None)
        if expected is None:
            count = len(self._exchanges)
            return (
                f"The cassette {self.name} ends before the run does: "
                f"it has {counted(count, 'exchange')}, and the model is asked once more"
            )
        changes = "; ".join(find_changes(self._exchanges[expected].asked, request.hashes))
        first = self._exchanges[last_match].asked.conversation.messages + 1 if last_match >= 0 else 0
        new = list(dict.fromkeys(content for contents in request.contents[first:] for content in contents))
        if new and changes.endswith("the conversation changed"):
            changes += f" (in {', '.join(new)})"
        return f"The request to the model differs from exchange {expected + 1} of the cassette {self.name}: {changes}"


def read_cassette(path: Path) -> list[RecordedExchange]:
    """Return the exchanges in a file.

    Raises ``DefinitionError`` for a file that cannot be read, has another format, or has a damaged line.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise DefinitionError(f"{path}: cannot be read: {error.strerror}") from None
    return [_read_line(path, number, line) for number, line in enumerate(lines, 1)]


def _read_line(path: Path, number: int, line: bytes) -> RecordedExchange:
    hint = "record it again: --record FILE, or in Python CassetteRecorder(MODEL, FILE)"
    file_format = _format_of(line)
    if file_format is not None and file_format != FORMAT:
        message = (
            f"{path}, line {number}: a cassette of the format {file_format!r}; this version of capset reads {FORMAT}"
        )
        raise DefinitionError(message, hint=hint)
    if not line.endswith(b"\n"):
        raise DefinitionError(f"{path}, line {number}: the line is cut off", hint=f"delete the line, or {hint}")
    if file_format is None:
        message = "not a cassette" if number == 1 else "the line is damaged"
        raise DefinitionError(f"{path}, line {number}: {message}", hint=hint)
    try:
        return RecordedExchange.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{path}, line {number}: the line is damaged: {place}: {first['msg']}"
        raise DefinitionError(message, hint=hint) from None


def _format_of(line: bytes) -> Any:  # any JSON
    """Return the format version of a line, or ``None`` if the line is not from a cassette."""
    try:
        data = from_json(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", data).get("cassette") if isinstance(data, dict) else None

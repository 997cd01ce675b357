"""The journal of a running turn: its events and messages, stored in batches that renew the hold on the turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_core import from_json, to_json

from capset.clock import iso
from capset.errors import CapsetError, LimitExceeded, StateError
from capset.kernel.kernel import Kernel
from capset.stores.base import Attempt, MessageRow, NewEvent, NewMessage, TurnHold, TurnRow
from capset_agents.checkpoints import TurnCheckpoint, write_checkpoint
from capset_agents.model_calls import replace_surrogates

HOLD_SECONDS: Final = 30
"""How long a turn is held without renewal before its process counts as dead."""
RENEW_SECONDS: Final = 10.0
"""How often a process renews its hold."""
BATCH_SECONDS: Final = 0.08
"""The time between two batches. Records wait longer than this to be written, so that they go with a batch."""
MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of one message of a conversation."""
MAX_CONVERSATION_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of all messages of a conversation."""
MAX_CONVERSATION_MESSAGES: Final = 10_000
"""The maximum number of messages of a conversation."""
KEPT_FROM: Final = "kept_from"
"""The metadata key of a summary: the number of the first earlier message that the summary does not replace."""
_log = logging.getLogger("capset.agents")


class ConversationFull(LimitExceeded):
    """The conversation of a session has no room for another message."""

    code = "conversation_full"
    retryable = False


class TurnJournal:
    """The journal of one turn, for as long as this process holds the turn."""

    def __init__(
        self,
        kernel: Kernel,
        turn_row: TurnRow,
        checkpoint: TurnCheckpoint,
        *,
        org: str | None,
        conversation: Conversation,
        on_stored: Callable[[str], None],
    ) -> None:
        """``turn_row`` is the stored turn. ``on_stored`` is called with the session's id after each write."""
        own_rows = [row for row in conversation.rows if row.turn == turn_row.turn]
        self.history = tuple(row.data for row in conversation.rows if row.kind != "inner")
        self.numbers = tuple(row.seq for row in conversation.rows if row.kind != "inner")
        self.is_continued = bool(own_rows)
        self.causation_prefix: Final = ""
        self._nested_records = [from_json(row.data) for row in own_rows if row.kind == "inner"]
        self.is_lost = False
        """Whether another process holds the turn, or its session was deleted."""
        self.checkpoint = checkpoint
        self._kernel = kernel
        self._events = kernel.store.events  # a closing kernel no longer provides a store, but its turns may end
        self._audit = kernel.store.audit
        self._row = turn_row
        self._org = org
        self._count, self._bytes = conversation.count, conversation.bytes
        self._on_stored = on_stored
        self._redact = kernel.redactor
        self._new_events: list[NewEvent] = []
        self._new_messages: list[NewMessage] = []
        self._is_storing_messages = False
        self._text: tuple[str, int, int, list[str]] | None = None
        """The type, step and part of the text that is being emitted, and its pieces."""
        self._has_new = asyncio.Event()
        self._write_lock = asyncio.Lock()
        self._ending = asyncio.Event()
        self._attempts: Sequence[Attempt] | None = None
        self._renewed_at = 0.0

    @property
    def turn(self) -> str:
        """The id of the turn."""
        return self._row.turn

    @property
    def hold(self) -> TurnHold:
        """The hold of this process on the turn."""
        return TurnHold(self._row.session, self._row.turn, self._row.holder)

    @property
    def session(self) -> str:
        """The id of the turn's session."""
        return self._row.session

    @property
    def is_streaming(self) -> bool:
        """Whether text may be emitted in pieces. Not if the host masks patterns: a match may span two pieces."""
        return self._redact is None

    @property
    def can_be_continued(self) -> bool:
        """Whether another process could continue the turn."""
        return self._row.checkpoint is not None

    @property
    def usage(self) -> Mapping[str, float]:
        """The usage of the turn so far."""
        return self.checkpoint.usage

    def record_usage(self, usage: Mapping[str, float]) -> None:
        """Record the usage of the turn so far."""
        self.checkpoint = replace(self.checkpoint, usage=usage)

    def result(self, call: str) -> str | None:
        """Return the stored result of a tool call of the newest message, if any."""
        return self.checkpoint.results.get(call)

    async def attempts(self, call: str) -> Sequence[Attempt]:
        """Return the attempts at a tool call that were made before the turn was continued."""
        if not self.is_continued:
            return ()
        if self._attempts is None:
            self._attempts = await self._audit.attempts(self._org, self.turn)
        return [attempt for attempt in self._attempts if attempt.causation == call]

    def emit(self, type: str, data: Mapping[str, Any]) -> None:
        """Add an event, in which matches of the host's patterns are masked."""
        masked = data if self._redact is None else self._redact(data)
        self.add_event(NewEvent(type, to_json(masked).decode()))

    def emit_text(self, type: str, step: int, part: int, text: str) -> None:
        """Add a piece of text. Pieces that are not stored yet become one event."""
        if self._text is None or self._text[:3] != (type, step, part):
            self._end_text()
            self._text = (type, step, part, [])
        self._text[3].append(text)
        self._has_new.set()

    def add_event(self, event: NewEvent) -> None:
        """Add an event without masking it."""
        self._end_text()
        self._new_events.append(event)
        self._has_new.set()

    def add(self, message: str, *, is_summary: bool = False) -> None:
        """Add a message, or a summary of all earlier ones, and drop the stored results of the previous message.

        Raises ``ConversationFull``, naming the limit.
        """
        self._add(NewMessage("summary" if is_summary else "message", message))
        self._drop_results("")

    def add_nested(self, place: str, message: str, *, is_summary: bool = False) -> None:
        """Add a message of an agent within a call, or a summary of all its messages. Raises ``ConversationFull``."""
        header = f'"within":{to_json(place).decode()}' + (',"summary":true' if is_summary else "")
        self._add(NewMessage("inner", f'{{{header},"message":{message}}}'))
        self._drop_results(place)

    def nested(self, place: str) -> _NestedJournal:
        """Return the journal of an agent within a call, with its messages so far."""
        records = [record for record in self._nested_records if record["within"] == place]
        first = max((number for number, record in enumerate(records) if "summary" in record), default=0)
        return _NestedJournal(self, place, [to_json(record["message"]).decode() for record in records[first:]])

    def _add(self, message: NewMessage) -> None:
        size = len(message.data.encode())
        for limit, value, maximum in (
            ("message_bytes", size, MAX_MESSAGE_BYTES),
            ("conversation_bytes", self._bytes + size, MAX_CONVERSATION_BYTES),
            ("conversation_messages", self._count + 1, MAX_CONVERSATION_MESSAGES),
        ):
            if value > maximum:
                raise ConversationFull(
                    f"The conversation is full: it would have {value}, and may have {maximum} ({limit})"
                )
        self._count, self._bytes = self._count + 1, self._bytes + size
        self._new_messages.append(message)
        self._has_new.set()

    def _drop_results(self, place: str) -> None:
        """Drop the stored results of an agent's previous calls, and of the agents within these calls."""
        remaining = {
            call: tool_result for call, tool_result in self.checkpoint.results.items() if not call.startswith(place)
        }
        if len(remaining) < len(self.checkpoint.results):
            self.checkpoint = replace(self.checkpoint, results=remaining)

    async def store(self, results: Mapping[str, str] | None = None) -> None:
        """Durably store everything added, and the results of tool calls.

        Raises ``StateError`` if this process no longer holds the turn, and ``StoreError`` if the store fails.
        """
        if results:
            self.checkpoint = replace(self.checkpoint, results={**self.checkpoint.results, **results})
        elif (
            not self._new_messages
            and not self._is_storing_messages  # that may fail, and calls must not run before the message that made them
            and asyncio.get_running_loop().time() < self._renewed_at + HOLD_SECONDS / 2
        ):
            return
        await self._write()

    async def run_writer(self, running: asyncio.Task[Any] | None) -> None:
        """Store additions and renew the hold until the turn ends; cancel ``running`` if the hold is lost."""
        loop = asyncio.get_running_loop()
        self._renewed_at = loop.time()
        while not self._ending.is_set():
            try:
                async with asyncio.timeout_at(self._renewed_at + RENEW_SECONDS):
                    await self._has_new.wait()
            except TimeoutError:
                pass  # time to renew
            try:
                # An event waits at least 0.02 seconds for others, even if the last batch was long ago.
                async with asyncio.timeout_at(max(self._renewed_at + BATCH_SECONDS, loop.time() + 0.02)):
                    await self._ending.wait()
            except TimeoutError:
                pass  # time to store
            self._has_new.clear()
            if self._ending.is_set():
                return
            if not self._has_unwritten and loop.time() < self._renewed_at + RENEW_SECONDS:
                continue
            try:
                await self._write()
            except StateError:
                if running is not None:
                    running.cancel()
                return
            except CapsetError:
                self._renewed_at = loop.time() - RENEW_SECONDS + 1  # the store is unavailable: retry in a second

    def stop(self) -> None:
        """Make ``run_writer`` return."""
        self._ending.set()
        self._has_new.set()

    async def end(self, *last: NewEvent, then: TurnRow | None = None) -> bool:
        """Store the rest, and end the turn or leave it as ``then``. Return whether this was stored.

        Tries five times while the store is unavailable.
        """
        self._end_text()
        self._new_events += last
        for _ in range(5):
            if self.is_lost:
                return False
            try:
                await self._write(then, is_last=True)
            except StateError:
                return False
            except CapsetError:
                await asyncio.sleep(RENEW_SECONDS / 10)
            else:
                return True
        _log.error("the end of the turn %s was not stored: it will count as interrupted", self.turn)
        return False

    def released_row(self, holder: str, until: str) -> TurnRow:
        """Return the row that leaves the turn to other processes."""
        return replace(self._row, holder=holder, until=until, checkpoint=write_checkpoint(self.checkpoint))

    @property
    def _has_unwritten(self) -> bool:
        return bool(self._new_events or self._new_messages or self._text)

    def _end_text(self) -> None:
        """Emit the pending pieces of text as one event."""
        if self._text is not None:
            kind, step, part, pieces = self._text
            self._text = None
            self.emit(kind, {"step": step, "part": part, "text": replace_surrogates("".join(pieces))})

    async def _write(self, then: TurnRow | None = None, *, is_last: bool = False) -> None:
        async with self._write_lock:
            self._end_text()
            events, self._new_events = self._new_events, []
            messages, self._new_messages = self._new_messages, []
            self._is_storing_messages = bool(messages)
            if not is_last:
                then = self._next_row()
            try:
                now = self._kernel.now()
                usage = to_json(self.checkpoint.total_usage()).decode() if is_last and self.checkpoint.usage else None
                await self._events.append(self._row, events, now=now, then=then, messages=messages, usage=usage)
            except StateError:  # the session was deleted, or another process holds the turn
                self.is_lost = True
                raise
            except CapsetError as error:
                _log.error("cannot store events of the turn %s: %s", self.turn, error.message)
                self._new_events = events + self._new_events
                self._new_messages = messages + self._new_messages
                raise
            finally:
                self._is_storing_messages = False
            self._renewed_at = asyncio.get_running_loop().time()
            self._row = self._row if then is None else then
        self._on_stored(self.session)

    def _next_row(self) -> TurnRow:
        checkpoint = write_checkpoint(self.checkpoint) if self.can_be_continued else None
        return replace(self._row, until=held_until(self._kernel), checkpoint=checkpoint)


def held_until(kernel: Kernel) -> str:
    """Return the time at which a hold that begins now ends."""
    return iso(kernel.clock.time_ns() + HOLD_SECONDS * 1_000_000_000)


class _NestedJournal:
    """The journal of an agent that runs within a call of a turn. Its messages are stored with those of the turn.

    Its texts and calls are not events of the turn; its calls have records in the audit log. The turn counts its usage.
    """

    def __init__(self, turn_journal: TurnJournal, place: str, history: Sequence[str]) -> None:
        self.turn: Final = turn_journal.turn
        self.history = tuple(history)
        self.numbers: Sequence[int] = ()
        self.is_continued = bool(history)
        self.causation_prefix: Final = f"{place}/"
        self.is_streaming: Final = False
        self.usage: Final[Mapping[str, float]] = {}
        self._turn_journal = turn_journal

    @property
    def hold(self) -> TurnHold:
        return self._turn_journal.hold

    def record_usage(self, usage: Mapping[str, float]) -> None:
        """Do nothing: the turn's own journal records the usage."""

    def emit(self, type: str, data: Mapping[str, Any]) -> None:
        """Do nothing."""

    def emit_text(self, type: str, step: int, part: int, text: str) -> None:
        """Do nothing."""

    def result(self, call: str) -> str | None:
        return self._turn_journal.result(self.causation_prefix + call)

    async def attempts(self, call: str) -> Sequence[Attempt]:
        return await self._turn_journal.attempts(self.causation_prefix + call)

    def add(self, message: str, *, is_summary: bool = False) -> None:
        self._turn_journal.add_nested(self.causation_prefix.removesuffix("/"), message, is_summary=is_summary)

    def nested(self, place: str) -> _NestedJournal:
        return self._turn_journal.nested(self.causation_prefix + place)

    async def store(self, results: Mapping[str, str] | None = None) -> None:
        await self._turn_journal.store(
            {self.causation_prefix + call: result for call, result in (results or {}).items()}
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages since the newest summary, and the count and the bytes of the whole conversation.

    Earlier messages that the summary does not replace come right after it.
    """

    rows: Sequence[MessageRow]
    count: int
    bytes: int


async def read_conversation(kernel: Kernel, session: str) -> Conversation:
    """Return the conversation of a session."""
    events, rows = kernel.store.events, list[MessageRow]()
    after: int | None = None
    while True:
        page = await events.messages(session, after=after, max_bytes=1024 * 1024)
        rows += page.items
        if not page.items or page.items[-1].seq >= page.count:
            break
        after = page.items[-1].seq
    if rows and (first := _kept_from(rows[0])) is not None:
        earlier = await events.messages(session, after=first - 1, limit=rows[0].seq - first)
        rows[2:2] = earlier.items  # after the summary's two messages: the request to the model, and its answer
    return Conversation(rows, page.count, page.bytes)


def _kept_from(row: MessageRow) -> int | None:
    """Return the number of the first earlier message that a summary does not replace, if any."""
    if row.kind != "summary":
        return None
    match from_json(row.data):  # in the runner's own format
        case {"metadata": {**metadata}}:
            first: object = metadata.get(KEPT_FROM)
            return first if isinstance(first, int) and 0 < first < row.seq else None
        case _:
            return None

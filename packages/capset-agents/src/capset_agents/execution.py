"""The execution of one turn: its agent runs until it ends or has to wait, and the outcome is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from capset.definitions.governance.hooks import Hooks, ToolExecuted
from capset.errors import (
    Cancelled,
    CapsetError,
    DeadlineExceeded,
    InternalError,
    Interrupted,
    InvalidOutput,
    LimitExceeded,
    StoreError,
    TurnSuspended,
)
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.stores.base import SUSPENDED, NewEvent, SessionRow
from capset.wire.turns import (
    cancelled_event,
    ended_event,
    executed_event,
    failed_event,
    requested_event,
    suspended_event,
)
from capset_agents.journal import TurnJournal

_log = logging.getLogger("capset.agents")


def owner_of(row: SessionRow) -> tuple[str | None, str, str]:
    """Return the key of a session's principal, whose turns are counted together."""
    return row.org, row.principal_kind, row.principal


class TooManyTurns(LimitExceeded):
    """Too many turns of one principal run in this process."""

    code = "too_many_turns"


class RunningTurn:
    """A turn that this process runs."""

    journal: TurnJournal

    def __init__(self, kernel: Kernel, row: SessionRow, seconds: float) -> None:
        self.ended = asyncio.Event()
        self.owner = owner_of(row)
        self._kernel = kernel
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_by: str | None = None

    @property
    def hooks(self) -> Hooks:
        """The hooks through which the session reports its calls to this turn."""
        return Hooks(on_tool_executed=self._record_call)

    async def cancel(self, by: str) -> None:
        """Cancel the turn and wait until it has ended; it may still complete or suspend if it was just about to."""
        self._cancelled_by = self._cancelled_by or by
        if self._task is not None:
            self._task.cancel()
        await self.ended.wait()

    def abandon(self) -> None:
        """Cancel the turn without storing an event: its session was deleted and accepts none."""
        self.journal.is_lost = True
        if self._task is not None:
            self._task.cancel()

    async def run(self, session: Session) -> None:
        """Run the agent until it ends or has to wait for approvals, and store the outcome."""
        journal, loop = self.journal, asyncio.get_running_loop()
        self._task, began = asyncio.current_task(), loop.time()
        writer = loop.create_task(journal.run_writer(self._task))
        try:
            if self._cancelled_by is not None or journal.is_lost:  # cancelled before it began
                raise asyncio.CancelledError
            try:
                last = await self._run_agent(session)
            finally:
                self._task = None  # from here on, a cancellation does not keep the outcome from being stored
        except TurnSuspended as suspended:
            await self._stop_writer(writer, began)
            await self._suspend(session, suspended)
        except StoreError as error:
            await self._stop_writer(writer, began)
            _log.warning("the turn %s stops here and will be continued later: %s", journal.turn, error.message)
            await journal.end(then=journal.released_row("", self._kernel.now()))
        except asyncio.CancelledError:
            await self._stop_writer(writer, began)
            if journal.is_lost:
                _log.warning("this process lost the turn %s of the session %s", journal.turn, journal.session)
            elif self._cancelled_by is not None:
                await journal.end(cancelled_event(self._cancelled_by))
                return
            elif journal.can_be_continued:
                await journal.end(then=journal.released_row("", self._kernel.now()))
            else:
                shutdown_error = Cancelled("The turn was cut off: the server is closing")
                shutdown_error.retryable = False  # it may have had effects
                await journal.end(failed_event(shutdown_error, journal.checkpoint.correlation))
            raise
        else:
            await self._stop_writer(writer, began)
            await journal.end(last)

    async def _stop_writer(self, writer: asyncio.Task[None], began: float) -> None:
        journal = self.journal
        journal.stop()
        await writer
        seconds = journal.checkpoint.seconds + asyncio.get_running_loop().time() - began
        journal.checkpoint = replace(journal.checkpoint, seconds=seconds)

    async def _suspend(self, session: Session, suspended: TurnSuspended) -> None:
        journal, approvals = self.journal, self._kernel.store.approvals
        org = session.snapshot.principal.org
        stored_requests = [await approvals.get(org, approval) for approval in suspended.approvals]
        requests = [request for request in stored_requests if request is not None]
        for request in requests:
            journal.add_event(requested_event(request))
        journal.checkpoint = replace(journal.checkpoint, approvals=tuple(request.id for request in requests))
        until = max((request.expires_at for request in requests), default=self._kernel.now())
        suspended_turn = journal.released_row(SUSPENDED, until)
        await journal.end(suspended_event(suspended.approvals, suspended.calls), then=suspended_turn)
        now = [await approvals.get(org, request.id) for request in requests]
        if not any(
            request is not None and request.status == "pending" for request in now
        ):  # decided just before it was suspended
            await self._kernel.store.events.take(suspended_turn, replace(suspended_turn, until=self._kernel.now()))

    async def _run_agent(self, session: Session) -> NewEvent:
        """Return the last event. Raises ``TurnSuspended``, or ``StoreError`` if the turn can be continued later."""
        journal = self.journal
        redact, correlation = self._kernel.redactor, journal.checkpoint.correlation
        remaining = self._seconds - journal.checkpoint.seconds
        try:
            if remaining <= 0:
                raise DeadlineExceeded(f"Deadline exceeded: the turn has run for {self._seconds:g} seconds.")
            options = session.options(timeout=remaining, approvals="defer")
            with session.until_withdrawn():
                output = await options.run(journal.checkpoint.content, journal=journal)
            try:
                data = from_json(to_json(output), allow_inf_nan=False)
            except ValueError:
                raise InvalidOutput("The agent's output cannot be represented as JSON.") from None
            data = data if redact is None else redact(data)
            model_output = await session.for_model(journal.turn, data)
            return ended_event(model_output.text, model_output.file) if model_output.is_cut else ended_event(data)
        except TurnSuspended:
            raise
        except CapsetError as error:
            if isinstance(error, StoreError) and error.retryable and journal.can_be_continued:
                raise
            if redact is not None:
                error.message = redact(error.message)
            return failed_event(error, correlation)
        except Exception:
            _log.exception("a turn failed, correlation %s", correlation)
            return failed_event(InternalError("The turn failed unexpectedly; the log has the details."), correlation)

    def _record_call(self, executed: ToolExecuted) -> None:
        self.journal.add_event(executed_event(executed))


def interrupted_event() -> NewEvent:
    """Return the last event of a turn that cannot be continued after its process died."""
    return failed_event(Interrupted("The turn was interrupted: the process that ran it has ended"))


def suspended_error(turn: str, approvals: Sequence[str]) -> TurnSuspended:
    """Return the error for an operation that is impossible while a turn waits for approvals."""
    pending = ", ".join(approvals)
    return TurnSuspended(
        f"the turn {turn!r} waits for an approval: {pending}; have it decided, or cancel the turn", approvals=approvals
    )

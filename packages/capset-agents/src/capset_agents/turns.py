"""Turns of agents. A turn belongs to its session, not to a connection or a process; a session has one at a time (P10).

A row in the store says which process holds a session's current turn, and until when; that process renews the hold. No
process holds a turn that waits for approvals. Once the approvals are decided, or if its process has died, a turn is
continued by any process that looks for such turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from pydantic_core import from_json

from capset.clock import iso
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.hooks import Hooks
from capset.errors import (
    ApprovalExpired,
    CapsetError,
    Conflict,
    InternalError,
    Interrupted,
    NotFound,
    StateError,
    StoreError,
    TurnRunning,
    Unauthenticated,
)
from capset.evaluation.snapshot.capture import link_of
from capset.evaluation.snapshot.turns import record_turn
from capset.kernel.blocks.generation import continues
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.stores.base import SUSPENDED, Begun, EventRow, RunRow, SessionRow, TurnRow
from capset.wire.turns import (
    cancelled_event,
    discarded_event,
    failed_event,
    resumed_event,
    retried_event,
    started_event,
)
from capset_agents.checkpoints import TurnCheckpoint, read_checkpoint, write_checkpoint
from capset_agents.execution import RunningTurn, TooManyTurns, interrupted_event, owner_of, suspended_error
from capset_agents.hosts import CallerAbsent, NewTurn, TurnHost, WrongProcess
from capset_agents.journal import TurnJournal, held_until, read_conversation

POLL_SECONDS: Final = 1.0
"""How often a process looks for turns to continue."""
MAX_TAKEOVERS: Final = 3
"""How many times a turn is continued after its process died, so that it cannot crash every process."""
CALLER: Final = "caller"
"""The holder of a turn that waits for its caller to return with a valid credential."""
_APPROVAL_EXPIRED: Final = "The approval of this turn did not come in time."
_log = logging.getLogger("capset.agents")


class TurnService:
    """The turns that this process runs."""

    def __init__(
        self,
        kernel: Kernel,
        host: TurnHost,
        *,
        seconds: float = 3_600.0,
        max_turns: int = 16,
        on_stored: Callable[[str], None] = lambda session: None,
    ) -> None:
        """``seconds`` limits the run time of a turn, without the time that it waits for approvals.

        ``max_turns`` limits the concurrent turns of one principal, each of which has a conversation in memory.
        ``on_stored`` is called with the id of each session whose events change.
        """
        self._max_turns = max_turns
        self._kernel = kernel
        self._host = host
        self._seconds = seconds
        self._on_stored = on_stored
        self.process = ""
        """The name of this process as the holder of turns, unique to it. It is generated if it is empty."""
        self.running: dict[str, RunningTurn] = {}
        """The running turns, by id."""
        self._wake = asyncio.Event()
        self._starting: Counter[tuple[str | None, str, str]] = Counter()
        """How many turns of each principal are about to run."""
        self._skipped = 0
        """How many due turns were left to other processes, or until there is room."""

    async def begin(self, row: SessionRow, new: NewTurn) -> Begun:
        """Begin a turn in the background, and return its id and the number of its first event.

        Raises ``TurnRunning`` or ``TurnSuspended`` while the session is in another turn, ``StateError`` (409) if the
        run is not queued, ``TooManyTurns`` if too many of the principal's turns run here, and ``StateError`` (404) if
        the session was deleted.
        """
        with self._turn_slot(row) as has_slot:
            if not has_slot:
                raise TooManyTurns(
                    f"The limit 'turns' is {self._max_turns} turns at once for one principal: wait for one to end, or "
                    "cancel one"
                )
            kernel, events = self._kernel, self._kernel.store.events
            turn = RunningTurn(kernel, row, self._seconds)
            session = await new.open(turn.hooks)
            runtime_hash = session.snapshot.runtime_hash
            checkpoint = TurnCheckpoint(
                content=new.content, correlation=new.correlation, caller=new.caller, runtime_hash=runtime_hash
            )
            # Stored from the start: an acknowledged turn is executed even if this process dies at once.
            stored_checkpoint = write_checkpoint(checkpoint) if continues(kernel.generator) else None
            turn_row = TurnRow(
                row.id, new.run or kernel.new_id(), self._own_holder(), held_until(kernel), stored_checkpoint
            )
            started = started_event(row.agent, row.agent_version, runtime_hash)
            begun = await events.begin(
                turn_row,
                started,
                now=kernel.now(),
                interrupted=interrupted_event(),
                is_queued=new.run is not None,
                run=_run_row(row, turn_row, new, kernel.now()) if new.run is None else None,
            )
            if begun.turn != turn_row.turn:
                raise await self._busy_error(row, begun)
            self._on_stored(row.id)
            try:
                await self._record_link(row, turn_row, session, "turn.started")
                turn.journal = await self._journal(row, turn_row, checkpoint)
            except CapsetError as error:
                await self._fail_turn(turn_row, error)
                raise
            self._spawn(turn, session)
            return begun

    def abandon(self, session: str) -> None:
        """Cancel the turn of a deleted session if it runs here. In other processes it ends with its next event."""
        for turn in self.running.values():
            if turn.journal.session == session:
                turn.abandon()

    async def cancel(self, row: SessionRow, id: str, *, by: str) -> None:
        """Cancel a session's turn, in whichever process it runs, and wait until it has ended.

        Raises ``NotFound`` if the session is not in that turn, and ``Conflict`` if the turn was just renewed or ended.
        """
        running = self.running.get(id)
        is_here = running is not None and running.journal.session == row.id
        if running is not None and is_here:
            await running.cancel(by)
        events, kernel = self._kernel.store.events, self._kernel
        turn_row = (await events.read(row.id, after=0, limit=1)).running
        if is_here and (turn_row is None or turn_row.turn != id):
            return
        if turn_row is None or turn_row.turn != id:
            raise NotFound(f"the session {row.id!r} is not in the turn {id!r}")
        # Take it from its process, which notices with its next event, or when it renews its hold.
        taken_row = replace(turn_row, holder=self._own_holder(), until=held_until(kernel))
        if not await events.take(turn_row, taken_row):
            raise Conflict("the turn has just been renewed or has ended: try again")
        await events.append(taken_row, [cancelled_event(by)], now=kernel.now(), then=None)
        if turn_row.checkpoint is not None:
            with suppress(StateError):  # from a newer version: its approvals expire
                await kernel.approvals.withdraw(read_checkpoint(turn_row.checkpoint).approvals, org=row.org, by=by)
        self._on_stored(row.id)

    async def resume(
        self, row: SessionRow, id: str, caller: Mapping[str, Any], open_session: Callable[[Hooks], Awaitable[Session]]
    ) -> None:
        """Continue a turn that waits for its caller, whose process has died, or that has failed temporarily.

        ``open_session`` opens its session for the caller. Raises ``NotFound`` if the session is not in that turn,
        ``TurnRunning`` if a process runs it, ``TurnSuspended`` while it waits for approvals, ``ApprovalExpired`` if one
        came too late, and ``Conflict`` if the turn has failed permanently.
        """
        page = await self._kernel.store.events.read(row.id, after=0, limit=1)
        turn_row = page.running
        if turn_row is None:
            turn_row = await self._retry(row, id, caller, page.last)
        if turn_row is None or turn_row.turn != id:
            raise NotFound(f"the session {row.id!r} is not in the turn {id!r}")
        if turn_row.checkpoint is None or (
            turn_row.holder not in (SUSPENDED, CALLER) and turn_row.until > self._kernel.now()
        ):
            raise TurnRunning(f"the turn {id!r} is running")
        checkpoint = replace(read_checkpoint(turn_row.checkpoint), caller=caller)
        if turn_row.holder == SUSPENDED and any(map(self._has_expired, await self._requests(row, checkpoint))):
            await self._fail_turn(turn_row, late := ApprovalExpired(_APPROVAL_EXPIRED))
            raise late
        if pending := await self._pending(row, checkpoint):
            raise suspended_error(id, [request.id for request in pending])
        if not await self._take_over(row, turn_row, checkpoint, open_session):
            raise TurnRunning(f"the turn {id!r} is running")

    async def _retry(self, row: SessionRow, id: str, caller: Mapping[str, Any], last: int) -> TurnRow | None:
        """Begin a session's newest turn again if it failed temporarily; return ``None`` if it did not fail.

        The agent's input must be in the conversation. The turn gets its full time and budget again; its run counts what
        it had used. Raises ``Conflict`` if it failed permanently.
        """
        kernel = self._kernel
        newest = (await kernel.store.events.read(row.id, after=last - 1, limit=1)).items if last else ()
        if not newest or newest[0].turn != id or newest[0].type != "turn.failed":
            return None
        failed = from_json(newest[0].data)["error"]
        if not failed["retryable"] or await kernel.store.events.span(row.id, id) is None:
            raise Conflict(f"the turn {id!r} has failed for good ({failed['code']}): send another message")
        correlation = failed["correlation"] or kernel.new_id()
        run = await kernel.store.runs.get(id)
        checkpoint = TurnCheckpoint(
            content=None,
            correlation=correlation,
            caller=caller,
            runtime_hash="",
            earlier_usage={} if run is None or run.usage is None else from_json(run.usage),
        )
        retried = TurnRow(row.id, id, self._own_holder(), kernel.now(), write_checkpoint(checkpoint))
        begun = await kernel.store.events.begin(
            retried, retried_event(), now=kernel.now(), interrupted=interrupted_event()
        )
        return retried if begun.turn == id else None

    async def suspended_turn(self, row: SessionRow) -> tuple[str, Sequence[ApprovalRow]] | None:
        """Return the session's turn that waits for approvals, and its undecided requests, or ``None``."""
        turn_row = (await self._kernel.store.events.read(row.id, after=0, limit=1)).running
        if turn_row is None or turn_row.checkpoint is None or turn_row.holder != SUSPENDED:
            return None
        return turn_row.turn, await self._pending(row, read_checkpoint(turn_row.checkpoint))

    def wake(self) -> None:
        """Look now for turns to continue, since an approval was decided."""
        self._wake.set()

    async def watch(self) -> None:
        """Continue turns whose process has died or whose approvals are decided, until cancelled."""
        while True:
            try:
                await self.continue_due()
            except CapsetError as error:
                _log.warning("cannot read from the store which turns to continue: %s", error.message)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def continue_due(self) -> int:
        """Continue the turns that are due now, and return how many were continued or ended."""
        kernel, count = self._kernel, 0
        due = await kernel.store.events.due(kernel.now(), limit=100 + self._skipped)
        for turn_row in due:
            row = await kernel.find_session(turn_row.session)
            if row is None or turn_row.checkpoint is None:
                continue
            try:
                checkpoint = read_checkpoint(turn_row.checkpoint)
            except StateError as error:  # from a newer version, whose processes continue it
                _log.warning("the turn %s is left to others: %s", turn_row.turn, error.message)
                continue
            try:
                is_done = await self._continue(row, turn_row, checkpoint)
            except StoreError as error:
                _log.warning("the turn %s is left for the moment: %s", turn_row.turn, error.message)
                continue
            except CapsetError as error:
                is_done = await self._fail_turn(turn_row, error)
            except Exception:  # from third-party code: one turn must not end the watch over all
                _log.exception("the turn %s cannot be continued", turn_row.turn)
                unexpected = InternalError("The turn could not be continued, unexpectedly; the log has the details.")
                is_done = await self._fail_turn(turn_row, unexpected)
            count += is_done
        self._skipped = len(due) - count
        return count

    async def wait(self, id: str) -> None:
        """Wait until a turn of this process has ended or is suspended."""
        if (running := self.running.get(id)) is not None:
            await running.ended.wait()

    async def _continue(self, row: SessionRow, turn_row: TurnRow, checkpoint: TurnCheckpoint) -> bool:
        if turn_row.holder == CALLER:
            return await self._fail_turn(
                turn_row, Unauthenticated("The caller of this turn did not come back in time.")
            )
        if turn_row.holder == SUSPENDED:
            requests = await self._requests(row, checkpoint)
            if any(map(self._has_expired, requests)):
                return await self._fail_turn(turn_row, ApprovalExpired(_APPROVAL_EXPIRED))
            if any(request.status == "pending" for request in requests):  # one of several was decided
                later = replace(
                    turn_row, until=max(request.expires_at for request in requests if request.status == "pending")
                )
                await self._kernel.store.events.take(turn_row, later)
                return False
        elif checkpoint.takeovers >= MAX_TAKEOVERS:
            died = f"The turn was interrupted: {checkpoint.takeovers + 1} processes have ended while they ran it"
            return await self._fail_turn(turn_row, Interrupted(died))
        else:
            checkpoint = replace(checkpoint, takeovers=checkpoint.takeovers + 1)
        return await self._take_over(
            row, turn_row, checkpoint, lambda hooks: self._host.reopen(row, checkpoint.caller, hooks)
        )

    async def _take_over(
        self,
        row: SessionRow,
        turn_row: TurnRow,
        checkpoint: TurnCheckpoint,
        open_session: Callable[[Hooks], Awaitable[Session]],
    ) -> bool:
        """Run a turn here from its checkpoint. Return whether its row was taken; if not, it is tried later."""
        if turn_row.turn in self.running:
            return False  # it runs here: the hold only lapsed because the clock jumped ahead, and is renewed
        with self._turn_slot(row) as has_slot:
            if not has_slot:
                return False
            kernel, turn = self._kernel, RunningTurn(self._kernel, row, self._seconds)
            try:
                session = await open_session(turn.hooks)
            except WrongProcess:
                return False
            except CallerAbsent:
                in_a_day = iso(kernel.clock.time_ns() + 86_400 * 1_000_000_000)
                return await kernel.store.events.take(turn_row, replace(turn_row, holder=CALLER, until=in_a_day))
            runtime_hash = session.snapshot.runtime_hash
            has_changed = runtime_hash != checkpoint.runtime_hash
            resumed = resumed_event(checkpoint.approvals, checkpoint.runtime_hash, runtime_hash, checkpoint.takeovers)
            checkpoint = replace(checkpoint, approvals=(), runtime_hash=runtime_hash)
            taken_row = replace(
                turn_row, holder=self._own_holder(), until=held_until(kernel), checkpoint=write_checkpoint(checkpoint)
            )
            if not await kernel.store.events.take(turn_row, taken_row):
                return False  # another process was faster
            if has_changed:
                await self._record_link(row, turn_row, session, "turn.resumed")
            turn.journal = await self._journal(row, taken_row, checkpoint)
            if (discarded := discarded_event(await self._newest_events(row))) is not None:
                turn.journal.add_event(discarded)
            turn.journal.add_event(resumed)
            self._spawn(turn, session)
            return True

    async def _record_link(self, row: SessionRow, turn_row: TurnRow, session: Session, reason: str) -> None:
        """Record the exact versions that a turn runs. The payloads of its hashes are stored already."""
        link, store = link_of(session.snapshot), self._kernel.store
        metadata = {"turn": turn_row.turn}
        await record_turn(
            store, link, session=row.id, org=row.org, metadata=metadata, reason=reason, clock=self._kernel.clock
        )

    async def _journal(self, row: SessionRow, turn_row: TurnRow, checkpoint: TurnCheckpoint) -> TurnJournal:
        """Return the journal of a turn that is held. Before that, another one may still add to the conversation."""
        conversation = await read_conversation(self._kernel, row.id)
        return TurnJournal(
            self._kernel, turn_row, checkpoint, org=row.org, conversation=conversation, on_stored=self._on_stored
        )

    async def _newest_events(self, row: SessionRow) -> Sequence[EventRow]:
        """Return the newest events of a session. They include the last one of an answer that broke off."""
        events, count = self._kernel.store.events, 3  # the turn of that answer may have failed and been retried since
        last = (await events.read(row.id, after=0, limit=1)).last
        return (await events.read(row.id, after=max(last - count, 0), limit=count)).items

    async def _fail_turn(self, turn_row: TurnRow, error: CapsetError) -> bool:
        """End a turn that cannot be run, or continued."""
        kernel = self._kernel
        taken_row = replace(turn_row, holder=self._own_holder(), until=held_until(kernel))
        if not await kernel.store.events.take(turn_row, taken_row):
            return False
        await kernel.store.events.append(taken_row, [failed_event(error)], now=kernel.now(), then=None)
        self._on_stored(turn_row.session)
        return True

    def _spawn(self, turn: RunningTurn, session: Session) -> None:
        turn_id = turn.journal.turn
        self.running[turn_id] = turn

        async def run() -> None:
            try:
                await turn.run(session)
            finally:
                del self.running[turn_id]
                turn.ended.set()
                self._wake.set()  # an approval may have been decided while it was being suspended

        self._kernel.spawn(run(), name=f"capset-turn-{turn_id}")

    @contextmanager
    def _turn_slot(self, row: SessionRow) -> Generator[bool]:
        """Reserve room for a turn of the session's principal while it begins; yield whether there is any."""
        owner = owner_of(row)
        running = sum(turn.owner == owner for turn in self.running.values())
        self._starting[owner] += 1
        try:
            yield running + self._starting[owner] <= self._max_turns
        finally:
            self._starting[owner] -= 1
            if not self._starting[owner]:
                del self._starting[owner]

    async def _requests(self, row: SessionRow, checkpoint: TurnCheckpoint) -> Sequence[ApprovalRow]:
        requests = [await self._kernel.store.approvals.get(row.org, approval) for approval in checkpoint.approvals]
        return [request for request in requests if request is not None]

    async def _pending(self, row: SessionRow, checkpoint: TurnCheckpoint) -> Sequence[ApprovalRow]:
        requests = await self._requests(row, checkpoint)
        return [request for request in requests if request.status == "pending" and not self._has_expired(request)]

    def _has_expired(self, request: ApprovalRow) -> bool:
        return request.status == "expired" or (request.status == "pending" and request.expires_at <= self._kernel.now())

    async def _busy_error(self, row: SessionRow, begun: Begun) -> CapsetError:
        running = (await self._kernel.store.events.read(row.id, after=begun.last, limit=1)).running
        if running is not None and running.holder == SUSPENDED and running.checkpoint is not None:
            return suspended_error(running.turn, read_checkpoint(running.checkpoint).approvals)
        return TurnRunning(f"the session {row.id!r} is in the turn {begun.turn!r}: wait for its end")

    def _own_holder(self) -> str:
        """Return a name for holding a turn now.

        It differs each time, so that a task left over from before the turn was last taken has no further effect.
        """
        self.process = self.process or self._kernel.new_id()
        return f"{self.process}/{self._kernel.new_id()}"


def process_of(holder: str) -> str:
    """Return the process that holds a turn."""
    return holder.partition("/")[0]


def _run_row(row: SessionRow, turn_row: TurnRow, new: NewTurn, now: str) -> RunRow:
    """Return the run of a turn that begins where it was requested, without a queue."""
    return RunRow(
        id=turn_row.turn,
        org=row.org,
        principal=row.principal,
        principal_kind=row.principal_kind,
        on_behalf_of=row.on_behalf_of,
        kind="turn",
        session=row.id,
        agent=row.agent,
        correlation=new.correlation,
        created_at=now,
        state="running",
    )

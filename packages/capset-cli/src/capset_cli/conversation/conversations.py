"""A conversation with an agent, on this machine or on a server: messages to it, and the events of its turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from capset.definitions.blocks import Block
from capset.definitions.governance.approvals import Answer
from capset.definitions.governance.hooks import Hooks
from capset.definitions.principals import Principal
from capset.kernel.call.session import Session
from capset.kernel.kernel import Kernel
from capset.stores.base import ApprovalQuery, SessionRow
from capset.wire.turns import ENDINGS, EventShape, GapShape, event_shape
from capset_agents.hosts import NewTurn, WrongProcess
from capset_agents.turns import TurnService
from capset_cli.common.settings import Settings

if TYPE_CHECKING:
    from capset_server.client import Client


class OpenConversation(Protocol):
    """A conversation. ``can_decide`` says whether its approval requests can be decided through it.

    ``approve_options`` are those that ``capset approvals approve`` needs besides those of the database or server.
    """

    session: str
    can_decide: bool
    approve_options: str

    async def send(self, content: Any) -> tuple[str, int]:
        """Begin a turn; return its id, and the number of the event before its first event."""
        ...

    def events(self, turn: str, after: int) -> AsyncGenerator[EventShape]:
        """Yield the events of a turn as they come, up to its end."""
        ...

    async def newest_turn(self) -> list[EventShape]:
        """Return the events so far of the session's newest turn; none if it had no turn."""
        ...

    async def is_pending(self) -> bool:
        """Return whether an approval request is pending."""
        ...

    async def cancel(self, turn: str) -> None:
        """Cancel a turn."""
        ...

    async def unmasked_arguments(self, approval: str) -> Any:
        """Return a request's arguments, masked only where its tool's schema says so. The reading is recorded."""
        ...

    async def decide(self, approval: str, answer: Answer) -> bool:
        """Answer a request, and return whether that decides it. Raises ``PermissionDenied`` for one's own request.

        A request that needs further approvals by others is not decided yet.
        """
        ...


class LocalConversation:
    """A conversation on a kernel of this process. ``approver`` decides its requests, if there is one."""

    def __init__(self, kernel: Kernel, row: SessionRow, agent: Block, settings: Settings, approver: str | None) -> None:
        self.session = row.id
        self.can_decide = approver is not None
        self.approve_options = " --principal WHO"
        self._kernel = kernel
        self._row = row
        self._agent = agent
        self._settings = settings
        self._approver = Principal(approver) if approver is not None else None
        self._changed = asyncio.Event()
        self.turns = TurnService(kernel, self, on_stored=lambda _: self._changed.set())

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Return the session of a turn of this conversation. Raises ``WrongProcess`` for any other session."""
        if row.id != self.session:
            raise WrongProcess
        return await self._kernel.enter(
            row, self._agent, principal=self._settings.principal, env=self._settings.env, hooks=hooks
        )

    async def send(self, content: Any) -> tuple[str, int]:
        async def opening(hooks: Hooks) -> Session:
            return await self.reopen(self._row, {}, hooks)

        principal = self._settings.principal
        caller = {"kind": "local", "principal": principal.qualified_id}
        begun = await self.turns.begin(self._row, NewTurn(content, self._kernel.new_id(), caller, opening))
        return begun.turn, begun.last - 1

    async def events(self, turn: str, after: int) -> AsyncGenerator[EventShape]:
        """Yield the events of a turn as they come, up to its end, whichever process runs it."""
        while True:
            self._changed.clear()
            page = await self._kernel.store.events.read(self.session, after=after, limit=100)
            for row in page.items:
                after = row.seq
                if row.turn == turn:
                    yield event_shape(row)
                    if row.type in ENDINGS:
                        return
            if page.items:
                continue
            try:
                async with asyncio.timeout(1):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def newest_turn(self) -> list[EventShape]:
        events, after = list[EventShape](), 0
        while page := (await self._kernel.store.events.read(self.session, after=after, limit=100)).items:
            events += map(event_shape, page)
            after = page[-1].seq
        return [event for event in events if event.turn == events[-1].turn]

    async def is_pending(self) -> bool:
        query = ApprovalQuery(self._row.org, "pending", self.session, limit=1)
        return bool((await self._kernel.approvals.list(query)).items)

    async def cancel(self, turn: str) -> None:
        principal = self._settings.principal
        await self.turns.cancel(self._row, turn, by=principal.qualified_id)

    async def unmasked_arguments(self, approval: str) -> Any:
        assert self._approver is not None  # noqa: S101  # ``can_decide`` says so
        row = await self._kernel.approvals.get(approval, org=self._row.org)
        return (await self._kernel.approvals.show_arguments(row, by=self._approver)).arguments

    async def decide(self, approval: str, answer: Answer) -> bool:
        assert self._approver is not None  # noqa: S101  # ``can_decide`` says so
        row = await self._kernel.approvals.decide(approval, answer, by=self._approver)
        self.turns.wake()
        return row.status != "pending"


class RemoteConversation:
    """A conversation on a server. ``approver`` is a client with a second key, which decides requests."""

    def __init__(self, client: Client, session: str, approver: Client | None) -> None:
        self.session = session
        self.can_decide = approver is not None
        self.approve_options = ""
        self._client = client
        self._approver = approver

    async def send(self, content: Any) -> tuple[str, int]:
        turn = await self._client.sessions.send(self.session, content)
        return turn.turn, turn.after

    async def events(self, turn: str, after: int) -> AsyncGenerator[EventShape]:
        async with self._client.sessions.events(self.session, after=after) as stream, aclosing(stream):
            async for event in stream:
                if isinstance(event, GapShape) or event.turn != turn:
                    continue
                yield event
                if event.type in ENDINGS:
                    return

    async def newest_turn(self) -> list[EventShape]:
        events = list[EventShape]()
        async with self._client.sessions.events(self.session, follow=False) as stream, aclosing(stream):
            async for event in stream:
                if isinstance(event, EventShape):
                    events.append(event)
        return [event for event in events if event.turn == events[-1].turn]

    async def is_pending(self) -> bool:
        return bool((await self._client.approvals.list(status="pending", session=self.session, limit=1)).items)

    async def cancel(self, turn: str) -> None:
        await self._client.sessions.cancel(self.session, turn)

    async def unmasked_arguments(self, approval: str) -> Any:
        assert self._approver is not None  # noqa: S101  # ``can_decide`` says so
        return (await self._approver.approvals.arguments(approval)).arguments

    async def decide(self, approval: str, answer: Answer) -> bool:
        assert self._approver is not None  # noqa: S101  # ``can_decide`` says so
        decisions = self._approver.approvals
        if answer.approved:
            arguments = None if answer.arguments is None else dict(answer.arguments)
            request = await decisions.approve(approval, arguments=arguments, note=answer.note)
        else:
            request = await decisions.reject(approval, note=answer.note)
        return request.status != "pending"

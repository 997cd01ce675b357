"""The runs of a local database, under the rules of a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import datetime

from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import RunQuery, RunRow, RunState
from capset.wire.runs import RunPageShape, Whose, run_page_shape
from capset.wire.traces import RunTraceShape
from capset.wire.turns import EventShape, GapShape
from capset_server.auth.callers import Caller
from capset_server.followers import Gap, follow_run
from capset_server.runs.observation import (
    check_whose,
    event_shape_for,
    find_followable,
    first_id,
    read_run,
    record_reading,
)
from capset_server.runs.traces import trace_run
from capset_server.service import Service


class LocalRuns:
    """The methods of ``client.runs`` that read."""

    def __init__(self, kernel: Kernel, principal: Principal) -> None:
        self._service = Service(kernel, Registry.installed())
        self._caller = Caller(principal, frozenset({"capset:admin"}), None)

    async def list(
        self,
        *,
        whose: Whose = "own",
        principal: str | None = None,
        session_id: str | None = None,
        agent: str | None = None,
        state: RunState | None = None,
        queue: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPageShape:
        """List the runs that match all filters, newest first: the principal's, or ``all`` of its organisation.

        Raises ``InvalidArguments`` for a ``principal`` among the principal's own.
        """
        check_whose(self._caller, whose, principal)
        owner = self._caller.principal
        query = RunQuery(
            owner.org,
            principal,
            None,
            state,
            queue,
            session_id,
            agent,
            since=_first_id(since),
            limit=limit,
            before=cursor,
        )
        if whose == "own":
            query = replace(query, principal=owner.id, principal_kind=owner.kind, on_behalf_of=owner.on_behalf_of)
        if until is not None:
            query = replace(query, before=min(filter(None, (cursor, _first_id(until)))))
        return await run_page_shape(self._service.kernel.store.runs.list, query, with_outcomes=whose == "own")

    async def trace(self, id: str) -> RunTraceShape:
        """Return a run as a tree. Raises ``NotFound``."""
        return await trace_run(self._service, await read_run(self._service, self._caller, id, part="trace"))

    @asynccontextmanager
    async def events(self, id: str, *, follow: bool = True) -> AsyncGenerator[AsyncGenerator[EventShape | GapShape]]:
        """Read the events of a run: ``async with admin.runs.events(id) as events``."""
        row = await find_followable(self._service, self._caller, id)
        await record_reading(self._service, self._caller, row, part="events")
        async with aclosing(self._follow(row, waits=follow)) as events:
            yield events

    async def _follow(self, row: RunRow, *, waits: bool) -> AsyncGenerator[EventShape | GapShape]:
        bell, shape = self._service.turns.bell, event_shape_for(self._service, self._caller, row)
        async with aclosing(follow_run(self._service.kernel, bell, row, waits=waits)) as events:
            async for event in events:
                yield GapShape(after=event.after, last=event.last) if isinstance(event, Gap) else shape(event)


def _first_id(time: str | None) -> str | None:
    return None if time is None else first_id(datetime.fromisoformat(time))

"""A hosted session: a kernel session, and what is to happen around each of its turns (spec 2, F25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Self

from capset.definitions.blocks import Block
from capset.definitions.principals import Principal
from capset.evaluation.error_mapping import is_contained
from capset.evaluation.evaluate import Labels
from capset.evaluation.hook_dispatch import dispatch_hooks
from capset.kernel.call.session import Session
from capset.kernel.hosting.declaration import Declaration, merge_context
from capset.kernel.hosting.events import ContextMerged, SessionTurn, Stage, TurnEnded, TurnFailed, TurnStarted
from capset.kernel.hosting.hooks import OneOrMore, SessionHooks, fire
from capset.kernel.kernel import Kernel, no_session
from capset.stores.base import SessionRow


@dataclass(frozen=True, eq=False, slots=True)
class Occasion:
    """Who acts, where, and what else each turn is evaluated with."""

    principal: Principal
    env: Mapping[str, Any]
    labels: Labels


class HostedSession:
    """One conversation of a registered agent: each ``start`` is one turn of it.

    Made by ``SessionHost.create_session()``. The ``on_…`` methods add hooks for the turns that start later, and return
    the session itself.

    Every turn opens the kernel session again, so that its policies are asked anew and its snapshot is its own. Turns
    may overlap, as calls may; for one after the other, await each.
    """

    __slots__ = ("_declared", "_id", "_kernel", "_new", "_occasion", "_opening")

    def __init__(self, kernel: Kernel, declared: Declaration, occasion: Occasion, session_id: str | None) -> None:
        """``session_id`` is that of a session that is there; without one, this begins a new one."""
        self._kernel = kernel
        self._declared = declared
        self._occasion = occasion
        self._new: SessionRow | None = None  # what is to be kept, until it is
        if session_id is None:
            self._new = kernel.new_session(declared.agent, occasion.principal)
            session_id = self._new.id
        self._id = session_id
        self._opening = asyncio.Lock()

    @property
    def id(self) -> str:
        """The id of the kernel session, which is kept from the first turn on that comes to opening it."""
        return self._id

    @property
    def agent(self) -> Block:
        """The agent that it runs, as it was registered when this was created."""
        return self._declared.agent

    @property
    def agent_id(self) -> str:
        """The id under which the agent was registered."""
        return self._declared.agent_id

    async def start(self, input: Any = None) -> Any:  # of the types of ``run``, or of the agent
        """Take one turn, and return what ``run`` gives; without a ``run``, the agent itself runs.

        Raises what a hook, a resolver or ``run`` raises, ``NotFound`` for a session that is not there or not the
        principal's, ``ContextError`` for a resolver and ``InvalidOutput`` for a hook that gives what it must not, and
        what ``kernel.open`` and ``Session.run`` raise; ``on_error`` was told of it then.
        """
        return await take_turn(self._declared, input, self._open)

    def on_start(self, hook: OneOrMore[TurnStarted]) -> Self:
        """Add what is told first, of agent and input."""
        return self._hooked(SessionHooks(on_start=hook))

    def on_before_context(self, hook: OneOrMore[TurnStarted]) -> Self:
        """Add what is told before the context is merged, of agent and input."""
        return self._hooked(SessionHooks(on_before_context=hook))

    def on_after_context(self, hook: OneOrMore[ContextMerged]) -> Self:
        """Add what is told of the merged context."""
        return self._hooked(SessionHooks(on_after_context=hook))

    def on_before_run(self, hook: OneOrMore[SessionTurn]) -> Self:
        """Add what is told of the turn before it runs."""
        return self._hooked(SessionHooks(on_before_run=hook))

    def on_after_run(self, hook: OneOrMore[TurnEnded]) -> Self:
        """Add what is told of the output."""
        return self._hooked(SessionHooks(on_after_run=hook))

    def on_error(self, hook: OneOrMore[TurnFailed]) -> Self:
        """Add what is told of a failure, in whatever stage."""
        return self._hooked(SessionHooks(on_error=hook))

    def _hooked(self, hooks: SessionHooks) -> Self:
        self._declared = self._declared.hooked(hooks)
        return self

    async def _open(self) -> Session:
        async with self._opening:  # of turns that overlap, the first keeps a new session
            if self._new is not None:
                session = await self._enter(self._new)  # first, so that a bad agent leaves no session
                await self._kernel.store.sessions.create(self._new)
                self._new = None
                return session
        row = await self._kernel.find_session(self._id)
        if row is None:
            raise no_session(self._id, self._occasion.principal)
        return await self._enter(row)

    async def _enter(self, row: SessionRow) -> Session:
        occasion = self._occasion
        return await self._kernel.enter(
            row, self.agent, principal=occasion.principal, env=occasion.env, **occasion.labels
        )


async def take_turn(declared: Declaration, input: Any, open: Callable[[], Awaitable[Session]]) -> Any:
    """Take one turn, and return what ``run`` gives.

    ``on_start`` → ``on_before_context`` → the context is merged → ``on_after_context`` → the session is opened →
    ``on_before_run`` → ``run`` → ``on_after_run``. A turn that fails before it is opened leaves nothing
    in the store.

    Raises what a stage raises, after ``on_error`` was told. A cancellation from outside passes untold.
    """
    agent, hooks = declared.agent, declared.hooks
    stage: Stage = "start"
    context: Mapping[str, Any] | None = None
    session: Session | None = None
    try:
        started = TurnStarted(agent, input)
        await fire(hooks.on_start, started)
        stage = "before_context"
        await fire(hooks.on_before_context, started)
        stage = "context"
        context = await merge_context(declared.context, input)
        stage = "after_context"
        await fire(hooks.on_after_context, ContextMerged(agent, input, context))
        stage = "open"
        session = await open()
        stage, turn = "before_run", SessionTurn(agent, input, context, session)
        await fire(hooks.on_before_run, turn)
        stage = "run"
        output = await _run(declared, turn)
        stage = "after_run"
        await fire(hooks.on_after_run, TurnEnded(agent, input, context, session, output))
    except BaseException as error:
        if is_contained(error):
            await dispatch_hooks(hooks.on_error, TurnFailed(agent, input, stage, error, context, session))
        raise
    return output


async def _run(declared: Declaration, turn: SessionTurn) -> Any:
    if declared.run is None:
        return await turn.session.run(turn.input)
    output = declared.run(turn)
    return await output if isawaitable(output) else output

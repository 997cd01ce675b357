"""The way of one turn, from its input to its output (spec 2, F24)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any

from capset.evaluation.containment import is_contained
from capset.evaluation.telling import tell
from capset.kernel.hosting.context import merge_context
from capset.kernel.hosting.declaring import Declaration
from capset.kernel.hosting.events import ContextMerged, SessionTurn, Stage, TurnEnded, TurnFailed, TurnStarted
from capset.kernel.hosting.hooks import fire
from capset.kernel.session import Session


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
            await tell(hooks.on_error, TurnFailed(agent, input, stage, error, context, session))
        raise
    return output


async def _run(declared: Declaration, turn: SessionTurn) -> Any:
    if declared.run is None:
        return await turn.session.run(turn.input)
    output = declared.run(turn)
    return await output if isawaitable(output) else output

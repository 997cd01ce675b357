"""Hooks around a turn. Unlike a hook of the pipeline, a hook that raises fails the turn (spec 2, F24)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, fields
from inspect import isawaitable, signature
from typing import Any, Final, TypeVar

from capset.definitions.governance.hooks import checked_functions
from capset.errors import DefinitionError, InvalidOutput
from capset.evaluation.containment import name_of
from capset.kernel.hosting.events import ContextMerged, SessionTurn, TurnEnded, TurnFailed, TurnStarted

E = TypeVar("E")
Hook = Callable[[E], Awaitable[None] | None]
OneOrMore = Hook[E] | Iterable[Hook[E]]


@dataclass(frozen=True, eq=False, slots=True, init=False)
class SessionHooks:
    """Functions, sync or async, that take one event each and are awaited in order.

    An exception fails the stage of its hook, except in ``on_error``, where it is logged. Hooks return ``None``.
    """

    on_start: tuple[Hook[TurnStarted], ...] = ()
    on_before_context: tuple[Hook[TurnStarted], ...] = ()
    on_after_context: tuple[Hook[ContextMerged], ...] = ()
    on_before_run: tuple[Hook[SessionTurn], ...] = ()
    on_after_run: tuple[Hook[TurnEnded], ...] = ()
    on_error: tuple[Hook[TurnFailed], ...] = ()

    def __init__(
        self,
        *,
        on_start: OneOrMore[TurnStarted] = (),
        on_before_context: OneOrMore[TurnStarted] = (),
        on_after_context: OneOrMore[ContextMerged] = (),
        on_before_run: OneOrMore[SessionTurn] = (),
        on_after_run: OneOrMore[TurnEnded] = (),
        on_error: OneOrMore[TurnFailed] = (),
    ) -> None:
        """Accept one or several functions per event. Raises ``DefinitionError`` for one not callable with an event."""
        by_event = {
            "on_start": on_start,
            "on_before_context": on_before_context,
            "on_after_context": on_after_context,
            "on_before_run": on_before_run,
            "on_after_run": on_after_run,
            "on_error": on_error,
        }
        for name, value in by_event.items():
            functions = checked_functions(name, value)
            for function in functions:
                check_arity(f"hooks: {name}", function, "event")
            object.__setattr__(self, name, functions)


NO_SESSION_HOOKS: Final = SessionHooks()


def checked_session_hooks(owner: str, hooks: SessionHooks | None) -> SessionHooks:
    """Return the hooks; no hooks for ``None``. Raises ``DefinitionError`` for anything else, naming ``owner`` first."""
    if hooks is None:
        return NO_SESSION_HOOKS
    if not isinstance(hooks, SessionHooks):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(
            f"{owner}: hooks must be SessionHooks(on_start=…); got {hooks!r:.80}",
            hint="pass hooks for policies and tools as tool_hooks=Hooks(…)",
        )
    return hooks


def merge_session_hooks(*hooks: SessionHooks) -> SessionHooks:
    """Return hooks with the functions of all of them, in order."""
    merged = object.__new__(SessionHooks)  # all functions are checked already
    for field in fields(SessionHooks):
        functions: list[Any] = [function for hook_set in hooks for function in getattr(hook_set, field.name)]
        object.__setattr__(merged, field.name, tuple(functions))
    return merged


async def fire(functions: Iterable[Hook[E]], event: E) -> None:
    """Call each function with the event and wait for it; stop at the first exception and propagate it."""
    for function in functions:
        returned: object = function(event)
        if isawaitable(returned):
            returned = await returned
        if returned is not None:  # for example a generator, which has not started
            raise InvalidOutput(
                f"the session hook {name_of(function)} returned {type(returned).__name__}; it must return None",
                hint="to add to the context, use a resolver: context=[resolver]",
            )


def check_arity(label: str, function: Callable[..., object], *names: str) -> None:
    """Raise ``DefinitionError`` for a function that cannot be called with these positional arguments."""
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        parameters.bind(*names)
    except TypeError as error:
        taken = " and ".join(names)
        raise DefinitionError(f"{label} is called with the {taken}; got a function of {parameters} ({error})") from None

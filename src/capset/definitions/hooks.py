"""What a host may hang on the pipeline: told of policies and of executions, changing neither (spec 2, F23).

Hooks are never hashed. They are awaited in order: outer ancestors, inner ones, the tool's own, those of the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from capset.definitions.names import listed
from capset.definitions.policies import Decision, Policy, Request
from capset.definitions.principals import Principal
from capset.errors import CapsetError, DefinitionError

if TYPE_CHECKING:
    from capset.definitions.tools.definition import AnyTool


@dataclass(frozen=True, slots=True)
class PolicyEvaluated:
    """A policy was asked. ``error`` is what it raised, if it did; the decision is a denial then.

    ``owner`` is the first that carries the policy, in traversal order: a tool's, a toolkit's, a capability's or a
    block's name. ``request`` has tool and arguments at a call.
    """

    policy: Policy
    decision: Decision
    request: Request
    owner: str
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ToolExecuted:
    """A call was let through to its tool's handler, and has ended and is on record; of a cancelled one nobody is told.

    ``name`` is what it is called here, ``arguments`` are as validated, ``result`` is of the tool's own type and
    ``None`` where there is an ``error``. ``record`` is the id of the call's record, ``duration_us`` microseconds.
    """

    tool: AnyTool
    name: str
    arguments: Mapping[str, Any]
    result: Any
    error: CapsetError | None
    principal: Principal
    session: str
    record: str
    correlation: str
    duration_us: int


OnPolicyEvaluated = Callable[[PolicyEvaluated], Awaitable[None] | None]
OnToolExecuted = Callable[[ToolExecuted], Awaitable[None] | None]


@dataclass(frozen=True, eq=False, slots=True, init=False)
class Hooks:
    """Functions, sync or async, of one event each. What one of them raises is logged, and changes no outcome."""

    on_policy_evaluated: tuple[OnPolicyEvaluated, ...] = ()
    on_tool_executed: tuple[OnToolExecuted, ...] = ()

    def __init__(
        self,
        *,
        on_policy_evaluated: OnPolicyEvaluated | Iterable[OnPolicyEvaluated] = (),
        on_tool_executed: OnToolExecuted | Iterable[OnToolExecuted] = (),
    ) -> None:
        """Take one function or several of each, each once. Raises ``DefinitionError`` for what cannot be called."""
        object.__setattr__(self, "on_policy_evaluated", checked_functions("on_policy_evaluated", on_policy_evaluated))
        object.__setattr__(self, "on_tool_executed", checked_functions("on_tool_executed", on_tool_executed))

    def __bool__(self) -> bool:
        return bool(self.on_policy_evaluated or self.on_tool_executed)


def checked_functions(what: str, given: Any) -> tuple[Any, ...]:
    """Return one function, or several, of one event each, each once. Raises ``DefinitionError`` for what is none."""
    kept: list[Any] = []
    for one in [given] if callable(given) else listed(f"hooks: {what}", given):
        if not callable(one):
            raise DefinitionError(f"hooks: {what} takes functions of one event; got {one!r:.80}")
        # A method is another object each time that it is taken from its own.
        if not any(one is other or (isinstance(one, MethodType) and one == other) for other in kept):
            kept.append(one)
    return tuple(kept)


NO_HOOKS: Final = Hooks()


def merge_hooks(*hooks: Hooks | None) -> Hooks:
    """Return the functions of all in order, each once: those of outer ancestors come first, a run's last."""
    given = [one for one in dict.fromkeys(hooks) if one]
    if len(given) < 2:
        return given[0] if given else NO_HOOKS
    return Hooks(
        on_policy_evaluated=[function for one in given for function in one.on_policy_evaluated],
        on_tool_executed=[function for one in given for function in one.on_tool_executed],
    )


def checked_hooks(owner: str, hooks: Hooks | None) -> Hooks:
    """Return the hooks, or none. Raises ``DefinitionError`` for anything else, beginning with ``owner``."""
    if hooks is None:
        return NO_HOOKS
    if not isinstance(hooks, Hooks):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(f"{owner}: hooks is Hooks(on_tool_executed=…); got {hooks!r:.80}")
    return hooks

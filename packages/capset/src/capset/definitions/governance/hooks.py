"""Hooks: a host's observers of policies and executions, which they cannot change (spec 2, F23).

Hooks are never hashed. They are awaited in order: outer ancestors, inner ones, the tool's own, those of the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from capset.definitions.governance.policies import Decision, Policy, Request
from capset.definitions.names import checked_list
from capset.definitions.principals import Principal
from capset.errors import CapsetError, DefinitionError

if TYPE_CHECKING:
    from capset.definitions.tools.definition import AnyTool


@dataclass(frozen=True, slots=True)
class PolicyEvaluated:
    """A policy was evaluated. ``error`` is the exception that it raised, if any; the decision is then a denial.

    ``owner`` is the name of the first tool, toolkit, capability or block that carries the policy, in traversal order.
    ``request`` has the tool and its arguments if it was evaluated for a call.
    """

    policy: Policy
    decision: Decision
    request: Request
    owner: str
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ToolExecuted:
    """A call that reached its tool's handler has ended and is recorded; cancelled calls are not reported.

    ``name`` is the tool's name in the composition, ``arguments`` are the validated ones, and ``result`` has the tool's
    own type, or is ``None`` if there is an ``error``. ``record`` is the id of the call's record, ``duration_us`` is in
    microseconds.
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
    """Functions, sync or async, that take one event each. Their exceptions are logged, and change no outcome."""

    on_policy_evaluated: tuple[OnPolicyEvaluated, ...] = ()
    on_tool_executed: tuple[OnToolExecuted, ...] = ()

    def __init__(
        self,
        *,
        on_policy_evaluated: OnPolicyEvaluated | Iterable[OnPolicyEvaluated] = (),
        on_tool_executed: OnToolExecuted | Iterable[OnToolExecuted] = (),
    ) -> None:
        """Take one or several functions per event, each once. Raises ``DefinitionError`` if one is not callable."""
        object.__setattr__(self, "on_policy_evaluated", checked_functions("on_policy_evaluated", on_policy_evaluated))
        object.__setattr__(self, "on_tool_executed", checked_functions("on_tool_executed", on_tool_executed))

    def __bool__(self) -> bool:
        return bool(self.on_policy_evaluated or self.on_tool_executed)


def checked_functions(hook_name: str, functions: Any) -> tuple[Any, ...]:
    """Return one or several functions as a tuple, each once. Raises ``DefinitionError`` if one is not callable."""
    distinct: list[Any] = []
    for function in [functions] if callable(functions) else checked_list(f"hooks: {hook_name}", functions):
        if not callable(function):
            raise DefinitionError(f"hooks: {hook_name} takes functions of one event; got {function!r:.80}")
        # Each access to a method creates a new object, so compare methods by equality.
        if not any(function is other or (isinstance(function, MethodType) and function == other) for other in distinct):
            distinct.append(function)
    return tuple(distinct)


NO_HOOKS: Final = Hooks()


def merge_hooks(*hooks: Hooks | None) -> Hooks:
    """Merge hooks in order, each function once: those of outer ancestors come first, those of a run last."""
    present = [hook_set for hook_set in dict.fromkeys(hooks) if hook_set]
    if len(present) < 2:
        return present[0] if present else NO_HOOKS
    return Hooks(
        on_policy_evaluated=[function for hook_set in present for function in hook_set.on_policy_evaluated],
        on_tool_executed=[function for hook_set in present for function in hook_set.on_tool_executed],
    )


def checked_hooks(owner: str, hooks: Hooks | None) -> Hooks:
    """Return the hooks, or empty ones. Raises ``DefinitionError`` for anything else, starting with ``owner``."""
    if hooks is None:
        return NO_HOOKS
    if not isinstance(hooks, Hooks):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(f"{owner}: hooks is Hooks(on_tool_executed=…); got {hooks!r:.80}")
    return hooks

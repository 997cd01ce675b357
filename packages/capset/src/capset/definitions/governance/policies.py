"""Policies: functions from a request to a decision (spec 2, F15–F20)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, overload

from capset.definitions.callables import checked_function
from capset.definitions.identity import Definition
from capset.definitions.names import POLICY, checked_list, checked_name, checked_text
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, PolicyConflict

if TYPE_CHECKING:
    from capset.definitions.tools.definition import Tool


DecisionKind = Literal["allow", "deny", "ask"]
_KINDS: Final = get_args(DecisionKind)
Binding = Literal["live", "snapshot"]
Phase = Literal["both", "evaluate", "call"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a policy. Make one with ``allow()``, ``deny(reason)`` or ``ask(reason)``."""

    kind: DecisionKind
    reason: str | None = None

    def __post_init__(self) -> None:
        # A misspelt denial or question must not pass for something else.
        if self.kind not in _KINDS:
            raise DefinitionError(f"a decision is allow, deny or ask; got {self.kind!r}")


_ALLOW = Decision("allow")


def allow() -> Decision:
    """Allow the request, as far as this policy is concerned."""
    return _ALLOW


def deny(reason: str) -> Decision:
    """Refuse the request. ``reason`` is shown to the model and written into the record."""
    return Decision("deny", checked_text("a denial's reason", reason))


def ask(reason: str) -> Decision:
    """Require approval first. ``reason`` is shown to the approvers, and written into the record.

    In the evaluation of a snapshot, the tool stays in play, and its calls require approval.
    """
    return Decision("ask", checked_text("a question's reason", reason))


class Request(NamedTuple):
    """The input of a policy.

    ``env`` comes from the server, never from the body of a request. ``tool`` and its validated ``arguments`` are set at
    a call; both are ``None`` while a snapshot is evaluated, when one decision applies to every tool that carries the
    policy. Values are ``Any`` because their types are those of the host and the tool. A named tuple, for speed: one is
    made for every call that has policies.
    """

    env: Mapping[str, Any]
    principal: Principal
    tool: Tool[..., Any] | None = None
    arguments: Mapping[str, Any] | None = None


Answer = Decision | bool | Awaitable[Decision | bool]
Evaluate = Callable[[Request], Answer]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Policy(Definition):
    """A named policy, compared by identity: one object is evaluated once, however many tools carry it.

    ``phase`` is when it is evaluated: with a snapshot (``evaluate``), at every ``call``, with the arguments, or at
    ``both``. At a call, a ``live`` policy is evaluated again, while a ``snapshot`` policy keeps its decision from the
    snapshot. An exception denies.
    """

    id: str
    evaluate: Evaluate
    binding: Binding = "live"
    phase: Phase = "both"

    def __post_init__(self) -> None:
        checked_name("a policy's id", self.id, POLICY)
        checked_function(f"policy {self.id!r}", self.evaluate, "the request")
        for label, value, literal in (("binding", self.binding, Binding), ("phase", self.phase, Phase)):
            if value not in get_args(literal):
                raise DefinitionError(f"policy {self.id!r}: {label} must be one of {get_args(literal)}; got {value!r}")
        if self.binding == "snapshot" and self.phase == "call":
            raise DefinitionError(
                f"policy {self.id!r} is evaluated at calls only, so there is no snapshot decision to keep",
                hint="leave out binding='snapshot', or phase='call'",
            )

    @property
    def is_asked_at_evaluation(self) -> bool:
        """Whether it is evaluated with a snapshot."""
        return self.phase != "call"

    @property
    def is_live(self) -> bool:
        """Whether it is evaluated at a call."""
        return self.phase != "evaluate" and self.binding == "live"


@overload
def policy(evaluate: Evaluate, /) -> Policy: ...
@overload
def policy(
    *, id: str | None = None, binding: Binding = "live", phase: Phase = "both"
) -> Callable[[Evaluate], Policy]: ...
@overload
def policy(id: str, evaluate: Evaluate, /, *, binding: Binding = "live", phase: Phase = "both") -> Policy: ...
def policy(
    first: Evaluate | str | None = None,
    second: Evaluate | None = None,
    /,
    *,
    id: str | None = None,
    binding: Binding = "live",
    phase: Phase = "both",
) -> Policy | Callable[[Evaluate], Policy]:
    """Make a policy from a function ``(request) -> Decision | bool``, sync or async; its name is the policy's id.

    Use ``@policy`` as a decorator, with or without options, or ``policy("office_hours", function)`` for an existing
    function. Raises ``DefinitionError`` if the function does not take exactly one argument.
    """
    if (isinstance(first, str) and id is not None) or (not isinstance(first, str) and second is not None):
        raise DefinitionError("a policy has one id and one function: policy('office_hours', function)")
    policy_id = first if isinstance(first, str) else id

    def build(function: Evaluate) -> Policy:
        return Policy(
            getattr(function, "__name__", "policy") if policy_id is None else policy_id, function, binding, phase
        )

    if isinstance(first, str):
        if second is None:
            raise DefinitionError(f"policy {first!r} needs its function: policy({first!r}, function)")
        return build(second)
    return build if first is None else build(first)


def distinct_policies(owner: str, policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return each policy once, in order. Raises ``PolicyConflict`` for two different ones with the same id."""
    by_id: dict[str, Policy] = {}
    for gate in checked_list(f"{owner}: policies", policies):
        if not isinstance(gate, Policy):
            raise DefinitionError(f"{owner}: {gate!r} is not a Policy; put @policy on the function")
        if by_id.setdefault(gate.id, gate) is not gate:
            raise PolicyConflict(f"{owner}: two different policies have the id {gate.id!r}")
    return tuple(by_id.values())

"""Gates: a request goes in, a decision comes out (spec 2, F15–F20)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args, overload

from capset.definitions.names import POLICY, checked, checked_text, listed
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
    """What a policy says. Build one with ``allow()``, ``deny(reason)`` or ``ask(reason)``."""

    kind: DecisionKind
    reason: str | None = None

    def __post_init__(self) -> None:
        # Neither a denial nor a question must pass for something else because it is misspelt.
        if self.kind not in _KINDS:
            raise DefinitionError(f"a decision is allow, deny or ask; got {self.kind!r}")


_ALLOW = Decision("allow")


def allow() -> Decision:
    """Let the request through, as far as this policy is concerned."""
    return _ALLOW


def deny(reason: str) -> Decision:
    """Refuse the request. ``reason`` is shown to the model and written into the record."""
    return Decision("deny", checked_text("a denial's reason", reason))


def ask(reason: str) -> Decision:
    """Let somebody who may decide be asked first. ``reason`` is shown to them, and written into the record.

    When a snapshot is evaluated, the tool stays, and the call asks (spec 2, F19).
    """
    return Decision("ask", checked_text("a question's reason", reason))


class Request(NamedTuple):
    """What a policy judges.

    ``env`` comes from the server's side, never from the body of a request (spec 2, F16). ``tool`` and its validated
    ``arguments`` are there at a call; both are ``None`` while a snapshot is being evaluated, when one answer serves
    every tool that carries the policy. Values are ``Any`` because their types are the host's and the tool's. A named
    tuple, since one is made for every call that policies gate.
    """

    env: Mapping[str, Any]
    principal: Principal
    tool: Tool[..., Any] | None = None
    arguments: Mapping[str, Any] | None = None


Answer = Decision | bool | Awaitable[Decision | bool]
Evaluate = Callable[[Request], Answer]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Policy:
    """A named gate, told apart by identity: one object is evaluated once, however many tools carry it.

    ``phase`` says when it is asked: when a snapshot is evaluated, at every call, with the arguments, or at ``both``. At
    a call, a ``live`` one is asked again, and a ``snapshot`` one holds to what it said when the snapshot was evaluated
    (spec 2, F15, F19). Raising denies.
    """

    id: str
    evaluate: Evaluate
    binding: Binding = "live"
    phase: Phase = "both"

    def __post_init__(self) -> None:
        checked("a policy's id", self.id, POLICY)
        if not callable(self.evaluate):
            raise DefinitionError(f"policy {self.id!r}: evaluate must be a function of one Request")
        for what, value, known in (("binding", self.binding, Binding), ("phase", self.phase, Phase)):
            if value not in get_args(known):
                raise DefinitionError(f"policy {self.id!r}: {what} must be one of {get_args(known)}; got {value!r}")
        if self.binding == "snapshot" and self.phase == "call":
            raise DefinitionError(
                f"policy {self.id!r} is asked at calls only, so there is no snapshot's result that it could hold to",
                hint="leave out binding='snapshot', or phase='call'",
            )

    @property
    def is_asked_at_evaluation(self) -> bool:
        """Whether evaluating a snapshot asks it."""
        return self.phase != "call"

    @property
    def is_live(self) -> bool:
        """Whether a call asks it."""
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
    """Make a policy of a function ``(request) -> Decision | bool``, sync or async; its name is the policy's id.

    ``@policy`` stands before a function, with or without options; ``policy("office_hours", function)`` makes one of a
    function that is there. Raises ``DefinitionError`` if the function does not take exactly one argument.
    """
    if (isinstance(first, str) and id is not None) or (not isinstance(first, str) and second is not None):
        raise DefinitionError("a policy has one id and one function: policy('office_hours', function)")
    given = first if isinstance(first, str) else id

    def build(function: Evaluate) -> Policy:
        name = getattr(function, "__name__", "policy") if given is None else given
        try:
            inspect.signature(function).bind(object())
        except (TypeError, ValueError):
            raise DefinitionError(f"policy {name!r} must take exactly one argument, the request") from None
        return Policy(name, function, binding, phase)

    if isinstance(first, str):
        if second is None:
            raise DefinitionError(f"policy {first!r} needs its function: policy({first!r}, function)")
        return build(second)
    return build if first is None else build(first)


def distinct_policies(owner: str, policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return each policy once, in order. Raises ``PolicyConflict`` for two of one id (spec 1, C16)."""
    kept: dict[str, Policy] = {}
    for gate in listed(f"{owner}: policies", policies):
        if not isinstance(gate, Policy):
            raise DefinitionError(f"{owner}: {gate!r} is not a Policy; put @policy on the function")
        if kept.setdefault(gate.id, gate) is not gate:
            raise PolicyConflict(f"{owner}: two different policies have the id {gate.id!r}")
    return tuple(kept.values())

"""Gates: a request goes in, a decision comes out (spec 2, F15–F20)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from capset.definitions.names import POLICY, checked, checked_text, listed
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, PolicyConflict

if TYPE_CHECKING:
    from capset.definitions.tools import Tool


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy says. Build one with ``allow()`` or ``deny(reason)``."""

    kind: Literal["allow", "deny"]
    reason: str | None = None

    def __post_init__(self) -> None:
        # Only a denial stops a call, so a misspelt one must not pass for something else.
        if self.kind not in ("allow", "deny"):
            raise DefinitionError(f"a decision is allow or deny; got {self.kind!r}")


_ALLOW = Decision("allow")


def allow() -> Decision:
    """Let the request through, as far as this policy is concerned."""
    return _ALLOW


def deny(reason: str) -> Decision:
    """Refuse the request. ``reason`` is shown to the model and written into the record."""
    return Decision("deny", checked_text("a denial's reason", reason))


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


Evaluate = Callable[[Request], Decision | bool | Awaitable[Decision | bool]]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Policy:
    """A named gate, told apart by identity: one object is evaluated once, however many tools carry it.

    It is asked when a snapshot is evaluated and again, with the arguments, at every call. Raising denies.
    """

    id: str
    evaluate: Evaluate

    def __post_init__(self) -> None:
        checked("a policy's id", self.id, POLICY)
        if not callable(self.evaluate):
            raise DefinitionError(f"policy {self.id!r}: evaluate must be a function of one Request")


@overload
def policy(evaluate: Evaluate, /) -> Policy: ...
@overload
def policy(*, id: str) -> Callable[[Evaluate], Policy]: ...
def policy(evaluate: Evaluate | None = None, /, *, id: str | None = None) -> Policy | Callable[[Evaluate], Policy]:
    """Make a policy of a function ``(request) -> Decision | bool``, sync or async; its name is the policy's id.

    Raises ``DefinitionError`` if the function does not take exactly one argument.
    """

    def build(function: Evaluate) -> Policy:
        name = getattr(function, "__name__", "policy") if id is None else id
        try:
            inspect.signature(function).bind(object())
        except (TypeError, ValueError):
            raise DefinitionError(f"policy {name!r} must take exactly one argument, the request") from None
        return Policy(name, function)

    return build if evaluate is None else build(evaluate)


def distinct_policies(owner: str, policies: Iterable[Policy]) -> tuple[Policy, ...]:
    """Return each policy once, in order. Raises ``PolicyConflict`` for two of one id (spec 1, C16)."""
    kept: dict[str, Policy] = {}
    for gate in listed(f"{owner}: policies", policies):
        if not isinstance(gate, Policy):
            raise DefinitionError(f"{owner}: {gate!r} is not a Policy; put @policy on the function")
        if kept.setdefault(gate.id, gate) is not gate:
            raise PolicyConflict(f"{owner}: two different policies have the id {gate.id!r}")
    return tuple(kept.values())

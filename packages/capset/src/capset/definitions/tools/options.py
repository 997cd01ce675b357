"""The options of tools, and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from sys import float_info
from typing import Any, Final, Literal, TypedDict, cast, get_args

from capset.definitions.callables import checked_function
from capset.definitions.fields import POSITIVE, REAL, Check, requiring, within
from capset.definitions.governance.hooks import Hooks, checked_hooks
from capset.definitions.governance.limits import Limit, checked_limits
from capset.definitions.governance.policies import Decision, Policy, Request, distinct_policies
from capset.definitions.names import checked_flag, checked_optional, checked_permissions, checked_texts
from capset.definitions.tools.retries import Retry, checked_retry
from capset.errors import DefinitionError, closest

Effect = Literal["read", "write", "external", "destructive"]
MAX_ARGUMENT_BYTES: Final = 16 * 1024 * 1024
"""The highest maximum that a tool may set."""
Limits = str | Limit | Mapping[str, int | str] | Sequence[str | Limit | Mapping[str, int | str]]
"""The written forms of limits: ``"100/1h"``, ``Limit(100, "1h", per="org")``, or a list of them."""
NeedsApproval = Callable[[Request], bool | Decision | Awaitable[bool | Decision]]
"""Decides whether one call needs approval: ``True`` or ``ask(reason)`` if so, ``False`` or ``allow()`` if not.

A function that raises, or returns anything else, denies the call.
"""
ApprovalRule = Literal["auto", "ask"] | NeedsApproval
"""Whether calls of a tool need approval: never, always, or as a function decides."""


class CommonOptions(TypedDict, total=False):
    """The options of every tool."""

    permissions: Iterable[str]
    """The permissions that a principal must hold, all of them; none if left out."""
    policies: Iterable[Policy]
    """Policies of this tool, asked at every call."""
    timeout: float | None
    """The seconds that a call may take, without the time that a stream processor waits for its consumer."""
    argument_bytes: int
    """The maximum size of its arguments as JSON text, in bytes: 1 MiB if left out, 16 MiB at most."""


class BlockToolOptions(CommonOptions, total=False):
    """The options of a tool that runs a block: those of every tool, and its effect."""

    effect: Effect
    """``read`` changes nothing; calls with any other effect are recorded before they start. ``write`` if left out."""


class ProcessorOptions(CommonOptions, total=False):
    """The options of a tool that is a stream processor: all but the effect, which depends on its contract."""

    instructions: Iterable[str]
    """Text about the tool for the model, as long as the tool is in play."""
    examples: Iterable[Mapping[str, Any]]
    """Arguments that fit its schema, as JSON data."""
    version: str | None
    """A version of your own choice, which the hash of the tool covers."""
    idempotent: bool
    """Whether calling it again with the same arguments has no further effect; false if left out."""
    hooks: Hooks | None
    """Notified when one of its policies is evaluated, and when the tool was executed; not part of the hash."""
    cost: float | None
    """The cost of a call, in a unit of your own; shown in listings, and counted by budgets."""
    limits: Limits
    """How often it may be called: ``"100/1h"`` by one principal, or for other limits a ``Limit``, or a list of them."""
    approval: ApprovalRule
    """``"ask"`` if every call needs approval, or a function that decides for each call; ``"auto"`` if left out."""
    credential: str | None
    """The name of a connection whose credential of the calling user the handler needs; none if left out."""
    retry: Retry | int | None
    """A ``Retry``, or the maximum number of attempts, if it raises ``TransientError``; for idempotent tools only."""


class ToolOptions(BlockToolOptions, ProcessorOptions, total=False):
    """The options of a tool made from a function or from JSON Schema: all options."""


def refuse_unknown(function: Callable[..., Any], options: Mapping[str, object], typed_dict: type) -> None:
    """Raise ``TypeError`` for an option that is not in a function's ``TypedDict``, as for any unknown argument."""
    names = typed_dict.__annotations__
    if unknown_options := [name for name in options if name not in names]:
        parameters = inspect.signature(function).parameters.values()
        keywords = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        suggested_name = closest(unknown_options[0], (*keywords, *names))
        suggestion = f". Did you mean {suggested_name!r}?" if suggested_name else ""
        raise TypeError(
            f"{function.__qualname__}() got an unexpected keyword argument {unknown_options[0]!r}{suggestion}"
        )


def checked_options(owner: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool that its options set, except the examples, which need its schema.

    Raises ``DefinitionError``, starting with ``owner``.
    """
    fields: dict[str, Any] = {name: check(owner, options[name]) for name, check in _CHECKS.items() if name in options}
    if "retry" in options:
        fields["retry"] = checked_retry(owner, options["retry"], idempotent=fields.get("idempotent", False))
    return fields


def checked_approval(owner: str, rule: object) -> ApprovalRule:
    """Return a tool's approval rule. Raises ``DefinitionError`` for anything else."""
    if isinstance(rule, str) and rule not in ("auto", "ask"):
        raise DefinitionError(f"{owner}: approval is 'auto', 'ask' or a function of a Request; got {rule!r}")
    if isinstance(rule, str):
        return cast("ApprovalRule", rule)
    if not callable(rule):
        raise DefinitionError(f"{owner}: approval is 'auto', 'ask' or a function of a Request; got {rule!r:.80}")
    return checked_function(f"{owner}: approval", rule, "the request")


_CHECKS: Final[Mapping[str, Check]] = {
    "effect": requiring(f"{{}}: effect must be one of {get_args(Effect)}", get_args(Effect).__contains__),
    "timeout": requiring("{}: timeout must be a positive number of seconds", within(REAL, POSITIVE), optional=True),
    "permissions": checked_permissions,
    "policies": distinct_policies,
    "instructions": lambda owner, texts: checked_texts(f"{owner}: instructions", texts),
    "version": lambda owner, version: checked_optional(f"{owner}: version", version),
    "idempotent": lambda owner, flag: checked_flag(f"{owner}: idempotent", flag),
    "hooks": checked_hooks,
    "cost": requiring("{}: cost must be a number, 0 or more", within(REAL, 0, float_info.max), optional=True),
    "limits": checked_limits,
    "approval": checked_approval,
    "credential": lambda owner, name: checked_optional(f"{owner}: credential", name),
    "argument_bytes": requiring(
        f"{{}}: argument_bytes must be a number of bytes from 1 to {MAX_ARGUMENT_BYTES:,}",
        within(int, 1, MAX_ARGUMENT_BYTES),
    ),
}
"""The checks of options, in the order of their errors; those of ``retry`` and ``examples`` need other fields."""
OPTIONS: Final = (*_CHECKS, "retry")
"""The options that ``checked_options`` checks; each sets the field of the same name."""

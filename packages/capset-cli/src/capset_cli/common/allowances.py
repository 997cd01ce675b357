"""Allowances on the command line: ``--limit``, ``--usage-limit`` and the budgets (spec 4, G36)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from capset.definitions.governance.allowances import Allowance, allowance_of
from capset.definitions.governance.limits import Budget, Limit, limit_of
from capset.definitions.governance.usage import UsageLimit, usage_limit_of
from capset.errors import DefinitionError
from capset_cli.common.settings import FILE, read_settings

T = TypeVar("T")
_LIMIT_HELP: Final = "The maximum number of tool calls of a principal within a time; may be repeated"
_SESSION_HELP: Final = "The budget of each session"
_RUN_HELP: Final = "The budget of each run"
_USAGE_HELP: Final = "The maximum usage of models by agents within a time; may be repeated"
_BUDGET: Final = "calls=N,cost=N"
_USAGE: Final = "tokens=N,cost=N/1d"

# For the governance of a kernel; environment variables and the settings file apply too.
LimitOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="100/1h", help=f"{_LIMIT_HELP} (or CAPSET_LIMIT, with commas)."),
]
RateLimitOption = Annotated[
    list[str] | None,
    typer.Option("--rate-limit", metavar="100/1h", help=f"{_LIMIT_HELP} (or CAPSET_LIMIT, with commas)."),
]
SessionBudget = Annotated[
    str | None,
    typer.Option("--session-budget", metavar=_BUDGET, help=f"{_SESSION_HELP} (or CAPSET_SESSION_BUDGET)."),
]
RunBudget = Annotated[
    str | None, typer.Option("--run-budget", metavar=_BUDGET, help=f"{_RUN_HELP} (or CAPSET_RUN_BUDGET).")
]
UsageOption = Annotated[
    list[str] | None,
    typer.Option("--usage-limit", metavar=_USAGE, help=f"{_USAGE_HELP} (or CAPSET_USAGE_LIMIT, with semicolons)."),
]

# For the principal of a key; only these options apply.
KeyLimit = Annotated[list[str] | None, typer.Option("--limit", metavar="100/1h", help=f"{_LIMIT_HELP}.")]
KeySessionBudget = Annotated[
    str | None, typer.Option("--session-budget", metavar=_BUDGET, help=f"{_SESSION_HELP} of the principal.")
]
KeyRunBudget = Annotated[
    str | None, typer.Option("--run-budget", metavar=_BUDGET, help=f"{_RUN_HELP} of the principal.")
]
KeyUsage = Annotated[list[str] | None, typer.Option("--usage-limit", metavar=_USAGE, help=f"{_USAGE_HELP}.")]


def given_allowance(
    limit: list[str] | None,
    session_budget: str | None,
    run_budget: str | None,
    usage: list[str] | None = None,
    *,
    option: str = "--limit",
) -> Allowance | None:
    """Return the allowance in options; ``None`` if there is none. Raises ``DefinitionError``, naming the option.

    ``option`` is the name of the option for limits.
    """
    return _made(
        _limits(option, limit or ()),
        None if session_budget is None else _budget("--session-budget", session_budget),
        None if run_budget is None else _budget("--run-budget", run_budget),
        _usage_limits("--usage-limit", usage or ()),
    )


def load_allowance(
    limit: list[str] | None,
    session_budget: str | None,
    run_budget: str | None,
    usage: list[str] | None = None,
    *,
    option: str = "--limit",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Allowance | None:
    """Return the allowance in force: options, then ``CAPSET_*`` variables, then ``[allowance]`` in ``capset.toml``.

    Each member comes from the first source that has it. An empty variable means none, and hides the file's value.
    Raises ``DefinitionError``, naming the source.
    """
    variables = os.environ if environ is None else environ
    explicit = given_allowance(limit, session_budget, run_budget, usage, option=option) or Allowance()
    file = _named(f"{FILE}: allowance", lambda: allowance_of(read_settings(folder or Path.cwd()).get("allowance", {})))

    def further(variable: str, read: Callable[[str, str], T], filed: T) -> T:
        text = variables.get(variable)
        return filed if text is None else read(variable, text.strip())

    return _made(
        explicit.limits or further("CAPSET_LIMIT", _several, file.limits),
        explicit.session or further("CAPSET_SESSION_BUDGET", _perhaps, file.session),
        explicit.run or further("CAPSET_RUN_BUDGET", _perhaps, file.run),
        explicit.usage or further("CAPSET_USAGE_LIMIT", _several_usage, file.usage),
    )


def _made(
    limits: tuple[Limit, ...], session: Budget | None, run: Budget | None, usage: tuple[UsageLimit, ...]
) -> Allowance | None:
    if not limits and not usage and session is None and run is None:
        return None
    return Allowance(limits=limits, session=session, run=run, usage=usage)


def _several(source: str, text: str) -> tuple[Limit, ...]:
    return _limits(source, filter(None, map(str.strip, text.split(","))))


def _several_usage(source: str, text: str) -> tuple[UsageLimit, ...]:
    return _usage_limits(source, filter(None, map(str.strip, text.split(";"))))


def _perhaps(source: str, text: str) -> Budget | None:
    return _budget(source, text) if text else None


def _limits(source: str, texts: Iterable[str]) -> tuple[Limit, ...]:
    return tuple(_named(source, lambda text=text: limit_of(text)) for text in texts)


def _usage_limits(source: str, texts: Iterable[str]) -> tuple[UsageLimit, ...]:
    return tuple(_named(source, lambda text=text: usage_limit_of(text)) for text in texts)


def _budget(source: str, text: str) -> Budget:
    """Parse a budget: ``calls=100``, ``cost=2.5`` or both."""
    amounts: dict[str, Any] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        kind = {"calls": int, "cost": float}.get(name)
        try:
            if kind is None or name in amounts or "_" in number:
                raise ValueError
            amounts[name] = kind(number)
        except ValueError:
            requirement = "must be calls=100, cost=2.5, or both with a comma between"
            raise DefinitionError(f"{source} {requirement}; got {text!r:.80}") from None
    return _named(source, lambda: Budget(**amounts))


def _named(source: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except DefinitionError as error:
        raise DefinitionError(f"{source}: {error.message}") from None

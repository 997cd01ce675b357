"""Allowances on the command line: ``--limit``, ``--usage-limit`` and the budgets (spec 4, G36)."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
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


def allowance_from_options(
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
    return _make_allowance(
        _parse_each(option, limit_of, limit or ()),
        None if session_budget is None else _parse_budget("--session-budget", session_budget),
        None if run_budget is None else _parse_budget("--run-budget", run_budget),
        _parse_each("--usage-limit", usage_limit_of, usage or ()),
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
    from_options = allowance_from_options(limit, session_budget, run_budget, usage, option=option) or Allowance()
    with _naming_source(f"{FILE}: allowance"):
        file = allowance_of(read_settings(folder or Path.cwd()).get("allowance", {}))

    def with_fallback(variable: str, read: Callable[[str, str], T], in_file: T) -> T:
        text = variables.get(variable)
        return in_file if text is None else read(variable, text.strip())

    return _make_allowance(
        from_options.limits or with_fallback("CAPSET_LIMIT", _parse_limits, file.limits),
        from_options.session or with_fallback("CAPSET_SESSION_BUDGET", _parse_optional_budget, file.session),
        from_options.run or with_fallback("CAPSET_RUN_BUDGET", _parse_optional_budget, file.run),
        from_options.usage or with_fallback("CAPSET_USAGE_LIMIT", _parse_usage_limits, file.usage),
    )


def _make_allowance(
    limits: tuple[Limit, ...], session: Budget | None, run: Budget | None, usage: tuple[UsageLimit, ...]
) -> Allowance | None:
    if not limits and not usage and session is None and run is None:
        return None
    return Allowance(limits=limits, session=session, run=run, usage=usage)


def _parse_limits(source: str, text: str) -> tuple[Limit, ...]:
    return _parse_each(source, limit_of, filter(None, map(str.strip, text.split(","))))


def _parse_usage_limits(source: str, text: str) -> tuple[UsageLimit, ...]:
    return _parse_each(source, usage_limit_of, filter(None, map(str.strip, text.split(";"))))


def _parse_each(source: str, parse: Callable[[str], T], texts: Iterable[str]) -> tuple[T, ...]:
    with _naming_source(source):
        return tuple(map(parse, texts))


def _parse_optional_budget(source: str, text: str) -> Budget | None:
    return _parse_budget(source, text) if text else None


def _parse_budget(source: str, text: str) -> Budget:
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
    with _naming_source(source):
        return Budget(**amounts)


@contextmanager
def _naming_source(source: str) -> Generator[None]:
    """Name the source in a ``DefinitionError`` of the ``with`` block."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(f"{source}: {error.message}") from None

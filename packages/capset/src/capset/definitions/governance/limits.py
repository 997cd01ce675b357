"""Limits on how often tools are called, and budgets of a session or a run (spec 4, G13–G15)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import float_info
from typing import Final, Literal, cast, get_args

from capset.definitions.fields import REAL, checked_field, requiring, store_checked, within
from capset.definitions.names import one_or_several
from capset.errors import DefinitionError, refuse_unknown_keys

Per = Literal["principal", "session", "org", "all"]
"""The calls that count together: those of one principal, session or organisation, or all of them."""
LimitScope = Literal["shared", "process"]
"""Where calls are counted: in the store, by all processes that share it, or in each process separately."""

_WINDOW: Final = re.compile(r"[1-9]\d*[smhd]", re.ASCII)
"""A positive whole number and a unit."""
UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""The units of windows, in seconds."""
MAX_WINDOW_SECONDS: Final = 366 * 86_400
"""The longest window, in seconds."""
MAX_REQUESTS: Final = 1_000_000
"""The maximum number of requests in a limit: each counted call is stored for the length of its window."""
MAX_COUNT: Final = 2**53
"""The maximum number of calls, steps or tokens: every JSON parser reads integers up to here exactly."""


@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """At most ``requests`` calls within any ``window`` seconds, counted per ``per``.

    Written ``Limit(100, "1h")``. A limit is counted in the kernel's store, so it holds across processes and restarts;
    ``scope="process"`` counts in each process separately, from its start, and costs no write. Raises
    ``DefinitionError`` for a number of requests that is not a whole number from 1 to ``MAX_REQUESTS``, and for a window
    that is not a positive number followed by ``s``, ``m``, ``h`` or ``d``.
    """

    requests: int = checked_field(
        requiring(f"a limit's {{}} are a whole number, 1 to {MAX_REQUESTS:,}", within(int, 1, MAX_REQUESTS))
    )
    window: int = checked_field(lambda name, window: window_seconds(window))
    per: Per = checked_field(requiring(f"a limit's {{}} is one of {get_args(Per)}", get_args(Per).__contains__))
    scope: LimitScope = checked_field(
        requiring(f"a limit's {{}} is one of {get_args(LimitScope)}", get_args(LimitScope).__contains__)
    )

    def __init__(self, requests: int, window: str, *, per: Per = "principal", scope: LimitScope = "shared") -> None:
        store_checked(self, locals())

    def __str__(self) -> str:
        per = "" if self.per == "principal" else f" per {self.per}"
        return f"{self.requests}/{format_window(self.window)}{per}{' in each process' * (self.scope == 'process')}"

    def plain(self) -> str | dict[str, str | int]:
        """Return the limit in its written form, from which ``limit_of`` makes an equal one."""
        short = f"{self.requests}/{format_window(self.window)}"
        if self.per == "principal" and self.scope == "shared":
            return short
        return {"requests": self.requests, "window": format_window(self.window), "per": self.per, "scope": self.scope}


@dataclass(frozen=True, slots=True)
class Budget:
    """A total that may be used: ``calls`` that reach their handlers, and the sum of their tools' ``cost``."""

    calls: int | None = checked_field(
        requiring(f"a budget's {{}} are a whole number, 0 to {MAX_COUNT:,}", within(int, 0, MAX_COUNT), optional=True),
        None,
    )
    cost: float | None = checked_field(
        requiring("a budget's {} is a number, 0 or more", within(REAL, 0, float_info.max), optional=True), None
    )

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for a budget without calls and cost, or with an invalid number."""
        if self.calls is None and self.cost is None:
            raise DefinitionError("a budget has calls, or a cost, or both: Budget(calls=100)")
        store_checked(self)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.plain().items())

    def plain(self) -> dict[str, int | float]:
        """Return the budget as JSON data, from which ``budget_of`` makes an equal one."""
        plain_fields = {"calls": self.calls, "cost": self.cost}
        return {name: value for name, value in plain_fields.items() if value is not None}


def lowest_budget(budgets: Iterable[Budget | None]) -> Budget | None:
    """Return a budget that grants only what all of ``budgets`` grant; ``None`` if there are none."""
    present = [budget for budget in budgets if budget is not None]
    if not present:
        return None
    calls = [budget.calls for budget in present if budget.calls is not None]
    costs = [budget.cost for budget in present if budget.cost is not None]
    return Budget(min(calls, default=None), min(costs, default=None))


def budget_of(value: object) -> Budget:
    """Parse a budget from its written form: ``{"calls": 100, "cost": 2.5}``, or one of the two, or a ``Budget``.

    Raises ``DefinitionError``.
    """
    if isinstance(value, Budget):
        return value
    if not isinstance(value, Mapping):
        raise DefinitionError(f"a budget is {{'calls': 100}}, {{'cost': 2.5}} or both; got {value!r:.80}")
    mapping = cast("Mapping[str, object]", value)
    refuse_unknown_keys("a budget", mapping, ("calls", "cost"))
    return Budget(cast("int | None", mapping.get("calls")), cast("float | None", mapping.get("cost")))


def window_seconds(window: object) -> int:
    """Parse a window such as ``30s``, ``15m``, ``1h`` or ``7d`` into seconds. Raises ``DefinitionError``."""
    if not isinstance(window, str) or not _WINDOW.fullmatch(window) or len(window) > 10:
        raise DefinitionError(f"a window is a whole number and s, m, h or d, such as '1h'; got {window!r:.80}")
    seconds = int(window[:-1]) * UNIT_SECONDS[window[-1]]
    if seconds > MAX_WINDOW_SECONDS:
        raise DefinitionError(f"a window is at most {MAX_WINDOW_SECONDS // 86_400} days; got {window!r}")
    return seconds


def limit_of(value: object) -> Limit:
    """Parse a limit from its written form: ``"100/1h"``, ``{"requests": 100, "window": "1h"}`` or a ``Limit``."""
    if isinstance(value, Limit):
        return value
    if isinstance(value, str):
        requests, slash, window = value.partition("/")
        if not slash or not requests.isascii() or not requests.isdigit() or len(requests) > 10:
            raise DefinitionError(f"a limit is written as '100/1h'; got {value!r:.80}")
        return Limit(int(requests), window)
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        refuse_unknown_keys("a limit", mapping, ("requests", "window", "per", "scope"))
        if missing := [name for name in ("requests", "window") if name not in mapping]:
            raise DefinitionError(f"a limit has requests and a window; {missing[0]!r} is missing")
        return Limit(
            cast("int", mapping["requests"]),
            cast("str", mapping["window"]),
            per=cast("Per", mapping.get("per", "principal")),
            scope=cast("LimitScope", mapping.get("scope", "shared")),
        )
    raise DefinitionError(f"a limit is '100/1h' or {{'requests': 100, 'window': '1h'}}; got {value!r:.80}")


def checked_limits(owner: str, value: object) -> tuple[Limit, ...]:
    """Return the limits of a tool, each once; ``owner`` names the tool in errors."""
    try:
        return tuple(dict.fromkeys(map(limit_of, one_or_several(value))))
    except DefinitionError as error:
        raise DefinitionError(f"{owner}: limits: {error.message}") from None


def format_window(seconds: int) -> str:
    """Return the written form of a window."""
    unit, size = next((unit, size) for unit, size in reversed(UNIT_SECONDS.items()) if seconds % size == 0)
    return f"{seconds // size}{unit}"

"""How often tools may be called, and how much a session or a run may use (spec 4, G13–G15)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from sys import float_info
from typing import Final, Literal, cast, get_args

from capset.errors import DefinitionError, refuse_unknown_keys

Per = Literal["principal", "session", "org", "all"]
"""Whose calls count together: those of one principal, session or organisation, or everybody's."""
LimitScope = Literal["shared", "process"]
"""Where calls are counted: in the store, by all processes that share it, or in each process by itself."""

_WINDOW: Final = re.compile(r"[1-9]\d*[smhd]", re.ASCII)
"""Spec 4, G13."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
MAX_WINDOW: Final = 366 * 86_400
"""Seconds of the longest window."""
MAX_REQUESTS: Final = 1_000_000
"""The largest limit: each call that counts is remembered for as long as its window."""
MAX_CALLS: Final = 2**53
"""The largest budget of calls: every reader of JSON takes it for the same."""
MAX_LIMITS: Final = 20
"""How many limits an allowance has: each of them is looked at for every call."""


@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """At most ``requests`` calls within any ``window`` seconds, of whoever ``per`` names.

    Made of ``Limit(100, "1h")``. A limit is counted in the kernel's store, so that it holds across processes and
    restarts; ``scope="process"`` counts in each process by itself, from its start, and costs no write. Raises
    ``DefinitionError`` for a number that is none, 0 or beyond ``MAX_REQUESTS``, and for a window that is not a
    positive number and one of ``s``, ``m``, ``h``, ``d``.
    """

    requests: int
    window: int
    per: Per
    scope: LimitScope

    def __init__(self, requests: int, window: str, *, per: Per = "principal", scope: LimitScope = "shared") -> None:
        if type(requests) is not int or not 1 <= requests <= MAX_REQUESTS:
            raise DefinitionError(f"a limit's requests are a whole number, 1 to {MAX_REQUESTS:,}; got {requests!r}")
        if per not in get_args(Per):
            raise DefinitionError(f"a limit's per is one of {get_args(Per)}; got {per!r}")
        if scope not in get_args(LimitScope):
            raise DefinitionError(f"a limit's scope is one of {get_args(LimitScope)}; got {scope!r}")
        store = object.__setattr__
        store(self, "requests", requests)
        store(self, "window", window_seconds(window))
        store(self, "per", per)
        store(self, "scope", scope)

    def __str__(self) -> str:
        per = "" if self.per == "principal" else f" per {self.per}"
        return f"{self.requests}/{_written(self.window)}{per}{' in each process' * (self.scope == 'process')}"

    def plain(self) -> str | dict[str, str | int]:
        """Return the limit as it may be written: ``limit_of`` makes an equal one of it."""
        short = f"{self.requests}/{_written(self.window)}"
        if self.per == "principal" and self.scope == "shared":
            return short
        return {"requests": self.requests, "window": _written(self.window), "per": self.per, "scope": self.scope}


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be used in all: ``calls`` that reach their handlers, and the sum of their tools' ``cost``."""

    calls: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for a budget of nothing that is counted, or of no number."""
        if self.calls is None and self.cost is None:
            raise DefinitionError("a budget has calls, or a cost, or both: Budget(calls=100)")
        if self.calls is not None and (type(self.calls) is not int or not 0 <= self.calls <= MAX_CALLS):
            raise DefinitionError(f"a budget's calls are a whole number, 0 to {MAX_CALLS:,}; got {self.calls!r:.80}")
        if self.cost is not None and (type(self.cost) not in (int, float) or not 0 <= self.cost <= float_info.max):
            raise DefinitionError(f"a budget's cost is a number, 0 or more; got {self.cost!r:.80}")

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.plain().items())

    def plain(self) -> dict[str, int | float]:
        """Return the budget as JSON data: ``budget_of`` makes an equal one of it."""
        given = {"calls": self.calls, "cost": self.cost}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, init=False)
class Allowance:
    """What somebody may use: limits on their calls together, and the budgets of each session and of each run.

    A server (``Governance``), a principal and an agent may have one each; all of them hold at once, so that the lowest
    decides. Raises ``DefinitionError`` for what is no limit or no budget, and for more than ``MAX_LIMITS`` limits.
    """

    limits: tuple[Limit, ...]
    session: Budget | None
    run: Budget | None

    def __init__(self, *, limits: object = (), session: Budget | None = None, run: Budget | None = None) -> None:
        """``limits`` is a limit or several, as ``limit_of`` takes them."""
        store = object.__setattr__
        store(self, "limits", checked_limits("an allowance", limits))
        if len(self.limits) > MAX_LIMITS:
            raise DefinitionError(f"an allowance has at most {MAX_LIMITS} limits; got {len(self.limits)}")
        for name, budget in (("session", session), ("run", run)):
            if budget is not None and not isinstance(budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DefinitionError(f"an allowance's {name} is a Budget(…); got {budget!r:.80}")
            store(self, name, budget)

    def __str__(self) -> str:
        budgets = (f"{name} {budget}" for name, budget in (("session", self.session), ("run", self.run)) if budget)
        return "; ".join([*map(str, self.limits), *budgets])

    def plain(self) -> dict[str, object]:
        """Return the allowance as JSON data: ``allowance_of`` makes an equal one of it."""
        given = {
            "limits": [limit.plain() for limit in self.limits],
            "session": self.session and self.session.plain(),
            "run": self.run and self.run.plain(),
        }
        return {name: value for name, value in given.items() if value}


def lowest(budgets: Iterable[Budget | None]) -> Budget | None:
    """Return the budget that grants what all of them grant; ``None`` if there is none."""
    given = [budget for budget in budgets if budget is not None]
    if not given:
        return None
    calls = [budget.calls for budget in given if budget.calls is not None]
    costs = [budget.cost for budget in given if budget.cost is not None]
    return Budget(min(calls, default=None), min(costs, default=None))


def lowest_allowance(allowances: Iterable[Allowance | None]) -> Allowance | None:
    """Return the allowance that grants what all of them grant; ``None`` if there is none."""
    given = [one for one in allowances if one is not None]
    if not given:
        return None
    limits = [limit for one in given for limit in one.limits]
    return Allowance(limits=limits, session=lowest(one.session for one in given), run=lowest(one.run for one in given))


def budget_of(value: object) -> Budget:
    """Return a budget as it may be written: ``{"calls": 100, "cost": 2.5}``, one of the two perhaps, or a ``Budget``.

    Raises ``DefinitionError``.
    """
    if isinstance(value, Budget):
        return value
    if not isinstance(value, Mapping):
        raise DefinitionError(f"a budget is {{'calls': 100}}, {{'cost': 2.5}} or both; got {value!r:.80}")
    given = cast("Mapping[str, object]", value)
    refuse_unknown_keys("a budget", given, ("calls", "cost"))
    return Budget(cast("int | None", given.get("calls")), cast("float | None", given.get("cost")))


def allowance_of(value: object) -> Allowance:
    """Return an allowance as it may be written: ``{"limits": ["100/1h"], "session": {"calls": 100}, "run": {…}}``.

    Raises ``DefinitionError``.
    """
    if isinstance(value, Allowance):
        return value
    if not isinstance(value, Mapping):
        raise DefinitionError(f"an allowance has limits, session and run; got {value!r:.80}")
    given = cast("Mapping[str, object]", value)
    refuse_unknown_keys("an allowance", given, ("limits", "session", "run"))
    budgets = {name: budget_of(given[name]) for name in ("session", "run") if given.get(name) is not None}
    limits = given.get("limits")
    return Allowance(limits=() if limits is None else limits, **budgets)


def window_seconds(window: object) -> int:
    """Return the seconds of a window such as ``30s``, ``15m``, ``1h`` or ``7d``. Raises ``DefinitionError``."""
    if not isinstance(window, str) or not _WINDOW.fullmatch(window) or len(window) > 10:
        raise DefinitionError(f"a window is a whole number and s, m, h or d, such as '1h'; got {window!r:.80}")
    seconds = int(window[:-1]) * _SECONDS[window[-1]]
    if seconds > MAX_WINDOW:
        raise DefinitionError(f"a window is at most {MAX_WINDOW // 86_400} days; got {window!r}")
    return seconds


def limit_of(value: object) -> Limit:
    """Return a limit as it may be written: ``"100/1h"``, ``{"requests": 100, "window": "1h"}`` or a ``Limit``."""
    if isinstance(value, Limit):
        return value
    if isinstance(value, str):
        requests, slash, window = value.partition("/")
        if not slash or not requests.isascii() or not requests.isdigit() or len(requests) > 10:
            raise DefinitionError(f"a limit is written as '100/1h'; got {value!r:.80}")
        return Limit(int(requests), window)
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        refuse_unknown_keys("a limit", given, ("requests", "window", "per", "scope"))
        if missing := [name for name in ("requests", "window") if name not in given]:
            raise DefinitionError(f"a limit has requests and a window; {missing[0]!r} is missing")
        return Limit(
            cast("int", given["requests"]),
            cast("str", given["window"]),
            per=cast("Per", given.get("per", "principal")),
            scope=cast("LimitScope", given.get("scope", "shared")),
        )
    raise DefinitionError(f"a limit is '100/1h' or {{'requests': 100, 'window': '1h'}}; got {value!r:.80}")


def checked_limits(owner: str, value: object) -> tuple[Limit, ...]:
    """Return the limits of a tool, each once; ``owner`` is whose they are, as errors name it."""
    several = cast("list[object] | tuple[object, ...]", value) if isinstance(value, list | tuple) else (value,)
    try:
        return tuple(dict.fromkeys(limit_of(one) for one in several))
    except DefinitionError as error:
        raise DefinitionError(f"{owner}: limits: {error.message}") from None


def _written(seconds: int) -> str:
    unit, size = next((unit, size) for unit, size in reversed(_SECONDS.items()) if seconds % size == 0)
    return f"{seconds // size}{unit}"

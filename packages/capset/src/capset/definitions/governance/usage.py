"""The model usage of agents, and limits on it in windows that all processes share (spec 6, R24)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import add, attrgetter
from sys import float_info
from typing import Any, Final, cast, get_args

from capset.definitions.fields import POSITIVE, REAL, checked_field, requiring, store_checked, within
from capset.definitions.governance.limits import MAX_COUNT, Per, format_window, window_seconds
from capset.errors import DefinitionError, refuse_unknown_keys

_WRITTEN: Final = re.compile(r"(?P<amounts>[^/\s]+)(/(?P<window>\S+))?( per (?P<per>\w+))?")
_FORM: Final = "a usage limit is written as 'tokens=1000000/1d' or 'steps=100,cost=5/1h per org'"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUsage:
    """The usage of agents: model steps, tool calls, tokens, US dollars, and seconds of running time."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, more: AgentUsage) -> AgentUsage:
        """Return the sum of both."""
        return AgentUsage(**dict(zip(QUANTITIES, map(add, _amounts(self), _amounts(more)), strict=True)))

    def plain(self) -> dict[str, float]:
        """Return the usage as JSON data."""
        return dict(zip(QUANTITIES, _amounts(self), strict=True))


QUANTITIES: Final = tuple(field.name for field in fields(AgentUsage))
"""The names of the quantities that are counted."""
_amounts = cast("Callable[[AgentUsage], tuple[Any, ...]]", attrgetter(*QUANTITIES))
INTEGER_QUANTITIES: Final = ("steps", "calls", "tokens")
"""The quantities that are whole numbers."""


def usage_of(data: Mapping[str, float]) -> AgentUsage:
    """Return a usage from JSON data; quantities that are left out are 0."""
    kinds: dict[str, Any] = {name: int if name in INTEGER_QUANTITIES else float for name in QUANTITIES}
    return AgentUsage(**{name: kind(data.get(name, 0)) for name, kind in kinds.items()})


def _amount(kind: type | tuple[type, ...], minimum: float, maximum: float) -> Any:  # like a field of dataclasses
    requirement = (
        "a usage limit's {} is a number above 0" if kind is REAL else f"a usage limit's {{}} are 1 to {maximum:,}"
    )
    return checked_field(requiring(requirement, within(kind, minimum, maximum), optional=True), None)


@dataclass(frozen=True, slots=True, init=False)
class UsageLimit:
    """The maximum usage of the models of agents within any ``window``, counted per ``per``.

    Written ``UsageLimit("1d", tokens=1_000_000, cost=20, per="org")``. It is counted in the kernel's store, so it holds
    across processes and restarts. Before a step starts, it reserves the most that it may use, so all agents together
    exceed the limit by at most one step of one agent. ``window=None`` means the whole life of a session, so it is only
    for ``per="session"``. Raises ``DefinitionError`` for a limit without any quantity, and for invalid numbers and
    windows.
    """

    window: int | None = checked_field(lambda name, window: None if window is None else window_seconds(window))
    per: Per = checked_field(requiring(f"a usage limit's {{}} is one of {get_args(Per)}", get_args(Per).__contains__))
    steps: int | None = _amount(int, 1, MAX_COUNT)
    calls: int | None = _amount(int, 1, MAX_COUNT)
    tokens: int | None = _amount(int, 1, MAX_COUNT)
    cost: float | None = _amount(REAL, POSITIVE, float_info.max)
    seconds: float | None = _amount(REAL, POSITIVE, float_info.max)

    def __init__(
        self,
        window: str | None = None,
        *,
        per: Per = "principal",
        steps: int | None = None,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
    ) -> None:
        store_checked(self, locals())
        if not self.maximums():
            raise DefinitionError(f"a usage limit has one of {', '.join(QUANTITIES)}: UsageLimit('1d', tokens=100_000)")
        if window is None and per != "session":
            raise DefinitionError("a usage limit has a window, such as '1d', unless it is per session")

    def maximums(self) -> dict[str, float]:
        """Return the maximum of each limited quantity."""
        return {name: maximum for name in QUANTITIES if (maximum := getattr(self, name)) is not None}

    def exceeded_quantity(self, used: AgentUsage, *, has_next: bool) -> str | None:
        """Return the name of a quantity above its maximum, or ``None``.

        With ``has_next``, a quantity at its maximum counts, too, since nothing is left for a next step; except
        ``calls``: a step need not call a tool.
        """
        for name, maximum in self.maximums().items():
            value = getattr(used, name)
            if value > maximum or (has_next and value == maximum and name != "calls"):
                return name
        return None

    def plain(self) -> dict[str, str | float]:
        """Return the limit as JSON data, from which ``usage_limit_of`` makes an equal one."""
        window = {} if self.window is None else {"window": format_window(self.window)}
        per = {} if self.per == "principal" else {"per": self.per}
        return {**self.maximums(), **window, **per}

    def __str__(self) -> str:
        amounts = ",".join(f"{name}={maximum}" for name, maximum in self.maximums().items())
        window = "" if self.window is None else f"/{format_window(self.window)}"
        return f"{amounts}{window}{'' if self.per == 'principal' else f' per {self.per}'}"


def usage_limit_of(value: object) -> UsageLimit:
    """Parse a limit from its written form: ``"tokens=1000000/1d per org"``, a mapping of its fields, or itself.

    Raises ``DefinitionError``.
    """
    if isinstance(value, UsageLimit):
        return value
    if isinstance(value, str):
        return UsageLimit(**_fields_of(value))
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        refuse_unknown_keys("a usage limit", mapping, tuple(UsageLimit.__dataclass_fields__))
        return UsageLimit(**mapping)
    raise DefinitionError(f"{_FORM}; got {value!r:.80}")


def _fields_of(text: str) -> dict[str, Any]:
    """Parse the fields of a limit from text such as ``steps=100,cost=5/1h per org``."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise DefinitionError(f"{_FORM}; got {text!r:.80}")
    values: dict[str, Any] = {"window": match["window"], "per": match["per"] or "principal"}
    for part in match["amounts"].split(","):
        name, _, number = part.partition("=")
        try:
            if name not in QUANTITIES or name in values or "_" in number:
                raise ValueError
            values[name] = int(number) if name in INTEGER_QUANTITIES else float(number)
        except ValueError:
            raise DefinitionError(f"{_FORM}, of {', '.join(QUANTITIES)}; got {text!r:.80}") from None
    return values

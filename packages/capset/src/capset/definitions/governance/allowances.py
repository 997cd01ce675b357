"""Allowances: what a server, a principal or an agent may use (spec 4, G36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from capset.definitions.fields import checked_field, instance_of, requiring, store_checked
from capset.definitions.governance.limits import Budget, Limit, budget_of, checked_limits, lowest_budget
from capset.definitions.governance.usage import UsageLimit, usage_limit_of
from capset.definitions.names import one_or_several
from capset.errors import DefinitionError, refuse_unknown_keys

MAX_LIMITS: Final = 20
"""The maximum number of limits in an allowance: each is checked on every call."""


def _checked_limits(name: str, value: object) -> tuple[Limit, ...]:
    limits = checked_limits("an allowance", value)
    if len(limits) > MAX_LIMITS:
        raise DefinitionError(f"an allowance has at most {MAX_LIMITS} limits; got {len(limits)}")
    return limits


def _checked_usage(name: str, value: object) -> tuple[UsageLimit, ...]:
    limits = one_or_several(value)
    if len(limits) > MAX_LIMITS:
        raise DefinitionError(f"an allowance has at most {MAX_LIMITS} limits on usage; got {len(limits)}")
    return tuple(dict.fromkeys(map(usage_limit_of, limits)))


_checked_budget: Final = requiring("an allowance's {} is a Budget(…)", instance_of(Budget), optional=True)


@dataclass(frozen=True, slots=True, init=False)
class Allowance:
    """Limits on all calls together, the budgets of each session and of each run, and limits on the usage of models.

    A server (``Governance``), a principal and an agent may have one each; all apply at once, so the lowest decides.
    Raises ``DefinitionError`` for an invalid limit or budget, and for more than ``MAX_LIMITS`` limits of
    either kind.
    """

    limits: tuple[Limit, ...] = checked_field(_checked_limits)
    session: Budget | None = checked_field(_checked_budget)
    run: Budget | None = checked_field(_checked_budget)
    usage: tuple[UsageLimit, ...] = checked_field(_checked_usage)

    def __init__(
        self, *, limits: object = (), session: Budget | None = None, run: Budget | None = None, usage: object = ()
    ) -> None:
        """Take one limit or several of each kind, in the forms that ``limit_of`` and ``usage_limit_of`` accept."""
        store_checked(self, locals())

    def __str__(self) -> str:
        budgets = (f"{name} {budget}" for name, budget in (("session", self.session), ("run", self.run)) if budget)
        return "; ".join([*map(str, self.limits), *budgets, *map(str, self.usage)])

    def plain(self) -> dict[str, object]:
        """Return the allowance as JSON data, from which ``allowance_of`` makes an equal one."""
        plain_fields = {
            "limits": [limit.plain() for limit in self.limits],
            "session": self.session and self.session.plain(),
            "run": self.run and self.run.plain(),
            "usage": [limit.plain() for limit in self.usage],
        }
        return {name: value for name, value in plain_fields.items() if value}


def lowest_allowance(allowances: Iterable[Allowance | None]) -> Allowance | None:
    """Return an allowance that grants only what all of ``allowances`` grant; ``None`` if there are none."""
    present = [allowance for allowance in allowances if allowance is not None]
    if not present:
        return None
    return Allowance(
        limits=[limit for allowance in present for limit in allowance.limits],
        session=lowest_budget(allowance.session for allowance in present),
        run=lowest_budget(allowance.run for allowance in present),
        usage=[limit for allowance in present for limit in allowance.usage],
    )


def allowance_of(value: object) -> Allowance:
    """Parse an allowance from its written form: ``{"limits": ["100/1h"], "session": {"calls": 100}, …}``.

    Raises ``DefinitionError``.
    """
    if isinstance(value, Allowance):
        return value
    if not isinstance(value, Mapping):
        raise DefinitionError(f"an allowance has limits, session, run and usage; got {value!r:.80}")
    mapping = cast("Mapping[str, object]", value)
    refuse_unknown_keys("an allowance", mapping, ("limits", "session", "run", "usage"))
    budgets = {name: budget_of(mapping[name]) for name in ("session", "run") if mapping.get(name) is not None}
    limits, usage = (() if mapping.get(name) is None else mapping[name] for name in ("limits", "usage"))
    return Allowance(limits=limits, usage=usage, **budgets)

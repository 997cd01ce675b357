"""What holds for every call of a session, beside the limits of its tools: allowances and budgets (spec 4, G13–G15)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from capset.definitions.limits import Allowance, Budget, Limit, Per, lowest
from capset.definitions.principals import Principal
from capset.fingerprint.canonical import canonical
from capset.kernel.quotas import WindowKey
from capset.stores.base import Quota, Window

_SECOND_NS: Final = 1_000_000_000


class Counted(NamedTuple):
    """A limit and whose calls count in it: ``what`` names its subject in errors, ``key`` what and whose it is."""

    what: str
    limit: Limit
    key: WindowKey

    @property
    def window(self) -> Window:
        """The window that counts it in the store."""
        return _window(self.key, self.limit.requests, self.limit.window)


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits on all calls of a session, what is left of its budget, and the budget of each of its runs."""

    limits: tuple[Counted, ...]
    session: Quota | None
    run: Budget | None

    def run_quota(self, session: str, run: str, own: Budget | None = None) -> Quota | None:
        """Return the quota of a run of the session; ``own`` is what the run itself was given."""
        budget = lowest((self.run, own))
        return None if budget is None else Quota(f"{session}/{run}", budget.calls, budget.cost)


def terms_of(
    session: str,
    principal: Principal,
    *,
    agent: str,
    agent_id: str | None,
    allowances: Iterable[tuple[str, Allowance | None]],
    budgets: Iterable[Budget | None],
) -> Terms | None:
    """Return what holds in a session, ``None`` for nothing.

    ``allowances`` are those of the server, of the principal and of the agent, by these words; ``budgets`` are those of
    the session itself. All hold at once, so that the lowest decides and none is raised by another. A stored agent's
    limits are counted by its ``agent_id``: another organisation may have one of the same name.
    """
    given = [(who, one) for who, one in allowances if one is not None]
    owners: dict[str, tuple[str, ...]] = {
        "principal": _principal(session, principal),
        "agent": (agent_id or agent,),
    }
    limits = [
        Counted(
            f"the agent {agent!r}" if who == "agent" else f"this {who}",
            limit,
            # No capability's name begins so, and no tool's limit is counted with these.
            (f"@{who} {limit}", (*owners.get(who, ()), *whose_of(limit.per)(session, principal))),
        )
        for who, one in given
        for limit in one.limits
    ]
    budget = lowest((*budgets, *(one.session for _, one in given)))
    run = lowest(one.run for _, one in given)
    if not limits and budget is None and run is None:
        return None
    return Terms(tuple(limits), None if budget is None else Quota(session, budget.calls, budget.cost), run)


Whose = Callable[[str, Principal], tuple[str, ...]]
"""Says of a session's id and its principal whose calls count together."""


def whose_of(per: Per) -> Whose:
    """Return what says whose calls count together."""
    return _WHOSE[per]


def _principal(session: str, who: Principal) -> tuple[str, ...]:
    return who.org or "", who.kind, who.id


def _org(session: str, who: Principal) -> tuple[str, ...]:
    # Where there is no org, each principal is its own: strangers share nothing.
    return (who.org,) if who.org is not None else ("", who.kind, who.id)


_WHOSE: Final[Mapping[Per, Whose]] = {
    "principal": _principal,
    "session": lambda session, who: (session,),
    "org": _org,
    "all": lambda session, who: (),
}


@lru_cache(4096)
def _window(key: WindowKey, requests: int, seconds: int) -> Window:
    # A digest, since the names may be longer than what an index takes.
    what, whose = key
    return Window(sha256(canonical([what, *whose])).hexdigest(), requests, seconds * _SECOND_NS)

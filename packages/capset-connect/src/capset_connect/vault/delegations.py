"""Delegations: what others may use a user's credentials for when they act for the user (spec 11, V24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic_core import from_json

from capset.clock import Clock, iso
from capset.definitions.governance.policies import Request
from capset.definitions.principals import Principal
from capset.errors import CapsetError
from capset.evaluation.policies import evaluate_all, rule
from capset.schemas.plain_data import plain
from capset.stores.base import CredentialStore, DelegationQuery, DelegationRow
from capset_connect.tool_rules import argument_policy

_PAGE: Final = 200


def authority_of(principal: Principal) -> tuple[str, Sequence[str]]:
    """Return whose authority a call has, as ``kind:id``, and the principals that act for it, nearest to it last."""
    if principal.on_behalf_of is None:
        return principal.qualified_id, ()
    *between, owner = principal.on_behalf_of.split(" for ")
    return owner, (principal.qualified_id, *between)


class Delegations:
    """The delegations of all users."""

    def __init__(self, store: CredentialStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def refusal(self, request: Request, connection: str) -> str | None:
        """Return why a caller may not use its user's connection for this call, or ``None``.

        Each principal that acts for the user needs a delegation that allows the tool and its arguments.
        """
        owner, delegates = authority_of(request.principal)
        for delegate in delegates:
            query = DelegationQuery(request.principal.org, owner, connection, delegate, limit=_PAGE)
            reasons: list[str] = []
            while True:
                page = await self._store.delegations(query)
                checks = [await self._problem(row, request) for row in page.items]
                if None in checks:
                    break
                reasons += filter(None, checks)
                if page.next is None:
                    detail = f": {reasons[0]}" if reasons else ""
                    return f"{owner} has not let {delegate} use {connection} for this{detail}"
                query = replace(query, before=page.next)
        return None

    async def _problem(self, row: DelegationRow, request: Request) -> str | None:
        """Return why a delegation does not allow a call, or ``None`` if it does."""
        tool = request.tool
        if row.expires_at is not None and row.expires_at <= iso(self._clock.time_ns()):
            return f"that ended at {row.expires_at}"
        if row.tools and (tool is None or tool.name not in row.tools):
            return f"only for {', '.join(row.tools)}"
        if row.arguments is None:
            return None
        if tool is None:
            return "only for calls with certain arguments"
        try:
            rules = from_json(row.arguments)
            allowed = argument_policy("delegation", rules, tool.arguments.names)
        except (CapsetError, ValueError):
            return "its rule for arguments cannot be read"
        arguments = plain(dict(request.arguments or {}))  # the form that rules are about
        if absent := sorted(set(rules) - arguments.keys()):  # what a call leaves out is not restricted
            return f"only for calls with {' and '.join(absent)}"
        written = request._replace(arguments=arguments)
        ruling = rule(await evaluate_all((allowed,), written))
        return None if ruling.kind == "allow" else ruling.reason

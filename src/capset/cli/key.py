"""``capset key``: API keys for the server (spec 5, P14)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

import typer

from capset.cli.common.actors import acting_here
from capset.cli.common.allowances import KeyLimit, KeyRunBudget, KeySessionBudget, KeyUsage, given_allowance
from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Grant
from capset.cli.common.output import cell, err, out, print_json, table
from capset.cli.common.settings import Settings, existing_db, given_attributes, load_settings
from capset.definitions.allowances import allowance_of
from capset.definitions.principals import Attributes, Principal, PrincipalKind
from capset.errors import DefinitionError, NotFound
from capset.kernel.kernel import Kernel
from capset.server.auth.keys import DEFAULT_SCOPES, create_key, is_valid, revoke_key
from capset.stores.base import KeyRow
from capset.wire.operations import KeyPageShape, key_shape, new_key_shape

_LIFETIME: Final = re.compile(r"([1-9]\d{0,4})([hd])")
_UNITS: Final = {"h": "hours", "d": "days"}
_KINDS: Final[tuple[PrincipalKind, ...]] = ("user", "agent", "org")
"""The kinds of principals that can have a key: anonymous ones cannot."""


@guarded
def create_command(
    name: Annotated[str, typer.Argument(help="What the key is for, so that people know it again.")],
    principal: Annotated[str, typer.Option(help="Who acts by this key.")],
    kind: Annotated[str, typer.Option(help="What the principal is: user, agent or org.")] = "user",
    org: Annotated[str | None, typer.Option(help="The organisation whose agents and records it sees.")] = None,
    grant: Grant = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An attribute of the principal, which policies read; may be repeated."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Of read, write, call, call:TOOL, audit, approve, metrics and admin; may be repeated. "
            "Else read and call."
        ),
    ] = None,
    limit: KeyLimit = None,
    session_budget: KeySessionBudget = None,
    run_budget: KeyRunBudget = None,
    usage_limit: KeyUsage = None,
    agent: Annotated[str | None, typer.Option(help="The agent that /mcp leads to, by its id or name.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="30d", help="How long it opens: hours or days.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Make an API key and show it, this once: only its hash is kept."""
    settings = load_settings(db=db)
    # From options alone: a settings file planted in a folder must not grant anything to keys.
    who = Principal(
        principal,
        permissions=grant or (),
        kind=_kind(kind),
        org=org,
        attributes=given_attributes(attribute),
        allowance=given_allowance(limit, session_budget, run_budget, usage_limit),
    )
    row, key = asyncio.run(_create(settings, name, who, _scopes(scope), _lifetime(expires), agent))
    if as_json:
        print_json(new_key_shape(row, key).plain())
    else:
        print(key, flush=True)
        until = f"until {row.expires_at[:10]}" if row.expires_at else "without end"
        err().print(f"[dim]key {row.id} for {cell(who.id)}, {until}; it is not shown again[/]", soft_wrap=True)
    return Exit.DONE


@guarded
def list_command(db: Db = None, as_json: AsJson = False) -> Exit:
    """List every key, the newest first; the keys themselves cannot be seen any more."""
    rows, now = asyncio.run(_list(existing_db(load_settings(db=db).db)))
    if as_json:
        print_json(KeyPageShape(items=[key_shape(row) for row in rows]).plain())
        return Exit.DONE
    columns = ("ID", "NAME", "ORG", "PRINCIPAL", "ATTRIBUTES", "SCOPES", "PERMISSIONS", "ALLOWANCE", "STATE")
    folds = ("NAME", "ATTRIBUTES", "SCOPES", "PERMISSIONS", "ALLOWANCE")
    out().print(table(*columns, rows=(_line(row, now) for row in rows), folds=folds))
    return Exit.DONE


@guarded
def revoke_command(
    id: Annotated[str, typer.Argument(help="The id of the key, as capset key list shows it.")],
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Revoke a key for good. A server that runs takes it for a second more at most."""
    settings = load_settings(db=db)
    existing_db(settings.db)
    row = asyncio.run(_revoke(settings, id))
    if row is None:
        raise NotFound(f"there is no key {id!r}", hint="capset key list shows their ids")
    if as_json:
        print_json(key_shape(row).plain())
    else:
        print(f"revoked {row.id}")
    return Exit.DONE


async def _create(
    settings: Settings, name: str, who: Principal, scopes: Sequence[str], lifetime: timedelta | None, agent: str | None
) -> tuple[KeyRow, str]:
    async with Kernel(store=settings.db) as kernel:
        with acting_here(settings.principal):
            return await create_key(kernel, name, who, scopes=scopes, lifetime=lifetime, agent=agent)


async def _list(url: str) -> tuple[list[KeyRow], str]:
    async with Kernel(store=url) as kernel:
        return await kernel.store.keys.list(), kernel.now()


async def _revoke(settings: Settings, id: str) -> KeyRow | None:
    async with Kernel(store=settings.db) as kernel:
        with acting_here(settings.principal):
            return await revoke_key(kernel, id)


def _line(row: KeyRow, now: str) -> list[str]:
    state = "revoked" if row.revoked_at else "valid" if is_valid(row, now) else "expired"
    if state == "valid" and row.expires_at:
        state = f"until {row.expires_at[:10]}"
    scopes = " ".join(scope.removeprefix("capset:") for scope in row.scopes)
    shown = Attributes(row.attributes).masked()
    said = " ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items())
    granted, allowed = " ".join(row.permissions), "" if row.allowance is None else str(allowance_of(row.allowance))
    who = (row.id, row.name, row.org or "–", row.principal, said or "–")
    return list(map(cell, (*who, scopes, granted or "–", allowed or "–", state)))


def _scopes(given: list[str] | None) -> Sequence[str]:
    """Return the requested scopes; ``read`` is short for ``capset:read``, as in the list."""
    return [one if one.startswith("capset:") else f"capset:{one}" for one in given] if given else DEFAULT_SCOPES


def _kind(given: str) -> PrincipalKind:
    for kind in _KINDS:
        if given == kind:
            return kind
    raise DefinitionError(f"--kind must be one of {', '.join(_KINDS)}; got {given!r}")


def _lifetime(given: str | None) -> timedelta | None:
    if given is None:
        return None
    found = _LIFETIME.fullmatch(given)
    if found is None:
        raise DefinitionError(f"--expires must be a number of hours or days, such as 12h or 30d; got {given!r}")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})

"""``capset key``: API keys for the server (spec 5, P14)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from pydantic import ValidationError

from capset.clock import SystemClock, iso
from capset.definitions.principals import Principal, PrincipalKind
from capset.errors import DefinitionError
from capset.schemas.validation_errors import validation_fields
from capset.wire.allowances import allowance_shape
from capset.wire.operations import KeyInput, KeyPageShape, KeyShape
from capset_cli.administration import administer
from capset_cli.common.allowances import KeyLimit, KeyRunBudget, KeySessionBudget, KeyUsage, allowance_from_options
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Grant
from capset_cli.common.output import cell, err, print_json, print_table
from capset_cli.common.remote import NamedUrl
from capset_cli.common.settings import parse_attributes
from capset_server.auth.keys import DEFAULT_SCOPES

if TYPE_CHECKING:
    from capset_cli.administration import Admin

_LIFETIME: Final = re.compile(r"([1-9]\d{0,4})([hd])")
_KINDS: Final[tuple[PrincipalKind, ...]] = ("user", "agent", "org")
"""The kinds of principals that can have a key: anonymous ones cannot."""


@guarded
def create_command(
    name: Annotated[str, typer.Argument(help="A name by which people recognise the key.")],
    principal: Annotated[str, typer.Option(help="Who acts with this key.")],
    kind: Annotated[str, typer.Option(help="The kind of the principal: user, agent or org.")] = "user",
    org: Annotated[str | None, typer.Option(help="The organisation whose agents and records it sees.")] = None,
    grant: Grant = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An attribute of the principal, which policies read; may be repeated."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="One of read, write, call, call:CAPABILITY.TOOL, audit, observe, approve, metrics and admin; may be "
            "repeated. By default read and call."
        ),
    ] = None,
    limit: KeyLimit = None,
    session_budget: KeySessionBudget = None,
    run_budget: KeyRunBudget = None,
    usage_limit: KeyUsage = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent that /mcp serves for this key, by its id or name.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="30d", help="How long the key is valid, in hours or days.")
    ] = None,
    db: Db = None,
    url: NamedUrl = None,
    as_json: AsJson = False,
) -> Exit:
    """Create an API key and print it. It cannot be shown again: only its hash is stored.

    With --url, a server creates it with the rights of the key in CAPSET_KEY; by default, it then expires after 90 days.
    """
    # From options alone: a settings file planted in a folder must not grant anything to keys.
    key_principal = Principal(
        principal,
        permissions=grant or (),
        kind=_parse_kind(kind),
        org=org,
        attributes=parse_attributes(attribute),
        allowance=allowance_from_options(limit, session_budget, run_budget, usage_limit),
    )
    key_input = _key_input(name, key_principal, _full_scopes(scope), _check_lifetime(expires), agent)
    created = administer(url or "", lambda admin: admin.keys.create(key_input), db=db, creates=True)
    if as_json:
        print_json(created.plain())
    else:
        print(created.key, flush=True)
        until = f"until {created.expires_at[:10]}" if created.expires_at else "without expiry"
        err().print(
            f"[dim]key {created.id} for {cell(key_principal.id)}, {until}; it is not shown again[/]", soft_wrap=True
        )
    return Exit.DONE


@guarded
def list_command(db: Db = None, url: NamedUrl = None, as_json: AsJson = False) -> Exit:
    """List all keys, newest first. The secrets themselves are not stored, and cannot be shown.

    With --url, a server lists the keys that the key in CAPSET_KEY administers.
    """

    async def read(admin: Admin) -> list[KeyShape]:
        return [key async for key in admin.keys.all()]

    rows, now = administer(url or "", read, db=db), iso(SystemClock().time_ns())
    if as_json:
        print_json(KeyPageShape(items=rows).plain())
        return Exit.DONE
    columns = ("ID", "NAME", "ORG", "PRINCIPAL", "ATTRIBUTES", "SCOPES", "PERMISSIONS", "ALLOWANCE", "STATE")
    folds = ("NAME", "ATTRIBUTES", "SCOPES", "PERMISSIONS", "ALLOWANCE")
    empty = "no keys: capset key create NAME --principal WHO makes one"
    print_table(columns, (_row(row, now) for row in rows), folds=folds, empty=empty)
    return Exit.DONE


@guarded
def revoke_command(
    id: Annotated[str, typer.Argument(help="The id of the key, as capset key list shows it.")],
    db: Db = None,
    url: NamedUrl = None,
    as_json: AsJson = False,
) -> Exit:
    """Revoke a key for good. A running server accepts it for at most one more second."""
    revoked = administer(url or "", lambda admin: admin.keys.revoke(id), db=db)
    if as_json:
        print_json(revoked.plain())
    else:
        print(f"revoked {revoked.id}")
    return Exit.DONE


def _key_input(
    name: str, principal: Principal, scopes: Sequence[str], expires: str | None, agent: str | None
) -> KeyInput:
    """Return the input for a new key. Raises ``DefinitionError`` if it is invalid."""
    all_fields: dict[str, Any] = {
        "name": name,
        "principal": principal.id,
        "kind": principal.kind,
        "org": principal.org,
        "permissions": sorted(principal.permissions),
        "scopes": list(scopes),
        "attributes": dict(principal.attributes),
        "allowance": allowance_shape(principal.allowance and principal.allowance.plain()),
        "agent": agent,
        "expires": expires,
    }
    fields = {name: value for name, value in all_fields.items() if value is not None}
    try:
        return KeyInput.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(map(str, validation_fields(error, list(KeyInput.model_fields), fields)))
        raise DefinitionError(f"invalid key: {problems}") from None


def _row(key: KeyShape, now: str) -> list[str]:
    is_open = key.expires_at is None or now < key.expires_at
    state = "revoked" if key.revoked_at else "valid" if is_open else "expired"
    if state == "valid" and key.expires_at:
        state = f"until {key.expires_at[:10]}"
    scopes = " ".join(scope.removeprefix("capset:") for scope in key.scopes)
    attributes = key.attributes.items()
    attribute_text = " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in attributes
    )
    allowance = None if key.allowance is None else key.allowance.allowance()
    granted, allowed = " ".join(key.permissions), "" if allowance is None else str(allowance)
    identity = (key.id, key.name, key.org or "–", key.principal, attribute_text or "–")
    return list(map(cell, (*identity, scopes, granted or "–", allowed or "–", state)))


def _full_scopes(names: list[str] | None) -> Sequence[str]:
    """Return the requested scopes; ``read`` is short for ``capset:read``, as in the list."""
    return [name if name.startswith("capset:") else f"capset:{name}" for name in names] if names else DEFAULT_SCOPES


def _parse_kind(name: str) -> PrincipalKind:
    for kind in _KINDS:
        if name == kind:
            return kind
    raise DefinitionError(f"--kind must be one of {', '.join(_KINDS)}; got {name!r}")


def _check_lifetime(text: str | None) -> str | None:
    if text is not None and _LIFETIME.fullmatch(text) is None:
        raise DefinitionError(f"--expires must be a number of hours or days, such as 12h or 30d; got {text!r}")
    return text

"""``capset deliveries``: deliveries of events to channels, and retries of failed ones (spec 9, N27)."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from capset.errors import DefinitionError, unknown
from capset.stores.base import DeliveryState
from capset.wire.deliveries import DeliveryShape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, err, out, print_json, table
from capset_cli.common.remote import Url

Org = Annotated[str | None, typer.Option("--org", help="The organisation that the requests belong to.")]


@guarded
def list_command(
    state: Annotated[
        str | None, typer.Option(help="Only deliveries in this state: queued, delivered or failed.")
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Only deliveries to this channel.")] = None,
    approval: Annotated[str | None, typer.Option(help="Only deliveries of this approval request.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The maximum number of deliveries.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only deliveries before the one with this id.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List deliveries to channels, newest first."""
    delivery_state = _state(state)
    page = administer(
        url,
        lambda admin: admin.deliveries.list(
            state=delivery_state, channel=channel, approval=approval, limit=limit, cursor=before
        ),
        db=db,
        org=org,
    )
    if as_json:
        print_json(page.plain())
        return Exit.DONE
    columns = ("ID", "CHANNEL", "EVENT", "REQUEST", "STATE", "ATTEMPTS", "ERROR")
    out().print(table(*columns, rows=map(_row, page.items), folds=("ERROR",)))
    if page.next is not None:
        err().print(f"[dim]more: --before {page.next}[/]")
    return Exit.DONE


@guarded
def retry_command(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the delivery, as capset deliveries list shows it.")
    ],
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """Requeue a failed delivery. A server that has its channel sends it."""
    delivery = administer(url, lambda admin: admin.deliveries.retry(id), db=db, org=org)
    if as_json:
        print_json(delivery.plain())
    else:
        print(f"queued {delivery.id}")
    return Exit.DONE


def _row(delivery: DeliveryShape) -> list[str]:
    texts = (
        delivery.id,
        delivery.channel,
        delivery.event,
        delivery.approval,
        delivery.state,
        str(delivery.attempts),
        delivery.error or "–",
    )
    return list(map(cell, texts))


def _state(named: str | None) -> DeliveryState | None:
    if named is None:
        return None
    for state in get_args(DeliveryState):
        if named == state:
            return state
    raise DefinitionError(unknown("state", named, get_args(DeliveryState)))

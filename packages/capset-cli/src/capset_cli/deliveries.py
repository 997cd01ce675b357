"""``capset deliveries``: deliveries of events to channels, and retries of failed ones (spec 9, N27)."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from capset.stores.base import DeliveryState
from capset.wire.deliveries import DeliveryShape
from capset_cli.administration import administer
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, parse_choice
from capset_cli.common.output import cell, print_json, print_page
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
    delivery_state: DeliveryState | None = parse_choice("state", state, get_args(DeliveryState))
    page = administer(
        url,
        lambda admin: admin.deliveries.list(
            state=delivery_state, channel=channel, approval=approval, limit=limit, cursor=before
        ),
        db=db,
        org=org,
    )
    columns = ("ID", "CHANNEL", "EVENT", "REQUEST", "STATE", "ATTEMPTS", "ERROR")
    print_page(
        page,
        columns,
        map(_row, page.items),
        folds=("ERROR",),
        as_json=as_json,
        empty="no deliveries match: `notifications` in a configuration file make one for each approval request",
    )
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

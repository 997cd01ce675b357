"""``capset deliveries``: events on their way to channels, and those that did not arrive (spec 9, N27)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from capset.errors import DefinitionError, unknown
from capset.kernel.kernel import Kernel
from capset.stores.base import DeliveryQuery, DeliveryState
from capset.wire.deliveries import DeliveryPageShape, DeliveryShape, delivery_page_shape, delivery_shape
from capset_cli.common.actors import acting_here
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, err, out, print_json, table
from capset_cli.common.remote import Url
from capset_cli.common.settings import load_settings
from capset_cli.people import ask_here_or_there
from capset_server.approvals.deliveries import retry_delivery

if TYPE_CHECKING:
    from capset_server.client import Client

Org = Annotated[str | None, typer.Option("--org", help="The organisation whose requests they tell of.")]


@guarded
def list_command(
    state: Annotated[str | None, typer.Option(help="Only those in this state: queued, delivered or failed.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only those to this channel.")] = None,
    approval: Annotated[str | None, typer.Option(help="Only those of this request.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many deliveries.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only deliveries before this one, by its id.")] = None,
    org: Org = None,
    db: Db = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List deliveries to channels, the newest first."""
    query = DeliveryQuery(org, _state(state), channel, approval, limit=limit, before=before)

    async def run_remote(client: Client) -> DeliveryPageShape:
        return await client.deliveries.list(
            state=query.state, channel=channel, approval=approval, limit=limit, cursor=before
        )

    async def run_local(kernel: Kernel) -> DeliveryPageShape:
        return await delivery_page_shape(kernel.store.deliveries.list, query)

    page = ask_here_or_there(url, run_remote, run_local, db=db, org=org)
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
    """Queue a delivery that has failed again. A server with its channel sends it."""

    async def run_local(kernel: Kernel) -> DeliveryShape:
        with acting_here(load_settings(db=db).principal):
            return delivery_shape(await retry_delivery(kernel, org, id))

    delivery = ask_here_or_there(url, lambda client: client.deliveries.retry(id), run_local, db=db, org=org)
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

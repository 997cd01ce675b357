"""Checks of deliveries to channels, and of the people of chats (spec 9, N21–N24, N30)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.stores.base import DeliveryQuery, DeliveryRow, PersonQuery, PersonRow, Store
from capset_testing.store_suite.support import LATER, NOW, SOON, Make, approval_row, entry, expect, open_store

PERSON: Final = PersonRow(
    id="p-1",
    team="T1",
    user="U1",
    org="acme",
    principal="ada",
    principal_kind="user",
    permissions=("deploy:run",),
    created_at=NOW,
    created_by="root",
    attributes={"tier": "gold"},
    makers=("user:root", "user:boss"),
)


def delivery_row(id: str, **changes: str) -> DeliveryRow:
    """Return a delivery. ``changes`` override its columns."""
    row = DeliveryRow(
        id=id,
        channel="ops",
        key=f"approval.requested {id}",
        event="approval.requested",
        approval="r-1",
        org="acme",
        created_at=NOW,
        due_at=NOW,
    )
    return replace(row, **changes)


async def _queue(store: Store, *rows: DeliveryRow) -> None:
    request = replace(approval_row(f"r-{rows[0].id}"), org="acme", digest=rows[0].id)
    await store.approvals.open(request, max_pending=99, deliveries=rows)


async def deliveries_are_queued_with_what_they_tell_of(make: Make) -> None:
    """Check that deliveries are queued with a stored request or a successful change, and otherwise not at all."""
    async with open_store(make) as store:
        row = replace(approval_row("r-1"), org="acme")
        opened_one = delivery_row("d-1")
        await store.approvals.open(row, max_pending=9, deliveries=[opened_one])
        await store.approvals.open(replace(row, id="r-2"), max_pending=9, deliveries=[delivery_row("d-2")])
        expect(await store.deliveries.get("acme", "d-1"), opened_one, "the delivery of a request")
        expect(await store.deliveries.get("acme", "d-2"), None, "the delivery of a request that joined another")
        other = replace(row, id="r-3", digest="other")
        await store.approvals.open(other, max_pending=1, deliveries=[delivery_row("d-3")])
        expect(await store.deliveries.get("acme", "d-3"), None, "the delivery of a request beyond the limit")
        decided = replace(row, status="approved")
        for delivery_id in ("d-4", "d-5"):
            await store.approvals.move(decided, "pending", deliveries=[delivery_row(delivery_id)])
        expect(await store.deliveries.get("acme", "d-4"), delivery_row("d-4"), "the delivery of a decision")
        expect(await store.deliveries.get("acme", "d-5"), None, "the delivery of a decision that came too late")
        expect(await store.deliveries.get("other", "d-1"), None, "a delivery for another org")
        expect(await store.deliveries.get(None, "d-1"), None, "a delivery for no org")


async def a_channel_has_one_delivery_for_each_key(make: Make) -> None:
    """Check that the first delivery of a key is kept, and that other channels have their own."""
    async with open_store(make) as store:
        first = delivery_row("d-1", key="same")
        duplicate, other = delivery_row("d-2", key="same"), delivery_row("d-3", key="same", channel="mail")
        await _queue(store, first, duplicate, other)
        expect(await store.deliveries.find("ops", "same"), first, "the delivery of a key")
        expect(await store.deliveries.find("mail", "same"), other, "the delivery of another channel")
        expect(await store.deliveries.find("mail", "other"), None, "a delivery of an unknown key")
        page = await store.deliveries.list(DeliveryQuery("acme"))
        expect([delivery.id for delivery in page.items], ["d-3", "d-1"], "all deliveries")


async def a_delivery_is_claimed_by_one_holder(make: Make) -> None:
    """Check that due deliveries are claimed, longest due first, and by another holder when the lease has ended."""
    async with open_store(make) as store:
        rows = (delivery_row("d-1", due_at=SOON), delivery_row("d-2"), delivery_row("d-3"))
        await _queue(store, *rows, delivery_row("d-4", channel="mail"))
        claimed = await store.deliveries.claim("ops", "one", now=NOW, until=SOON, limit=9)
        expected = [replace(row, holder="one", due_at=SOON, attempts=1) for row in rows[1:]]
        expect(list(claimed), expected, "the due deliveries of a channel")
        expect(list(await store.deliveries.claim("ops", "two", now=NOW, until=SOON, limit=9)), [], "held deliveries")
        taken = await store.deliveries.claim("ops", "two", now=SOON, until=LATER, limit=2)
        expect(
            [(delivery.id, delivery.attempts, delivery.holder) for delivery in taken],
            [("d-1", 1, "two"), ("d-2", 2, "two")],
            "the deliveries that were taken over",
        )
        several = [store.deliveries.claim("mail", f"h-{n}", now=NOW, until=SOON, limit=1) for n in range(4)]
        ids = [delivery.id for rows in await asyncio.gather(*several) for delivery in rows]
        expect(ids, ["d-4"], "a delivery that several claim at once")


async def an_outcome_is_stored_by_the_holder_alone(make: Make) -> None:
    """Check that a holder that lost its lease stores no outcome, and that no outcome is stored twice."""
    async with open_store(make) as store:
        await _queue(store, delivery_row("d-1"))
        (late,) = await store.deliveries.claim("ops", "one", now=NOW, until=SOON, limit=1)
        (claimed,) = await store.deliveries.claim("ops", "one", now=SOON, until=LATER, limit=1)
        done = replace(claimed, state="delivered", receipt='{"ts":"1"}', ended_at=LATER)
        expect(await store.deliveries.settle(replace(late, state="failed")), False, "whether a late outcome counts")
        waiting = replace(claimed, due_at=LATER, error="503")
        expect(await store.deliveries.settle(waiting), True, "whether a failed attempt is stored")
        expect(await store.deliveries.get("acme", "d-1"), replace(waiting, holder=""), "a delivery that waits")
        expect(await store.deliveries.settle(done), False, "whether it is settled twice")
        (reclaimed,) = await store.deliveries.claim("ops", "two", now=LATER, until=LATER, limit=1)
        done = replace(reclaimed, state="delivered", error=None, receipt='{"ts":"1"}', ended_at=LATER)
        expect(await store.deliveries.settle(done), True, "whether an outcome is stored")
        expect(await store.deliveries.get("acme", "d-1"), replace(done, holder=""), "a finished delivery")
        expect(list(await store.deliveries.claim("ops", "x", now=LATER, until=LATER, limit=1)), [], "due deliveries")


async def a_failed_delivery_is_queued_again(make: Make) -> None:
    """Check that it is due at once, without attempts, and with an act; only failed ones are queued again."""
    async with open_store(make) as store:
        await _queue(store, delivery_row("d-1"))
        act = entry("a-1", phase="act", act="delivery.retry")
        expect(await store.deliveries.retry("acme", "d-1", now=LATER, act=act), False, "retrying a queued delivery")
        (claimed,) = await store.deliveries.claim("ops", "one", now=NOW, until=SOON, limit=1)
        failed = replace(claimed, state="failed", error="gone", ended_at=SOON)
        await store.deliveries.settle(failed)
        expect(await store.deliveries.retry("other", "d-1", now=LATER), False, "retrying another org's delivery")
        expect(await store.deliveries.retry("acme", "d-1", now=LATER, act=act), True, "retrying a failed delivery")
        queued = replace(failed, state="queued", attempts=0, due_at=LATER, holder="", ended_at=None)
        expect(await store.deliveries.get("acme", "d-1"), queued, "the delivery that is retried")


async def deliveries_are_listed_and_swept(make: Make) -> None:
    """Check lists by state, channel and request, newest first, in pages, and deletion by age."""
    async with open_store(make) as store:
        rows = (delivery_row("d-1"), delivery_row("d-2", channel="mail"), delivery_row("d-3", approval="r-9"))
        await _queue(store, *rows, delivery_row("d-4", created_at=LATER))
        (claimed,) = await store.deliveries.claim("mail", "one", now=NOW, until=SOON, limit=1)
        await store.deliveries.settle(replace(claimed, state="failed", error="x", ended_at=NOW))

        async def list_ids(query: DeliveryQuery) -> list[str]:
            return [delivery.id for delivery in (await store.deliveries.list(query)).items]

        expect(await list_ids(DeliveryQuery("acme")), ["d-4", "d-3", "d-2", "d-1"], "all deliveries")
        expect(await list_ids(DeliveryQuery("acme", state="failed")), ["d-2"], "the failed deliveries")
        expect(await list_ids(DeliveryQuery("acme", channel="ops")), ["d-4", "d-3", "d-1"], "a channel's deliveries")
        expect(await list_ids(DeliveryQuery("acme", approval="r-9")), ["d-3"], "a request's deliveries")
        page = await store.deliveries.list(DeliveryQuery("acme", limit=2))
        rest = await store.deliveries.list(DeliveryQuery("acme", limit=2, before=page.next))
        expect([delivery.id for delivery in (*page.items, *rest.items)], ["d-4", "d-3", "d-2", "d-1"], "two pages")
        expect(rest.next, None, "the cursor after the last page")
        expect((await store.deliveries.list(DeliveryQuery("other"))).items, (), "the deliveries of another org")
        await store.deliveries.sweep(before=LATER)
        expect(await list_ids(DeliveryQuery("acme")), ["d-4"], "the remaining deliveries")


async def a_user_of_a_workspace_is_one_person_of_an_org(make: Make) -> None:
    """Check that an org has one person per user, found by both ids across orgs, listed and removed in its own."""
    async with open_store(make) as store:
        people = store.people
        bob = replace(PERSON, id="p-2", user="U2", org=None, principal="bob", attributes=None, permissions=())
        bob = replace(bob, makers=())
        elsewhere = replace(PERSON, id="p-5", org="other", principal="grace")
        expect(await people.add(PERSON, act=entry("a-1", phase="act", act="person.add")), True, "whether added")
        expect(await people.add(bob), True, "whether another is added")
        expect(await people.add(replace(PERSON, id="p-3", principal="eve")), False, "whether the same user is added")
        expect(await people.add(replace(bob, id="p-3")), False, "whether the same user of no org is added")
        expect(await people.add(elsewhere), True, "whether the same user is added to another org")
        expect(await people.find("T1", "U1"), [PERSON, elsewhere], "the persons of a user")
        expect(await people.find("T2", "U1"), [], "a user of that id in another workspace")
        expect(await people.get(None, "p-2"), bob, "a person without an org")
        expect(await people.get("acme", "p-2"), None, "a person of another org")
        expect((await people.list(PersonQuery("acme"))).items, (PERSON,), "the people of an org")
        await people.add(replace(PERSON, id="p-4", user="U4"))
        page = await people.list(PersonQuery("acme", limit=1))
        expect(([person.id for person in page.items], page.next), (["p-4"], "p-4"), "the first page")
        rest = await people.list(PersonQuery("acme", limit=1, before="p-4"))
        expect(([person.id for person in rest.items], rest.next), (["p-1"], None), "the second page")
        expect(await people.remove("other", "p-1"), False, "whether another org's person is removed")
        expect(await people.remove("acme", "p-1"), True, "whether a person is removed")
        expect(await people.find("T1", "U1"), [elsewhere], "the persons of a user, one of whom was removed")

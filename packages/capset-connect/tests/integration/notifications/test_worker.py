"""The queue and its worker: nothing is lost, nothing sent twice by itself, and nothing holds up anything (N21–N24)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from capset import Kernel
from capset.clock import iso
from capset.definitions.governance.channels import NotificationChannel
from capset.errors import DefinitionError
from capset_connect.notifications import worker
from capset_connect.notifications.worker import ATTEMPTS, LEASE_SECONDS, DeliveryWorker, pause_after
from capset_testing import FakeClock
from capset_testing.store_suite.delivery_checks import delivery_row
from tests.helpers.connect.notifications.receiving import delivery_when, failed_once, paying, receiver, settled, stall
from tests.helpers.net.support import answer
from tests.helpers.server.approving import again, approved, asked
from tests.helpers.server.support import ALL_SCOPES, problem
from tests.waiting import until

pytestmark = pytest.mark.realtime

ADMIN = (*ALL_SCOPES, "capset:admin")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers look for what is due and overdue often: the clock of the test is moved by hand."""
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(worker, "_TIDY_SECONDS", 0.02)


@pytest.mark.spec("N21")
async def test_without_channels_nothing_is_queued_and_no_worker_runs() -> None:
    async with paying() as (site, client, session):
        request = await asked(client, session)
        assert (await client.get("/v1/deliveries")).json()["items"] == []
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("capset-channel")]
        assert site.kernel.deliveries.channels == ()
        assert (await client.get(f"/v1/approvals/{request}")).json()["status"] == "pending"


@pytest.mark.spec("N22")
async def test_attempts_are_made_for_about_a_day_and_then_it_has_failed(often: None) -> None:
    clock = FakeClock()
    async with (
        receiver(answer(503)) as endpoint,
        paying(endpoint.hook(events=["approval.requested"]), clock=clock) as (site, client, session),
    ):
        request = await asked(client, session)
        began = clock.time_ns()
        for attempt in range(1, ATTEMPTS):
            await delivery_when(
                site,
                "ops",
                request,
                "approval.requested",
                lambda row, done=attempt: row.attempts == done and not row.holder,
            )
            assert len(endpoint.got) == attempt
            clock.advance(pause_after(attempt) * 1.6)
        row = await settled(site, "ops", request, "failed")
        assert (row.attempts, row.error) == (ATTEMPTS, "the receiver answered 503")
        assert 12 * 3600 < (clock.time_ns() - began) / 1e9 < 60 * 3600
        assert set(endpoint.ids()) == {row.id}, "each attempt has the same id"
        assert row.ended_at is not None


def test_pauses_grow_and_differ() -> None:
    pauses = [sorted(pause_after(attempt) for _ in range(200)) for attempt in (1, 2, 9, 500)]
    for observed, exact in zip(pauses, (5, 20, 21_600, 21_600), strict=True):
        assert exact * 0.8 <= observed[0] < observed[-1] <= exact * 1.2


@pytest.mark.spec("N22")
async def test_a_receiver_that_asks_for_time_gets_it(often: None) -> None:
    clock = FakeClock()
    async with (
        receiver(answer(429, retry_after="300"), answer(204)) as endpoint,
        paying(endpoint.hook(), clock=clock) as (site, client, session),
    ):
        request = await asked(client, session)
        row = await failed_once(site, "ops", request)
        assert row.due_at == iso(clock.time_ns() + 300_000_000_000)
        clock.advance(299)
        await asyncio.sleep(0.1)
        assert len(endpoint.got) == 1
        clock.advance(2)
        row = await settled(site, "ops", request)
        assert (row.attempts, row.error) == (2, None)


@pytest.mark.spec("N23")
async def test_a_stalling_receiver_holds_up_neither_calls_nor_other_channels() -> None:
    async with (
        receiver(stall) as slow,
        receiver() as fast,
        paying(slow.hook("slow", timeout=30), fast.hook("fast")) as (site, client, session),
    ):
        began = time.monotonic()
        requests = [await asked(client, session, amount=amount) for amount in range(12)]
        for request in requests:
            await settled(site, "fast", request)
        assert time.monotonic() - began < 10
        assert len(slow.got) == worker.AT_ONCE, "a few are sent at once, and the rest waits"


@pytest.mark.spec("N23")
async def test_of_a_channel_one_request_that_stalls_does_not_hold_up_the_next() -> None:
    async with receiver(stall, answer(204)) as endpoint, paying(endpoint.hook(timeout=30)) as (site, client, session):
        await asked(client, session)
        await endpoint.wait(1)
        request = await asked(client, session, amount=2)
        row = await settled(site, "ops", request)
        assert (row.attempts, row.error) == (1, None)


@pytest.mark.spec("N21")
async def test_what_was_not_decided_in_time_is_told_though_nothing_looks(often: None) -> None:
    clock = FakeClock()
    async with (
        receiver() as endpoint,
        paying(endpoint.hook(events=["approval.expired"]), clock=clock) as (site, client, session),
    ):
        request = await asked(client, session)
        clock.advance(site.kernel.governance.approval_seconds + 1)
        (got,) = await endpoint.wait(1)
        sent = got.verified()
        assert (sent["type"], sent["data"]["request"]["id"]) == ("approval.expired", request)
        assert sent["data"]["request"]["status"] == "expired"


@pytest.mark.spec("N21")
async def test_an_approval_that_is_used_or_runs_out_is_no_event(often: None) -> None:
    clock = FakeClock()
    async with receiver() as endpoint, paying(endpoint.hook(), clock=clock) as (site, client, session):
        request = await asked(client, session)
        await site.key("eve")
        async with site.client("eve") as eve:
            assert (await approved(eve, request)).status_code == 200
            other = await asked(client, session, amount=2)
            assert (await approved(eve, other)).status_code == 200
        assert (await again(client, session, request)).status_code == 200
        clock.advance(site.kernel.governance.approval_seconds + 1)
        await asyncio.sleep(0.2)
        rows = (await client.get("/v1/deliveries")).json()["items"]
        assert sorted(row["event"] for row in rows) == ["approval.approved"] * 2 + ["approval.requested"] * 2


@pytest.mark.spec("N24")
async def test_what_a_dead_process_held_is_sent_by_another(often: None) -> None:
    clock, channel = FakeClock(), "ops"
    async with receiver() as endpoint, paying(endpoint.hook("other"), clock=clock) as (site, client, session):
        store = site.kernel.store
        row = delivery_row("d-1", channel=channel, due_at=iso(clock.time_ns()))
        request = await asked(client, session)
        approval = await site.kernel.approvals.find(request, "acme")
        assert approval is not None
        await store.approvals.move(approval, "pending", deliveries=[replace(row, approval=request)])
        lease_end = iso(clock.time_ns() + round(LEASE_SECONDS * 1e9))
        (claimed,) = await store.deliveries.claim(channel, "dead", now=iso(clock.time_ns()), until=lease_end, limit=9)
        site.kernel.deliveries.channels = (endpoint.hook(channel),)
        taking_over = asyncio.create_task(DeliveryWorker(site.kernel).run())
        await endpoint.wait(1)
        await asyncio.sleep(0.1)
        assert endpoint.ids() != [claimed.id], "the lease has not ended"
        clock.advance(LEASE_SECONDS)
        assert (await endpoint.wait(2))[1].headers["webhook-id"] == claimed.id
        await delivery_when(site, channel, "d-1", "approval.requested", lambda row: row.state == "delivered")
        assert not await store.deliveries.settle(replace(claimed, state="failed")), "the dead one comes too late"
        taking_over.cancel()


async def test_a_channel_of_no_kind_is_refused() -> None:
    async with Kernel(store="memory://", channels=[NotificationChannel(name="idle")]) as kernel:
        with pytest.raises(DefinitionError, match="has no sender"):
            DeliveryWorker(kernel)


def test_two_channels_of_one_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match="two channels 'ops'"):
        Kernel(store="memory://", channels=[NotificationChannel(name="ops"), NotificationChannel(name="ops")])


@pytest.mark.spec("N22")
async def test_what_is_older_than_thirty_days_is_deleted(often: None) -> None:
    clock = FakeClock()
    async with receiver() as endpoint, paying(endpoint.hook(), clock=clock) as (site, client, session):
        request = await asked(client, session)
        await settled(site, "ops", request)
        clock.advance(worker.KEPT.total_seconds() - 60)
        await asyncio.sleep(0.1)
        assert await site.kernel.store.deliveries.find("ops", f"approval.requested {request}") is not None
        clock.advance(120)

        async def is_deleted() -> bool:
            return await site.kernel.store.deliveries.find("ops", f"approval.requested {request}") is None

        await until(is_deleted)


@pytest.mark.spec("N27", "G39")
async def test_a_failed_delivery_is_tried_again_by_an_administrator_on_record() -> None:
    async with receiver(answer(410), answer(204)) as endpoint, paying(endpoint.hook()) as (site, client, session):
        request = await asked(client, session)
        row = await settled(site, "ops", request, "failed")
        problem(await client.post(f"/v1/deliveries/{row.id}/retry"), 403, "permission_denied")
        await site.key("root", scopes=ADMIN)
        await site.key("globex", scopes=ADMIN, org="globex")
        async with site.client("globex") as other:
            problem(await other.get(f"/v1/deliveries/{row.id}"), 404, "not_found")
            problem(await other.post(f"/v1/deliveries/{row.id}/retry"), 404, "not_found")
            assert (await other.get("/v1/deliveries")).json()["items"] == []
        async with site.client("root") as root:
            queued = await root.post(f"/v1/deliveries/{row.id}/retry")
            assert queued.status_code == 200, queued.text
            await settled(site, "ops", request)
            refused = problem(await root.post(f"/v1/deliveries/{row.id}/retry"), 409, "conflict")
            assert "only a failed delivery" in refused["detail"]
            response = await root.get("/v1/deliveries", params={"state": "delivered", "channel": "ops"})
            (delivery,) = response.json()["items"]
            assert (delivery["id"], delivery["attempts"], delivery["approval"]) == (row.id, 1, request)
            acts = await root.get("/v1/audit", params={"act": "delivery.retry"})
            (act,) = acts.json()["items"]
            assert act["arguments"]["id"] == row.id
            assert act["approval"] == request
        assert set(endpoint.ids()) == {row.id}


@pytest.mark.spec("N22")
def test_a_lease_is_longer_than_any_attempt() -> None:
    assert worker.SEND_SECONDS < LEASE_SECONDS

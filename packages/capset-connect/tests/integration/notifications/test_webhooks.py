"""Webhooks: signed, within bounds, and never diverted; receivers are real servers (spec 9, N25, N26)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from capset.errors import DefinitionError
from capset_connect.notifications import Webhook
from tests.helpers.connect.notifications.receiving import (
    SECRET,
    Secrets,
    failed_once,
    flood,
    paying,
    receiver,
    settled,
    stall,
)
from tests.helpers.net.support import answer, redirect
from tests.helpers.server.approving import approved, asked


@pytest.mark.spec("N25")
async def test_a_request_is_sent_signed_with_what_people_have_to_know() -> None:
    async with (
        receiver() as endpoint,
        paying(endpoint.hook(), public_url="https://a.example") as (site, client, session),
    ):
        request = await asked(client, session, amount=7)
        (got,) = await endpoint.wait(1)
        sent = got.verified()
        assert sent["type"] == "approval.requested"
        assert sent["version"] == 1
        assert sent["data"]["url"] == f"https://a.example/approve/{request}"
        assert sent["data"]["shortened"] is False
        response = await client.get(f"/v1/approvals/{request}")
        of_no_caller = {"decidable": None, "refusal": None}
        assert sent["data"]["request"] == {**response.json(), **of_no_caller}, "as over REST"
        assert sent["data"]["request"]["arguments"] == {"to": "bob", "amount": 7}
        assert got.headers["content-type"] == "application/json"
        row = await settled(site, "ops", request)
        assert (row.id, row.attempts, row.error) == (got.headers["webhook-id"], 1, None)
        assert sent["timestamp"] == row.created_at


@pytest.mark.spec("N25", "T48")
async def test_what_was_changed_on_the_way_does_not_verify() -> None:
    async with receiver() as endpoint, paying(endpoint.hook()) as (_, client, session):
        await asked(client, session)
        (got,) = await endpoint.wait(1)
        got.verified()
        other = "whsec_" + base64.b64encode(b"another secret of the same length").decode()
        for body, headers, secret in (
            (got.body.replace(b"bob", b"eve"), got.headers, SECRET),
            (got.body, {**got.headers, "webhook-id": "other"}, SECRET),
            (got.body, {**got.headers, "webhook-timestamp": str(int(got.headers["webhook-timestamp"]) - 1)}, SECRET),
            (got.body, {**got.headers, "webhook-timestamp": str(int(got.headers["webhook-timestamp"]) - 301)}, SECRET),
            (got.body, got.headers, other),
        ):
            with pytest.raises(WebhookVerificationError):
                Verifier(secret).verify(body, headers)


@pytest.mark.spec("N26")
async def test_secrets_are_masked_and_large_arguments_cut() -> None:
    async with receiver() as endpoint, paying(endpoint.hook()) as (_, client, session):
        await asked(client, session, to="x" * 100_000)
        (got,) = await endpoint.wait(1)
        data = got.verified()["data"]
        assert data["shortened"] is True
        assert data["request"]["arguments"]["to"] == "x" * 1_000 + "… [99000 more characters]"
        await asked(client, session, to="https://user:hunter2@example.org/?token=hunter2")
        (_, got) = await endpoint.wait(2)
        assert b"hunter2" not in got.body
        assert len(got.body) < 20_000


@pytest.mark.spec("N20")
async def test_a_channel_is_told_of_what_it_asks_for() -> None:
    async with receiver() as endpoint:
        channels = (
            endpoint.hook("ends", events=["approval.approved", "approval.rejected"]),
            endpoint.hook("donations", tools=["don*"]),
            endpoint.hook("others", agents=["somebody else"]),
            endpoint.hook("acme", orgs=["acme"], events=["approval.requested"]),
            endpoint.hook("globex", orgs=["globex"]),
        )
        async with paying(*channels) as (site, client, session):
            paid, donated = await asked(client, session), await asked(client, session, "donate")
            await site.key("eve")
            async with site.client("eve") as eve:
                assert (await approved(eve, paid)).status_code == 200
                assert (await eve.post(f"/v1/approvals/{donated}/reject", json={"note": "no"})).status_code == 200
            await endpoint.wait(6)
            rows = (await client.get("/v1/deliveries")).json()["items"]
            assert sorted((row["channel"], row["event"], row["approval"]) for row in rows) == sorted(
                [
                    ("ends", "approval.approved", paid),
                    ("ends", "approval.rejected", donated),
                    ("donations", "approval.requested", donated),
                    ("donations", "approval.rejected", donated),
                    ("acme", "approval.requested", paid),
                    ("acme", "approval.requested", donated),
                ]
            )
            assert len(set(endpoint.ids())) == 6


@pytest.mark.spec("N25", "N26")
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (answer(500, b"the database is at 10.0.0.1"), "the receiver answered 500"),
        (answer(404), "the receiver answered 404"),
        (redirect("http://127.0.0.1:9/internal", 307), "the receiver answered 307: redirects are not followed"),
        (b"not http at all\r\n\r\n", ""),
        (b"", ""),
        (stall, "There was no response within 1 s."),
    ],
    ids=["fails", "missing", "redirects", "speaks otherwise", "hangs up", "stalls"],
)
async def test_whatever_fails_is_tried_again_later(reply: Any, error: str) -> None:
    async with (
        receiver(reply, answer(204)) as endpoint,
        receiver() as other,
        paying(endpoint.hook(timeout=1), other.hook("mail")) as (site, client, session),
    ):
        request = await asked(client, session)
        await settled(site, "mail", request)
        await endpoint.wait(1)
        row = await failed_once(site, "ops", request)
        assert (row.state, row.attempts, row.holder) == ("queued", 1, "")
        assert error in (row.error or "")
        assert "10.0.0.1" not in (row.error or "")
        assert len(endpoint.got) == 1, "nothing else was asked"


@pytest.mark.spec("N25", "T48")
async def test_a_flood_is_cut_off_and_counts_as_taken() -> None:
    async with receiver(flood) as endpoint, paying(endpoint.hook()) as (site, client, session):
        request = await asked(client, session)
        row = await settled(site, "ops", request)
        assert row.error is None
        pending = await client.get(f"/v1/approvals/{request}")
        assert pending.json()["status"] == "pending", "what a receiver answers decides nothing"


@pytest.mark.spec("N25")
async def test_410_ends_a_delivery_and_nothing_else() -> None:
    async with receiver(answer(410), answer(204)) as endpoint, paying(endpoint.hook()) as (site, client, session):
        first = await asked(client, session)
        row = await settled(site, "ops", first, "failed")
        assert (row.error, row.attempts) == ("the receiver answered 410", 1)
        second = await asked(client, session, amount=9)
        await settled(site, "ops", second)


@pytest.mark.spec("N25", "T48")
async def test_an_internal_address_needs_to_be_allowed() -> None:
    async with receiver() as endpoint, paying(endpoint.hook(internal=[])) as (site, client, session):
        request = await asked(client, session)
        row = await failed_once(site, "ops", request)
        assert "127.0.0.1" in (row.error or "")
        assert endpoint.got == []


@pytest.mark.spec("N26")
@pytest.mark.parametrize("secret", [None, "", "hunter2", "whsec_aHVudGVyMg==", "whsec_hunter2!"])
async def test_a_secret_that_is_none_is_never_quoted(secret: str | None) -> None:
    secrets = Secrets()
    secrets.known = {} if secret is None else {"HOOK_SECRET": secret}
    async with receiver() as endpoint, paying(endpoint.hook(), secrets=secrets) as (site, client, session):
        request = await asked(client, session)
        row = await failed_once(site, "ops", request)
        assert "HOOK_SECRET" in (row.error or "")
        assert "hunter2" not in json.dumps((await client.get("/v1/deliveries")).json())
        assert "aHVudGVyMg" not in (row.error or "")
        assert endpoint.got == []


@pytest.mark.spec("N26", "N28")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"secret": "whsec_hunter2"}, "secret must be ${NAME}"),
        ({"url": "ftp://hunter2"}, "url: "),
        ({"url": 5}, "url must be a URL"),
        ({"name": "Ops NotificationChannel"}, "must match"),
        ({"events": ["approval.request"]}, "did you mean 'approval.requested'?"),
        ({"events": "approval.requested"}, "events must be a list"),
        ({"tools": [5]}, "must be text"),
        ({"internal": ["169.254.169.254"]}, "169.254.169.254"),
        ({"internal": "localhost"}, "must be a list"),
        ({"timeout": 0}, "timeout must be a number of seconds from 1 to 30"),
        ({"timeout": 3600}, "timeout must be a number of seconds from 1 to 30"),
    ],
)
def test_what_cannot_be_a_webhook_is_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"name": "ops", "url": "https://example.org/hook", "secret": "${HOOK_SECRET}"}
    Webhook(**arguments)
    with pytest.raises(DefinitionError) as caught:
        Webhook(**{**arguments, **change})
    assert words in caught.value.message
    assert "hunter2" not in caught.value.message

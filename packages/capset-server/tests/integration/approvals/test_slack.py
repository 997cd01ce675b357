"""Decisions by buttons in Slack: by people whom an administrator entered, once, and never forged (spec 9, N30–N32)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx2
import pytest

from capset_connect.notifications import worker
from tests.helpers.connect.notifications.receiving import Secrets, failed_once, paying, settled
from tests.helpers.connect.notifications.slack_town import (
    SECRETS,
    buttons,
    click,
    interaction,
    sent,
    signed,
    slack_town,
    words,
)
from tests.helpers.server.approvals.slack import ADMIN, BEA, chatting
from tests.helpers.server.approving import again, approved, asked
from tests.helpers.server.support import make_session, problem


async def status(client: httpx2.AsyncClient, request: str) -> str:
    return (await client.get(f"/v1/approvals/{request}")).json()["status"]


@pytest.mark.spec("N31", "N32", "G39")
async def test_a_click_decides_on_record_and_the_message_says_so() -> None:
    async with chatting(public_url="https://a.example") as (slack, server, client, session):
        request = await asked(client, session, amount=7)
        message = await slack.message()
        assert message["channel"] == "C0CHAT"
        text = words(message)
        for part in (
            "pay waits for an approval",
            "user:ada",
            '\\"amount\\": 7',
            f"https://a.example/approve/{request}",
        ):
            assert part in text, text
        await settled(server, "chat", request)
        assert buttons(message).keys() == {"capset_approve", "capset_reject"}
        response = await click(server, buttons(message)["capset_approve"])
        assert (response.status_code, response.content) == (200, b"")
        decided = (await client.get(f"/v1/approvals/{request}")).json()
        assert (decided["status"], decided["decided_by"]) == ("approved", "user:bea")
        assert (await again(client, session, request, amount=7)).json()["data"] == "bob has 7"
        await settled(server, "chat", request, event="approval.approved")
        (updated,) = slack.messages.values()
        assert buttons(updated) == {}
        assert "user:bea" in words(updated)
        async with server.client("root") as root:
            (act,) = (await root.get("/v1/audit", params={"act": "approval.approve"})).json()["items"]
            assert (act["principal"], act["source"]) == ("bea", "slack T1/U1 in C0CHAT")
            assert act["approval"] == request
            (added,) = (await root.get("/v1/audit", params={"act": "person.add"})).json()["items"]
            assert added["arguments"]["principal"] == "user:bea"


@pytest.mark.spec("N32")
async def test_a_click_rejects() -> None:
    async with chatting() as (slack, server, client, session):
        request = await asked(client, session)
        assert (await click(server, buttons(await slack.message())["capset_reject"])).status_code == 200
        assert await status(client, request) == "rejected"


@pytest.mark.spec("N32", "T48")
@pytest.mark.parametrize(
    ("clicker", "reply"),
    [
        ({"user": "U9"}, "have not been added"),
        ({"user": "U1", "team": "T9"}, "from this workspace"),
        ({"user": "U1", "channel": {"id": "C0OTHER"}}, "from this workspace and conversation"),
    ],
)
async def test_who_was_not_entered_or_clicks_elsewhere_decides_nothing_and_is_told(
    clicker: dict[str, Any], reply: str
) -> None:
    async with chatting() as (slack, server, client, session):
        async with server.client("root") as root:
            elsewhere = {**BEA, "team": "T9", "principal": "dan"}
            assert (await root.post("/v1/people", json=elsewhere)).status_code == 201
        request = await asked(client, session)
        response = await click(server, buttons(await slack.message())["capset_approve"], **clicker)
        assert response.status_code == 200
        assert reply in await slack.answered()
        assert slack.told[0]["user"] == clicker["user"]
        assert await status(client, request) == "pending"


@pytest.mark.spec("N32", "T48")
async def test_the_secret_of_one_channel_decides_no_request_that_another_tells_of() -> None:
    """Also as a person of that request's organisation, whom the holder of the secret can name."""
    other = "the secret of another app"
    async with slack_town() as slack:
        channels = slack.channel(orgs=["acme"]), slack.channel("other", orgs=["globex"], signing_secret="${OTHER}")
        async with paying(*channels, secrets=Secrets(**SECRETS, OTHER=other)) as (server, client, session):
            await server.key("root", scopes=ADMIN, permissions=())
            async with server.client("root") as root:
                assert (await root.post("/v1/people", json=BEA)).status_code == 201
            request = await asked(client, session)
            button = buttons(await slack.message())["capset_approve"]
            forged = interaction(button)
            assert (await sent(server, forged, signed(forged, secret=other))).status_code == 200
            assert "not announced in this conversation" in await slack.answered()
            assert await status(client, request) == "pending"
            await click(server, button, trigger_id="its own")
            assert await status(client, request) == "approved"


@pytest.mark.spec("N30", "N32")
async def test_a_user_is_a_person_of_each_organisation_and_decides_as_that_ones() -> None:
    async with chatting() as (slack, server, client, session):
        await server.key("globex", scopes=ADMIN, org="globex")
        await server.key("gail", org="globex")
        async with server.client("globex") as globex, server.client("gail") as gail:
            trixie = {**BEA, "principal": "trixie"}
            assert (await globex.post("/v1/people", json=trixie)).status_code == 201, "acme's bea does not prevent it"
            problem(await globex.post("/v1/people", json=trixie), 409, "conflict")
            theirs, ours = await asked(gail, await make_session(gail, "till")), await asked(client, session)
            await slack.message(2)
            for request, asker, by in ((theirs, gail, "user:trixie"), (ours, client, "user:bea")):
                (button,) = [
                    candidate
                    for message in slack.messages.values()
                    for candidate in buttons(message).values()
                    if (candidate["action_id"], candidate["value"]) == ("capset_approve", request)
                ]
                await click(server, button)
                decided = (await asker.get(f"/v1/approvals/{request}")).json()
                assert (decided["status"], decided["decided_by"]) == ("approved", by)


@pytest.mark.spec("N30", "G17", "T7")
async def test_a_person_counts_as_who_entered_it() -> None:
    async with chatting() as (slack, server, client, session):
        async with server.client("root") as root:
            request = await asked(root, await make_session(root, "till"))
        await click(server, buttons(await slack.message())["capset_approve"])
        assert "counts as its holder" in await slack.answered()
        assert (await server.kernel.approvals.get(request, org="acme")).status == "pending"
        own_request = await asked(client, session)
        await slack.message(2)
        (last,) = [
            message for message in slack.messages.values() if buttons(message)["capset_approve"]["value"] == own_request
        ]
        await click(server, buttons(last)["capset_approve"])
        assert await status(client, own_request) == "approved", "ada is entered as no person"


@pytest.mark.spec("N30")
async def test_who_was_removed_decides_nothing_any_more() -> None:
    async with chatting() as (slack, server, client, session):
        request = await asked(client, session)
        async with server.client("root") as root:
            (bea,) = (await root.get("/v1/people")).json()["items"]
            assert (await root.delete(f"/v1/people/{bea['id']}")).status_code == 204
            problem(await root.delete(f"/v1/people/{bea['id']}"), 404, "not_found")
        await click(server, buttons(await slack.message())["capset_approve"])
        assert "have not been added" in await slack.answered()
        assert await status(client, request) == "pending"


@pytest.mark.spec("N32", "G16")
async def test_own_requests_and_those_of_others_organisations_are_refused() -> None:
    async with chatting() as (slack, server, client, session):
        await server.key("globex", scopes=ADMIN, org="globex")
        async with server.client("root") as root, server.client("globex") as globex:
            ada = {"team": "T1", "user": "U2", "principal": "ada"}
            assert (await root.post("/v1/people", json=ada)).status_code == 201
            other = {"team": "T1", "user": "U3", "principal": "eve"}
            assert (await globex.post("/v1/people", json=other)).status_code == 201
        request = await asked(client, session)
        button = buttons(await slack.message())["capset_approve"]
        await click(server, button, "U2")
        assert "a principal other than the one who made it" in await slack.answered(1)
        await click(server, button, "U3")
        assert "have not been added for the organisation of this request" in await slack.answered(2)
        assert await status(client, request) == "pending"


@pytest.mark.spec("N32")
@pytest.mark.parametrize(
    "forge",
    [
        lambda body: {},
        lambda body: signed(body, secret="another secret"),
        lambda body: signed(body + b"x"),
        lambda body: signed(body, stamp=int(time.time()) - 301),
        lambda body: signed(body, stamp=int(time.time()) + 301),
        lambda body: {**signed(body), "x-slack-request-timestamp": str(int(time.time()) - 1)},
        lambda body: {**signed(body), "x-slack-signature": "v0="},
        lambda body: {**signed(body), "x-slack-signature": "v1=" + "0" * 64},
        lambda body: {**signed(body), "x-slack-request-timestamp": "now"},
        lambda body: {**signed(body), "x-slack-request-timestamp": "9" * 400},
        lambda body: {"authorization": "Bearer x"},
    ],
)
async def test_what_slack_did_not_sign_just_now_is_refused(forge: Any) -> None:
    async with chatting() as (slack, server, client, session):
        request = await asked(client, session)
        body = interaction(buttons(await slack.message())["capset_approve"])
        problem(await sent(server, body, forge(body)), 401, "unauthenticated")
        assert await status(client, request) == "pending"
        assert slack.told == []


@pytest.mark.realtime
@pytest.mark.spec("N32", "T48")
async def test_the_same_request_is_taken_once_also_by_another_server(postgres_url: str) -> None:
    async with (
        chatting(store=postgres_url) as (slack, first_server, client, session),
        paying(slack.channel(), store=postgres_url, secrets=Secrets(**SECRETS)) as (other, _, _),
    ):
        request = await asked(client, session)
        body = interaction(buttons(await slack.message())["capset_approve"], "U9")
        headers = signed(body)
        assert (await sent(first_server, body, headers)).status_code == 200, "it decides nothing: U9 is not entered"
        async with first_server.client("root") as root:
            late = {"team": "T1", "user": "U9", "principal": "dan"}
            assert (await root.post("/v1/people", json=late)).status_code == 201
        for server in (first_server, other):
            problem(await sent(server, body, headers), 409, "conflict")
        assert await status(client, request) == "pending"


@pytest.mark.spec("N32")
async def test_of_several_clicks_one_decides() -> None:
    async with chatting() as (slack, server, client, session):
        async with server.client("root") as root:
            dan = {"team": "T1", "user": "U2", "principal": "dan"}
            assert (await root.post("/v1/people", json=dan)).status_code == 201
        await asked(client, session)
        controls = buttons(await slack.message())
        ways = [
            click(server, controls[action], user, trigger_id=f"{action} {user}")
            for action in ("capset_approve", "capset_reject")
            for user in ("U1", "U2")
        ]
        assert {response.status_code for response in await asyncio.gather(*ways)} == {200}
        await slack.answered(3)
        assert all("is no longer open" in reply["text"] for reply in slack.told)
        async with server.client("root") as root:
            pages = [await root.get("/v1/audit", params={"act": f"approval.{act}"}) for act in ("approve", "reject")]
        assert sum(len(page.json()["items"]) for page in pages) == 1


@pytest.mark.spec("N31")
async def test_a_decision_from_elsewhere_is_shown_and_a_click_after_it_decides_nothing() -> None:
    async with chatting() as (slack, server, client, session):
        request = await asked(client, session)
        button = buttons(await slack.message())["capset_reject"]
        await settled(server, "chat", request)
        await server.key("eve")
        async with server.client("eve") as eve:
            assert (await approved(eve, request, note="fine")).status_code == 200
        await settled(server, "chat", request, event="approval.approved")
        (updated,) = slack.messages.values()
        assert "user:eve" in words(updated)
        await click(server, button)
        assert "is no longer open: it was approved by user:eve" in await slack.answered()
        assert await status(client, request) == "approved"


@pytest.mark.spec("N31")
async def test_a_message_that_comes_late_shows_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PAUSES", (0.2, 1.0, 0.2))
    async with chatting() as (slack, server, client, session):
        slack.refusals = [b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"] * 2
        request = await asked(client, session)
        await server.key("eve")
        async with server.client("eve") as eve:
            assert (await approved(eve, request)).status_code == 200
        await settled(server, "chat", request)
        await settled(server, "chat", request, event="approval.approved")
        (message,) = slack.messages.values()
        assert buttons(message) == {}
        assert "user:eve" in words(message)


@pytest.mark.spec("N31", "N26", "T48")
async def test_text_of_others_reaches_nobody_and_hides_nothing() -> None:
    async with chatting() as (slack, _, client, session):
        await asked(client, session, to="<!channel> <https://evil.example|click> \u202egnp.exe token=hunter2")
        message = await slack.message()
        kinds = {block["type"]: block for block in message["blocks"]}
        (element,) = kinds["rich_text"]["elements"]
        assert [child["type"] for child in element["elements"]] == ["text"]
        assert "\u202e" not in words(message)
        assert "u{202e}" in words(message)
        markdown = [block for block in message["blocks"] if block.get("text", {}).get("type") == "mrkdwn"]
        assert markdown == []
        assert "<" not in message["text"]


@pytest.mark.spec("N31")
async def test_what_is_not_shown_whole_cannot_be_approved_by_a_click() -> None:
    async with chatting(public_url="https://a.example") as (slack, server, client, session):
        request = await asked(client, session, to="x" * 5_000)
        message = await slack.message()
        assert buttons(message) == {}
        assert "decide the request on its page" in words(message)
        assert f"https://a.example/approve/{request}" in words(message)
        assert len(words(message)) < 10_000
        await settled(server, "chat", request)


@pytest.mark.spec("N31", "N32", "G51", "T49")
async def test_what_is_masked_cannot_be_approved_by_a_click() -> None:
    async with chatting(public_url="https://a.example") as (slack, server, client, session):
        request = await asked(client, session, to="curl https://ok/?token=x;{rm,-rf,/srv/data}")
        message = await slack.message()
        assert "token=[redacted];{rm,-rf,/srv/data}" in words(message)
        assert buttons(message) == {}
        await settled(server, "chat", request)
        made_up = {"type": "button", "action_id": "capset_approve", "value": request}
        assert (await click(server, made_up)).status_code == 200
        assert "a part of the arguments is masked" in await slack.answered()
        assert await status(client, request) == "pending"


@pytest.mark.spec("N31", "N26")
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b'{"ok": false, "error": "channel_not_found"}', "Slack refused chat.postMessage: channel_not_found"),
        (b'{"ok": false, "error": "<script>alert(1)</script>"}', "no valid error code"),
        (b"[]", "is not a JSON object"),
        (b"x" * 300_000, "is not a JSON object"),
        (b'{"ok": true}', "lacks the place of the message"),
    ],
)
async def test_answers_of_slack_are_never_trusted(reply: bytes, error: str) -> None:
    async with chatting() as (slack, server, client, session):
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(reply)}\r\n\r\n".encode()
        slack.refusals = [head + reply]
        request = await asked(client, session)
        row = await failed_once(server, "chat", request)
        assert error in (row.error or "")
        assert "script" not in (row.error or "")


@pytest.mark.spec("N32")
async def test_other_signed_requests_are_answered_and_decide_nothing() -> None:
    async with chatting() as (slack, server, client, session):
        request = await asked(client, session)
        button = buttons(await slack.message())["capset_approve"]
        for body in (
            interaction({**button, "action_id": "other"}),
            interaction({**button, "value": ""}),
            interaction(button, type="view_submission"),
            interaction(button, actions=[button, button]),
            interaction(button, actions="none"),
        ):
            assert (await sent(server, body, signed(body))).status_code == 200
        for body in (b"payload=%7B", b"{}", b"payload=", b"\xff=", interaction(button, "<@U1>")):
            assert (await sent(server, body, signed(body))).status_code in (400, 401, 422)
        large = interaction(button, message="x" * 300_000)
        problem(await sent(server, large, signed(large)), 413, "body_too_large")
        assert await status(client, request) == "pending"


@pytest.mark.spec("N32")
async def test_without_its_secret_nothing_from_slack_is_taken() -> None:
    secrets = Secrets(SLACK_TOKEN="xoxb-the-token")
    async with slack_town() as slack, paying(slack.channel(), secrets=secrets) as (server, client, session):
        await asked(client, session)
        button = buttons(await slack.message())["capset_approve"]
        for secret in ("", " ", "${SLACK_SIGNING}"):
            body = interaction(button)
            headers = signed(body, secret=secret)
            problem(await sent(server, body, headers), 401, "unauthenticated")


@pytest.mark.spec("N32")
async def test_without_a_channel_in_slack_there_is_no_such_path() -> None:
    async with paying() as (server, _, _):
        body = interaction({})
        problem(await sent(server, body, signed(body)), 404, "not_found")
        async with chatting() as (_, other, _, _), other.client(None) as anybody:
            refused = await anybody.get("/slack/interactions")
            problem(refused, 405, "method_not_allowed")
            assert refused.headers["allow"] == "POST"


@pytest.mark.spec("N30")
async def test_people_are_entered_by_administrators_within_what_they_hold() -> None:
    async with chatting() as (_, server, client, _):
        problem(await client.get("/v1/people"), 403, "permission_denied")
        problem(await client.post("/v1/people", json=BEA), 403, "permission_denied")
        async with server.client("root") as root:
            new = {**BEA, "user": "U5"}
            refused = problem(
                await root.post("/v1/people", json={**new, "permissions": ["deploy:run"]}), 403, "permission_denied"
            )
            assert "you lack deploy:run" in refused["detail"]
            for wrong in ({"user": "ada"}, {"team": "<T1>"}, {"kind": "anonymous"}, {"email": "ada@example.org"}):
                assert (await root.post("/v1/people", json={**new, **wrong})).status_code == 422
            new_person = {**new, "attributes": {"tier": "gold", "api_key": "hunter2"}}
            created = await root.post("/v1/people", json=new_person)
            assert created.status_code == 201
            assert "hunter2" not in created.text
            assert created.json()["created_by"] == "user:root"
            page = (await root.get("/v1/people", params={"limit": 1})).json()
            rest = (await root.get("/v1/people", params={"cursor": page["next"]})).json()
            assert [person["user"] for person in (*page["items"], *rest["items"])] == ["U5", "U1"]

"""E-mail: plain and bounded, with exactly its headers, to each recipient once; the server is real (spec 9, N33)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.errors import DefinitionError
from capset_connect.notifications import Email, worker
from tests.certificates import certificate
from tests.helpers.connect.notifications.receiving import Secrets, failed_once, paying, settled
from tests.helpers.server.approving import approved, asked
from tests.helpers.tools.mail import HOST, PASSWORD, USERNAME, MailServer, mail_server

FROM = "capset@capset.example"
HEADERS = [
    *("auto-submitted", "content-type", "date", "from", "message-id", "mime-version", "subject", "to"),
]


def mailing(smtp: MailServer, **more: Any) -> Email:
    """Return the channel of a mail server of the test's own."""
    options: dict[str, Any] = {"tls": "none", "recipients": ["ada@example.org"], **more}
    return Email(name="mail", host=HOST, port=smtp.port, from_address=FROM, **options)


def part(smtp: MailServer, kind: str, number: int = 0) -> str:
    """Return the text of one part of an email."""
    body = smtp.delivered[number].message.get_body((kind,))
    assert body is not None
    return body.get_content()


@pytest.mark.spec("N33")
async def test_a_request_comes_with_what_people_have_to_know_and_a_link() -> None:
    async with mail_server() as smtp:
        async with paying(mailing(smtp), public_url="https://a.example") as (site, client, session):
            request = await asked(client, session, amount=7)
            row = await settled(site, "mail", request)
            await site.key("eve")
            async with site.client("eve") as eve:
                await approved(eve, request, note="fine")
            await settled(site, "mail", request, event="approval.approved")
        (mail, decided) = smtp.delivered
        assert (mail.sender, mail.recipients, mail.headers) == (FROM, ["ada@example.org"], HEADERS)
        assert mail.message["subject"] == "[capset] pay waits for an approval"
        assert mail.message["message-id"] == f"<{row.id}.0@capset.example>"
        for kind in ("plain", "html"):
            text = part(smtp, kind)
            for words in ("user:ada", "acme", '"amount": 7' if kind == "plain" else "&quot;amount&quot;: 7"):
                assert words in text, text
            assert f"https://a.example/approve/{request}" in text
        assert "<form" not in part(smtp, "html")
        assert decided.message["subject"] == "[capset] pay was approved"
        assert "user:eve" in part(smtp, "plain", 1)
        assert "fine" in part(smtp, "plain", 1)


@pytest.mark.spec("N33", "N26", "T48")
async def test_text_of_others_is_no_header_no_markup_and_bounded() -> None:
    hostile = "x\r\nBcc: eve@example.org\r\n\r\n<script>alert(1)</script>\u202e" + "y" * 100_000
    async with mail_server() as smtp, paying(mailing(smtp)) as (site, client, session):
        request = await asked(client, session, to=hostile)
        await settled(site, "mail", request)
        (mail,) = smtp.delivered
        assert (mail.recipients, mail.headers) == (["ada@example.org"], HEADERS)
        assert "<script" not in part(smtp, "html")
        assert "\u202e" not in part(smtp, "plain") + part(smtp, "html")
        assert "Not all of the arguments are shown" in part(smtp, "plain")
        assert len(mail.raw) < 30_000
        assert mail.raw.isascii()


@pytest.mark.spec("N33")
async def test_each_recipient_gets_a_message_of_their_own_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PAUSES", (0.2, 1.0, 0.2))
    people = ["ada@example.org", "bob@example.org"]
    async with mail_server() as smtp, paying(mailing(smtp, recipients=people)) as (site, client, session):
        refuses = True

        async def rcpt(server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
            if refuses and address == "bob@example.org":
                return "451 not now, says mail.secret.example"
            envelope.rcpt_tos.append(address)
            return "250 OK"

        smtp.handle_RCPT = rcpt  # type: ignore[method-assign]
        request = await asked(client, session)
        row = await failed_once(site, "mail", request)
        assert row.error == "the mail server rejected a recipient (code 451)"
        refuses = False
        row = await settled(site, "mail", request)
        assert [mail.recipients for mail in smtp.delivered] == [["ada@example.org"], ["bob@example.org"]]
        assert [mail.message["to"] for mail in smtp.delivered] == people
        assert row.attempts >= 2


@pytest.mark.spec("N33")
@pytest.mark.parametrize("tls", ["starttls", "implicit"])
async def test_a_password_goes_over_trusted_tls(tls: str) -> None:
    login = {"username": "${SMTP_USERNAME}", "password": "${SMTP_PASSWORD}"}
    secrets = Secrets(SMTP_USERNAME=USERNAME, SMTP_PASSWORD=PASSWORD)
    async with mail_server(tls=tls, login=True) as smtp:
        trusted = mailing(smtp, tls=tls, certificates=certificate(HOST)[0], **login)
        async with paying(trusted, secrets=secrets) as (site, client, session):
            request = await asked(client, session)
            await settled(site, "mail", request)
            assert smtp.delivered[0].is_encrypted
            assert smtp.logins == [(USERNAME.encode(), PASSWORD.encode())]
        async with paying(mailing(smtp, tls=tls, **login), secrets=secrets) as (site, client, session):
            request = await asked(client, session)
            row = await failed_once(site, "mail", request)
            assert "sending through the mail server failed" in (row.error or "")
            assert len(smtp.logins) == 1, "what is not trusted gets no password"


@pytest.mark.spec("N33", "N23")
@pytest.mark.parametrize("hangs", ["EHLO", "MAIL", "DATA"])
async def test_a_mail_server_that_stalls_is_left(hangs: str) -> None:
    async with mail_server(hangs=hangs) as smtp, paying(mailing(smtp, timeout=1)) as (site, client, session):
        request = await asked(client, session)
        row = await failed_once(site, "mail", request)
        assert row.error in {
            f"sending through the mail server failed ({kind})" for kind in ("TimeoutError", "SMTPReadTimeoutError")
        }


@pytest.mark.spec("N33")
async def test_what_a_mail_server_says_is_not_quoted() -> None:
    replies = {"DATA": "554 mail.secret.example hates <script>"}
    async with mail_server(answers=replies) as smtp, paying(mailing(smtp)) as (site, client, session):
        request = await asked(client, session)
        row = await failed_once(site, "mail", request)
        assert row.error == "the mail server rejected the message (code 554)"


@pytest.mark.spec("N33", "N28")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recipients": []}, "must be 1–50 addresses"),
        ({"recipients": ["Ada <ada@example.org>"]}, "one bare address"),
        ({"recipients": ["ada@example.org\r\nBcc: eve@example.org"]}, "one bare address"),
        ({"from_address": "nobody"}, "one bare address"),
        ({"host": "a b"}, "the name of a mail server"),
        ({"tls": "maybe"}, "starttls, implicit or none"),
        ({"port": 0}, "1–65,535"),
        ({"certificates": "hunter2"}, "as PEM text"),
        ({"username": "${A}"}, "belong together"),
        ({"username": "hunter2", "password": "${B}"}, "username must be ${NAME}"),
        ({"username": "${A}", "password": "${B}", "tls": "none"}, "over TLS only"),
    ],
)
def test_what_cannot_be_a_list_is_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "name": "mail",
        "host": "mail.example.org",
        "from_address": FROM,
        "recipients": ["ada@example.org"],
    }
    assert Email(**arguments).tls == "starttls"
    with pytest.raises(DefinitionError) as caught:
        Email(**{**arguments, **change})
    assert words in caught.value.message
    assert "hunter2" not in caught.value.message

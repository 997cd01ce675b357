"""What email does, against a real server on the loopback (spec 4, G32)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from capset import Result
from capset.definitions.governance.limits import Limit
from capset.extras import install_command
from capset_testing import Desk, session_for
from capset_tools.email import email, email_send
from tests.helpers.tools.mail import (
    HOST,
    PASSWORD,
    SECRETS,
    SENDER,
    USERNAME,
    Held,
    MailServer,
    breaking_tls,
    certificate,
    config_for,
    mail_server,
    scripted_server,
)

LETTER: dict[str, Any] = {"to": "ada@example.org", "subject": "Hello", "body": "How are you?"}
MODES = [("none", False), ("starttls", False), ("starttls", True), ("implicit", True)]


@asynccontextmanager
async def office(
    server: Mapping[str, Any] | None = None, *, secrets: Held = SECRETS, **settings: Any
) -> AsyncGenerator[tuple[MailServer, Desk]]:
    """Open a server, and a session that sends by it; ``settings`` are those of the config."""
    async with (
        mail_server(**(server or {})) as smtp_server,
        session_for(
            email, config=config_for(smtp_server, **settings), permissions=["email:send"], secrets=secrets
        ) as desk,
    ):
        yield smtp_server, desk


@asynccontextmanager
async def post(answers: Mapping[str, str | None]) -> AsyncGenerator[tuple[MailServer, Desk]]:
    """Open a server that answers as a test says, and a session that sends by it."""
    async with (
        scripted_server(answers) as smtp_server,
        session_for(email, config=config_for(smtp_server), permissions=["email:send"]) as desk,
    ):
        yield smtp_server, desk


async def send(desk: Desk, **changed: Any) -> Result[Any]:
    return await desk.session.try_call(email_send, **{**LETTER, **changed})


def trusting(name: str = HOST) -> dict[str, Any]:
    return {"certificates": certificate(name)[0]}


@pytest.mark.spec("G32", "G10", "G25")
def test_it_is_declared_as_it_is_specified() -> None:
    assert (email_send.effect, email_send.permissions) == ("external", {"email:send"})
    assert email_send.limits == (Limit(10, "1h"),)
    assert (email_send.retry, email_send.idempotent) == (None, False)
    assert email.risk == "high"
    assert email_send.arguments.json_schema["properties"]["to"]["format"] == "email"


@pytest.mark.spec("G32")
async def test_an_email_arrives_as_it_was_written() -> None:
    async with office() as (server, desk):
        result = await send(desk, to="Ada@EXAMPLE.org", subject="Grüße – 世界 🌍", body="Liebe Ada,\n\n.\nbis bald\n")
        (only,) = server.delivered
        assert result.data == {"message_id": only.message["Message-ID"], "accepted": "Ada@example.org"}
        assert (only.sender, only.recipients) == (SENDER, ["Ada@example.org"])
        assert (only.message["From"], only.message["To"]) == (SENDER, "Ada@example.org")
        assert only.message["Subject"] == "Grüße – 世界 🌍"
        assert only.message.get_content_type() == "text/plain"
        assert only.message.get_content().replace("\r\n", "\n") == "Liebe Ada,\n\n.\nbis bald\n"
        assert only.raw.isascii()
        assert abs(parsedate_to_datetime(only.message["Date"]) - datetime.now(UTC)) < timedelta(minutes=1)
        assert server.helos == ["capset.example"]


@pytest.mark.spec("G32")
async def test_a_long_subject_arrives_with_all_of_its_spaces() -> None:
    subject = "  Tea:   green" + "  and  日本  " * 9 + " café " * 10 + "x" * 30
    async with office() as (server, desk):
        assert (await send(desk, subject=subject)).success
        assert server.delivered[0].message["Subject"] == subject


async def test_each_email_has_an_id_of_its_own() -> None:
    async with office() as (server, desk):
        results = [await send(desk) for _ in range(3)]
        ids = [str(result.data and result.data["message_id"]) for result in results]
        assert [delivery.message["Message-ID"] for delivery in server.delivered] == ids
        assert len(set(ids)) == 3
        assert all(message_id.endswith("@capset.example>") for message_id in ids)


@pytest.mark.spec("G32")
async def test_html_has_its_text_beside_it() -> None:
    html = "<h1>Grüße</h1><p>See <a href='https://example.org/a'>this</a>.</p>"
    async with office() as (server, desk):
        assert (await send(desk, body=html, html=True)).success
        message = server.delivered[0].message
        assert message.get_content_type() == "multipart/alternative"
        plain, marked = message.iter_parts()
        assert (plain.get_content_type(), marked.get_content_type()) == ("text/plain", "text/html")
        assert plain.get_content().split("\r\n")[:2] == ["Grüße", "See this (https://example.org/a)."]
        assert marked.get_content().strip() == html


@pytest.mark.spec("G32")
@pytest.mark.parametrize(("tls", "login"), MODES)
async def test_it_is_sent_in_every_mode(tls: str, login: bool) -> None:
    async with office({"tls": tls, "login": login}, tls=tls, login=login, **trusting()) as (server, desk):
        assert (await send(desk)).success
        assert server.delivered[0].is_encrypted is (tls != "none")
        assert server.logins == [(USERNAME.encode(), PASSWORD.encode())] * login


@pytest.mark.spec("G32")
@pytest.mark.parametrize("tls", ["starttls", "implicit"])
async def test_a_server_that_is_not_trusted_gets_neither_email_nor_password(tls: str) -> None:
    login_options: dict[str, Any] = {"tls": tls, "login": True}
    of_another = trusting("127.0.0.2")
    for server_options, settings in (
        ({}, {}),  # one that no authority of the system knows
        ({}, of_another),
        ({"named": "127.0.0.2"}, of_another),  # trusted, but it is the certificate of another name
    ):
        async with office({**login_options, **server_options}, **login_options, **settings) as (server, desk):
            result = await send(desk)
            assert result.error is not None
            assert result.error.code == "email_not_encrypted"
            assert (server.delivered, server.logins) == ([], [])


@pytest.mark.spec("G32")
@pytest.mark.parametrize("tls", ["starttls", "implicit"])
async def test_nothing_is_sent_in_the_clear_to_a_server_that_offers_no_tls(tls: str) -> None:
    async with office(tls=tls, login=True, connect_timeout=2, **trusting()) as (server, desk):
        result = await send(desk)
        assert result.error is not None
        assert result.error.code in ("email_not_encrypted", "email_unreachable")
        assert (server.delivered, server.logins, set(server.commands)) == (
            [],
            [],
            {"EHLO"} if tls == "starttls" else set(),
        )


@pytest.mark.spec("G32")
async def test_without_a_login_that_the_server_takes_nothing_is_sent() -> None:
    wrong = Held({"SMTP_USERNAME": USERNAME, "SMTP_PASSWORD": "hunter2"})
    login_options: dict[str, Any] = {"tls": "implicit", "login": True}
    for server_options, secrets, why in ((login_options, wrong, " (it says 535)"), ({"tls": "implicit"}, SECRETS, "")):
        async with office(server_options, secrets=secrets, **login_options, **trusting()) as (server, desk):
            result = await send(desk)
            assert result.error is not None
            assert (result.error.code, result.error.status) == ("email_login_refused", 503)
            assert result.error.message == f"The mail server cannot be logged in to{why}; nothing was sent."
            assert server.delivered == []


async def test_secrets_that_are_not_there_are_named_and_nothing_is_sent() -> None:
    for credentials, missing in (({}, "SMTP_USERNAME"), ({"SMTP_USERNAME": "x"}, "SMTP_PASSWORD")):
        async with office(secrets=Held(credentials), tls="implicit", login=True) as (server, desk):
            result = await send(desk)
            assert result.error is not None
            assert missing in result.error.message
            assert result.error.message.endswith("; nothing was sent.")
            assert (result.error.status, server.connections) == (503, 0)


@pytest.mark.spec("G32", "G25", "G24")
@pytest.mark.parametrize(
    ("command", "answer", "code", "status"),
    [
        ("MAIL", "451 try mail.secret.example later", "email_sender_refused", 503),
        ("RCPT", "450 the-user is busy", "email_recipient_refused", 503),
        ("RCPT", "550 no such user at mail.secret.example", "email_recipient_refused", 400),
        ("DATA", "452 full", "email_refused", 503),
        ("DATA", "554 mail.secret.example takes no spam", "email_refused", 400),
    ],
)
async def test_what_a_server_refuses_is_told_by_its_number_alone_and_never_tried_again(
    command: str, answer: str, code: str, status: int
) -> None:
    async with office({"answers": {command: answer}}) as (server, desk):
        result = await send(desk)
        assert result.error is not None
        assert (result.error.code, result.error.status, result.error.retryable) == (code, status, False)
        assert f"(it says {answer[:3]}); nothing was sent" in result.error.message
        text = f"{result.error.message} {result.error.hint} {result.error.fields}"
        assert [word for word in ("secret", USERNAME, PASSWORD, HOST, str(server.port)) if word in text] == []
        assert (server.connections, server.commands.count(command), server.delivered) == (1, 1, [])
        (record,) = await desk.records()
        assert (record.outcome, record.code) == ("failed", code)


@pytest.mark.spec("G32", "G24")
async def test_a_server_that_is_not_there() -> None:
    async with mail_server() as gone:
        pass
    async with session_for(email, config=config_for(gone), permissions=["email:send"]) as desk:
        result = await send(desk)
        assert result.error is not None
        assert (result.error.code, result.error.status) == ("email_unreachable", 503)
        assert result.error.message == "The mail server cannot be reached; nothing was sent."


@pytest.mark.spec("G32")
@pytest.mark.parametrize(
    ("command", "code"),
    [("EHLO", "email_sender_refused"), ("RCPT", "email_recipient_refused"), ("DATA", "email_unconfirmed")],
)
async def test_a_server_that_does_not_answer_is_left_in_time(command: str, code: str) -> None:
    """From the moment on in which it may have the email, nobody says that it was not sent."""
    async with office({"hangs": command}, timeout=0.2) as (server, desk):
        result = await send(desk)
        assert result.error is not None
        assert result.error.code == code
        assert ("it may have been sent" in result.error.message) is (command == "DATA")
        assert server.commands.count(command) == 1


@pytest.mark.spec("G32", "G24")
@pytest.mark.parametrize(
    ("answers", "code", "suffix"),
    [
        ({"": None}, "email_unreachable", ""),
        ({"MAIL": None}, "email_sender_refused", ""),
        ({"RCPT": None}, "email_recipient_refused", ""),
        ({"RCPT": "not a number"}, "email_recipient_refused", ""),
        ({"DATA": None}, "email_refused", ""),
        ({"DATA": "250 what?"}, "email_refused", ""),
        ({"DATA": "421 going down"}, "email_refused", " (it says 421)"),
        ({"DATA": "554 no valid recipients"}, "email_refused", " (it says 554)"),
        ({".": "552 too long"}, "email_refused", " (it says 552)"),
    ],
)
async def test_where_a_server_never_had_or_took_the_text_nothing_was_sent(
    answers: Mapping[str, str | None], code: str, suffix: str
) -> None:
    async with post(answers) as (_, desk):
        result = await send(desk)
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == (code, False)
    assert result.error.message.endswith(f"{suffix}; nothing was sent.")


@pytest.mark.spec("G32", "G24", "G61")
@pytest.mark.parametrize("answer", [None, "not a number", "354 more"])
async def test_where_a_server_had_the_text_and_did_not_confirm_it_nobody_says_that_nothing_was_sent(
    answer: str | None,
) -> None:
    async with post({".": answer}) as (_, desk):
        result = await send(desk)
        assert [record.outcome for record in await desk.records()] == ["unknown"]
    assert result.error is not None
    assert result.error.code == "email_unconfirmed"
    assert "it may have been sent" in result.error.message
    assert "nothing was sent" not in result.error.message


@pytest.mark.spec("G32", "G24")
async def test_tls_that_breaks_after_the_text_does_not_mean_that_nothing_was_sent() -> None:
    async with mail_server(tls="implicit") as server, breaking_tls(server) as way:
        config = config_for(way, tls="implicit", **trusting())
        async with session_for(email, config=config, permissions=["email:send"]) as desk:
            result = await send(desk)
        assert len(server.delivered) == 1
    assert result.error is not None
    assert result.error.code == "email_unconfirmed"
    assert "nothing was sent" not in result.error.message


@pytest.mark.parametrize("answer", [None, "not a number", "500 no"])
async def test_a_good_bye_that_fails_takes_nothing_back(answer: str | None) -> None:
    async with post({"QUIT": answer}) as (server, desk):
        assert (await send(desk)).success
    assert server.commands[-2:] == [".", "QUIT"]


async def test_an_email_that_the_library_writes_otherwise_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    write = EmailMessage.as_bytes  # as another version of Python might
    monkeypatch.setattr(EmailMessage, "as_bytes", lambda *arguments: b"Bcc: eve@evil.example\r\n" + write(*arguments))
    async with office() as (server, desk):
        result = await send(desk)
        assert result.error is not None
        assert (result.error.code, result.error.status) == ("email_not_written", 500)
        assert result.error.message.endswith("; nothing was sent.")
        assert server.connections == 0


async def test_a_server_that_never_says_good_bye_has_taken_the_email_all_the_same() -> None:
    async with office({"answers": {"QUIT": "500 no"}}) as (server, desk):
        assert (await send(desk)).success
        assert len(server.delivered) == 1


@pytest.mark.spec("G32")
async def test_nobody_gets_email_as_it_is_by_default() -> None:
    async with session_for(email, permissions=["email:send"]) as desk:
        result = await send(desk)
        assert result.error is not None
        assert (result.error.code, result.error.status) == ("email_recipient_not_allowed", 403)


@pytest.mark.spec("G32")
async def test_a_body_is_bounded_in_bytes() -> None:
    async with office(max_body=10) as (server, desk):
        assert (await send(desk, body="ä" * 5)).success
        result = await send(desk, body="ä" * 5 + "!")
        assert result.error is not None
        assert (result.error.code, result.error.status) == ("email_too_large", 413)
        assert result.error.message == "The body should have at most 10 bytes; it has 11. Nothing was sent."
        assert len(server.delivered) == 1


@pytest.mark.spec("G32", "G8")
async def test_who_may_not_sends_nothing() -> None:
    async with mail_server() as server, session_for(email, config=config_for(server)) as desk:
        result = await send(desk)
        assert result.error is not None
        assert result.error.code == "permission_denied"
        assert server.connections == 0


async def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiosmtplib", None)  # as Python marks what cannot be imported
    async with office() as (server, desk):
        result = await send(desk)
        assert result.error is not None
        assert "the extra 'email'" in result.error.message
        assert result.error.message.endswith("; nothing was sent.")
        assert result.error.hint == install_command("email")
        assert server.connections == 0


@pytest.mark.spec("G32", "G13")
async def test_ten_an_hour_are_sent_and_refusals_of_arguments_use_up_none() -> None:
    async with office() as (server, desk):
        for _ in range(3):
            assert (await send(desk, to="ada@example.org,bob@example.org")).success is False
        assert [(await send(desk)).success for _ in range(10)] == [True] * 10
        result = await send(desk)
        assert result.error is not None
        assert result.error.code == "limit_exceeded"
        assert (len(server.delivered), server.connections) == (10, 10)
        desk.clock.advance(3_600)
        assert (await send(desk)).success

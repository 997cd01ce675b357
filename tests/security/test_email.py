"""Attacks on email: each is refused before a server hears of it, and is on record (spec 4, G32)."""

from __future__ import annotations

import json
import string
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Json, Record, Result
from capset_testing import Desk, session_for
from capset_tools.email import email
from tests.examples import examples
from tests.helpers.tools.mail import SENDER, MailServer, config_for, mail_server
from tests.security.attacks import attacks, classes_of

REFUSED = ("header_injection", "many_recipients", "envelope", "address", "not_allowed", "body")
LET_THROUGH = ("inside_the_body",)
ALLOWED = ["ada@example.org", "@partners.example"]
SAID_OF_IT = ("name", "class", "code", "repeat", "letter")
SEPARATORS = "\n\r\0\v\f\x1c\x1d\x1e\x85\u2028\u2029"
PLAIN = ["content-transfer-encoding", "content-type", "date", "from", "message-id", "mime-version", "subject", "to"]


@asynccontextmanager
async def attacked() -> AsyncGenerator[tuple[MailServer, Desk]]:
    async with (
        mail_server() as server,
        session_for(email, config=config_for(server, recipients=ALLOWED), permissions=["email:send"]) as desk,
    ):
        yield server, desk


def arguments_of(case: Mapping[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in case.items() if key not in SAID_OF_IT}
    long = {key: case.get("letter", "a") * count for key, count in case.get("repeat", {}).items()}
    return {"to": "ada@example.org", "subject": "Hello", "body": "Hello.", **fields, **long}


async def call(desk: Desk, arguments: Mapping[str, Any]) -> Result[Any]:
    """Call as the wire does, with JSON."""
    text = json.dumps(arguments).encode()
    return await desk.session.try_message(desk.session.message("email_send", Json(text)))


async def send(desk: Desk, arguments: Mapping[str, Any]) -> tuple[Result[Any], Record]:
    """Call; return what came of it, and the one record of it."""
    before = len(await desk.records(tool="email_send"))
    result = await call(desk, arguments)
    records = await desk.records(tool="email_send")
    assert len(records) == before + 1
    return result, records[-1]


def test_every_class_of_the_list_is_tried() -> None:
    assert classes_of("email.yaml") == {*REFUSED, *LET_THROUGH}


@pytest.mark.spec("G32", "G19", "T13")
@pytest.mark.parametrize("case", attacks("email.yaml", *REFUSED))
async def test_an_attack_is_refused_before_there_is_a_connection_and_is_on_record(case: Mapping[str, Any]) -> None:
    code = case.get("code", "invalid_arguments")
    async with attacked() as (server, desk):
        result, record = await send(desk, arguments_of(case))
        assert result.error is not None
        assert (result.error.code, server.connections) == (code, 0)
        assert (record.outcome, record.code) == ("invalid" if code == "invalid_arguments" else "failed", code)
        assert record.arguments != "{}"
        assert "evil.example" not in f"{result.error.message} {result.error.fields}"


@pytest.mark.spec("G32")
@pytest.mark.parametrize("case", attacks("email.yaml", *LET_THROUGH))
async def test_what_stands_in_the_body_stays_there(case: Mapping[str, Any]) -> None:
    arguments = arguments_of(case)
    async with attacked() as (server, desk):
        result, record = await send(desk, arguments)
        assert result.success, result.error
        assert record.outcome == "succeeded"
        (only,) = server.delivered
    assert (only.sender, only.recipients) == (SENDER, ["ada@example.org"])
    assert server.commands == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    is_html = arguments.get("html", False)
    assert only.headers == [name for name in PLAIN if not is_html or name != "content-transfer-encoding"]
    part = only.message.get_body(("html",) if is_html else ("plain",))
    assert part is not None
    body = "\n".join(arguments["body"].replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert part.get_content().replace("\r\n", "\n").rstrip("\n") == body.rstrip("\n")


@pytest.mark.spec("G32")
async def test_no_field_takes_any_line_separator_in_any_place() -> None:
    """Every one of them, and every pair, at the beginning, in the middle and at the end, before another header."""
    pairs = [first + two for first in SEPARATORS for two in SEPARATORS]
    async with attacked() as (server, desk):
        for field, harmless in (("to", "ada@example.org"), ("subject", "Hello")):
            for separator in [*SEPARATORS, *pairs]:
                injected = f"{separator}Bcc: eve@partners.example"
                for text in (injected + harmless, harmless[:3] + injected + harmless[3:], harmless + injected):
                    desk.clock.advance(60)  # so that they are not too many at once, of which some are not looked at
                    result = await call(desk, arguments_of({field: text}))
                    assert result.error is not None
                    assert result.error.code == "invalid_arguments", repr(text)
        records = await desk.records(tool="email_send")
        assert server.connections == 0
    assert len(records) == 2 * 3 * (len(SEPARATORS) + len(pairs))
    assert {record.outcome for record in records} == {"invalid"}


LABELS = st.text(string.ascii_letters + string.digits, min_size=1, max_size=6)
DOMAINS = st.lists(LABELS, max_size=2).map(".".join) | st.just("")
CHANGES = st.sampled_from(["{}", "{}.{}", "{}{}", "{1}.{0}", "{1}{0}", "{1}-{0}"])


@pytest.mark.spec("G32")
@examples(20, 60)
@given(
    local=LABELS,
    domain=st.builds(
        lambda change, base, more: change.format(base, more or "x"),
        CHANGES,
        st.sampled_from(["example.org", "partners.example", "PARTNERS.example", "example"]),
        DOMAINS,
    ),
)
async def test_whoever_is_not_on_the_list_gets_nothing(local: str, domain: str) -> None:
    """Domains around the allowed ones, in every way that two texts can be joined."""
    is_meant = domain.casefold() == "partners.example" or (local, domain.casefold()) == ("ada", "example.org")
    async with attacked() as (server, desk):
        result, record = await send(desk, arguments_of({"to": f"{local}@{domain}"}))
    assert result.success is is_meant
    assert [mail.recipients for mail in server.delivered] == [[f"{local}@{domain.lower()}"]] * is_meant
    assert server.connections == is_meant
    assert record.outcome in (("succeeded",) if is_meant else ("failed", "invalid"))


ADDRESS = "".join(map(chr, range(256))) + "\u2028\u2029\u200d\ufeffаıſK＠．"


@pytest.mark.spec("G32")
@examples(25, 150)
@given(st.text(ADDRESS, max_size=8), st.text(ADDRESS, max_size=8), st.sampled_from(["@partners.example", "@@", ""]))
async def test_whatever_is_delivered_has_the_one_envelope_and_the_headers_that_are_meant(
    local: str, subject: str, domain: str
) -> None:
    async with attacked() as (server, desk):
        await send(desk, arguments_of({"to": local + domain, "subject": subject}))
    assert len(server.delivered) <= 1
    for mail in server.delivered:
        assert (mail.sender, mail.recipients) == (SENDER, [local + domain])
        assert mail.headers == PLAIN
        assert mail.message["To"] == local + domain
        assert mail.message["From"] == SENDER

"""Email passes the suite that third parties run; its examples really send, to a server of the test's own."""

from __future__ import annotations

import atexit
import socket

import pytest

from capset_testing import capability_suite
from capset_testing.capability_suite import Check
from capset_tools.email import EmailConfig, email
from tests.helpers.tools.mail import HOST, SENDER, mail_server

LISTENING = socket.create_server((HOST, 0))
"""A config has to name the port before there is a server, so it is kept from the beginning."""
atexit.register(LISTENING.close)
EXAMPLES = [
    {"to": "ada@example.org", "subject": "Hello", "body": "How are you?"},
    {"to": "ada@example.org", "subject": "Grüße", "body": "<p>How are <b>you</b>?</p>", "html": True},
]
CONFIG = EmailConfig(
    host=HOST, port=LISTENING.getsockname()[1], tls="none", login=False, sender=SENDER, recipients=("@example.org",)
)


@pytest.mark.spec("P17", "G32")
@pytest.mark.parametrize(
    "check",
    capability_suite(email, examples={"email_send": EXAMPLES}, config=CONFIG),
    ids=lambda check: check.__name__,
)
async def test_email_keeps_every_promise(check: Check) -> None:
    async with mail_server(at=LISTENING):
        await check()

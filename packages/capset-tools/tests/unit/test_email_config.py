"""What can be configured of email, and what is refused before anything is sent (spec 4, G32)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from capset.definitions.capabilities import dump_config, parse_config
from capset_tools.email import EmailConfig
from tests.certificates import certificate
from tests.helpers.tools.mail import HOST

WHOLE: dict[str, Any] = {"host": "mail.example.org", "sender": "agent@example.org", "recipients": ["@example.org"]}


def test_ports_go_with_the_kind_of_tls() -> None:
    assert EmailConfig(**WHOLE).port_used == 587
    assert EmailConfig(**WHOLE, tls="implicit").port_used == 465
    assert EmailConfig(**WHOLE, tls="none", login=False).port_used == 25
    assert EmailConfig(**WHOLE, port=2525).port_used == 2525


@pytest.mark.spec("G32")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tls": "none"}, "a password goes over TLS only"),
        ({"tls": "none", "login": True}, "a password goes over TLS only"),
        ({"host": None}, "need a host and a sender"),
        ({"sender": None}, "need a host and a sender"),
        ({"sender": "Agent <agent@example.org>"}, "Input should be a bare address"),
        ({"sender": "agent@example.org\r\nBcc: eve@evil.example"}, "visible ASCII"),
        ({"recipients": ["example.org"]}, "one address"),
        ({"recipients": ["@"]}, "a domain after its @"),
        ({"recipients": ["@*.example.org"]}, "a domain after its @"),
        ({"recipients": ["*"]}, "one address"),
        ({"recipients": ["@exämple.org"]}, "a domain after its @"),
        ({"host": "mail.example.org\r\n"}, "should match pattern"),
        ({"host": ""}, "should match pattern"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"timeout": 0}, "greater than 0"),
        ({"timeout": float("inf")}, "less than or equal to 600"),
        ({"max_body": 0}, "greater than or equal to 1"),
        ({"certificates": "none"}, "certificates of authorities were expected"),
        ({"certificates": ""}, "certificates of authorities were expected"),
        ({"password": "x"}, "Extra inputs"),
    ],
    ids=str,
)
def test_what_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EmailConfig(**{**WHOLE, **changed})


def test_it_comes_back_as_it_was_stored() -> None:
    addresses: dict[str, Any] = {"sender": "Agent@EXAMPLE.org", "recipients": ["Ada@EXAMPLE.org", "@Example.ORG"]}
    config = EmailConfig(**{**WHOLE, **addresses}, certificates=certificate(HOST)[0])
    assert (config.sender, config.recipients) == ("Agent@example.org", ("Ada@example.org", "@example.org"))
    assert parse_config(EmailConfig, json.dumps(dump_config(config)).encode()) == config

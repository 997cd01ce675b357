"""Which headers may be sent, and which go along to another origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import ToolError
from capset.net.client import checked_headers, cross_origin_headers

FORBIDDEN = (
    *("Host", "host", "Content-Length", "Transfer-Encoding", "TE", "Trailer", "Connection", "Keep-Alive", "Upgrade"),
    *("Expect", "Proxy-Authorization", "proxy-connection", "Accept-Encoding", "Forwarded", "X-Forwarded-For", "Via"),
    *("X-Real-IP", "X-HTTP-Method-Override", "Metadata-Flavor", "X-aws-ec2-metadata-token", "X-Original-URL"),
)


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    "headers",
    [
        *({name: "x"} for name in FORBIDDEN),
        *({"": "x"}, {"a b": "x"}, {"a:": "x"}, {"X-A": "1", "x-a": "2"}, {"X-A": " x"}, {"X-A": "x\t"}),
        {"X-A": "x" * 8_193},
        {f"X-{number}": "x" for number in range(65)},
    ],
)
def test_a_header_that_is_not_the_callers_or_not_well_formed_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ToolError) as refused:
        checked_headers(headers)
    assert refused.value.code == "header_refused"


@pytest.mark.spec("G29")
@given(
    st.text(max_size=5),
    st.sampled_from(["\r", "\n", "\0", "\r\nX-Evil: 1", "\x0b", "\x7f", "ä", "\u2028", "\ud800", "\u560a"]),
    st.text(max_size=5),
)
def test_nothing_can_be_injected(before: str, letter: str, after: str) -> None:
    for headers in ({f"X-{before}{letter}{after}": "x"}, {"X-Fine": f"{before}{letter}{after}"}):
        with pytest.raises(ToolError) as refused:
            checked_headers(headers)
        assert refused.value.code == "header_refused"


def test_a_refusal_shows_no_value() -> None:
    with pytest.raises(ToolError) as refused:
        checked_headers({"Authorization": "Bearer hunter2\n"})
    assert "hunter2" not in refused.value.message


def test_others_are_sent_in_lower_case() -> None:
    headers = {"Authorization": "Bearer x", "Cookie": "a=b", "Accept": "a/b, c", "X-Empty": ""}
    assert checked_headers(headers) == {name.lower(): value for name, value in headers.items()}


@pytest.mark.spec("G29")
def test_only_what_carries_no_credentials_goes_to_another_origin() -> None:
    headers = dict.fromkeys(["authorization", "cookie", "x-api-key", "x-anything", "referer", "accept"], "x")
    assert cross_origin_headers(headers) == {"accept": "x"}

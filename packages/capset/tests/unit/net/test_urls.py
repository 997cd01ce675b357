"""URLs are read once, strictly, and give what is connected to."""

from __future__ import annotations

import pytest

from capset import ToolError
from capset.net.urls import MAX_URL_LENGTH, parse_url


@pytest.mark.parametrize(
    ("text", "host", "port", "target", "authority"),
    [
        ("http://example.com", "example.com", 80, "/", "example.com"),
        ("HTTPS://Example.COM:443/A?b=c#d", "example.com", 443, "/A?b=c", "example.com"),
        ("http://example.com:8080?q", "example.com", 8080, "/?q", "example.com:8080"),
        ("http://8.8.8.8/", "8.8.8.8", 80, "/", "8.8.8.8"),
        ("https://[2606:2800:0::1]:8443/", "2606:2800::1", 8443, "/", "[2606:2800::1]:8443"),
        ("http://xn--bcher.example/ü?ü=%41", "xn--bcher.example", 80, "/%C3%BC?%C3%BC=%41", "xn--bcher.example"),
        ("http://a_b.example//x/../y", "a_b.example", 80, "//x/../y", "a_b.example"),
        ("http://0x.example/", "0x.example", 80, "/", "0x.example"),
        ("http://127.0.0.1.example/", "127.0.0.1.example", 80, "/", "127.0.0.1.example"),
    ],
)
def test_what_a_url_says(text: str, host: str, port: int, target: str, authority: str) -> None:
    url = parse_url(text)
    assert (url.host, url.port, url.target, url.authority) == (host, port, target, authority)
    assert parse_url(str(url)) == url


def test_how_long_a_url_and_its_host_may_be() -> None:
    host = "a." * 125 + "abc"
    assert len(parse_url(f"http://{host}/").host) == 253
    with pytest.raises(ToolError, match="neither a name"):
        parse_url(f"http://{host}d/")
    longest = "http://a.example/".ljust(MAX_URL_LENGTH, "x")
    assert str(parse_url(longest)) == longest
    with pytest.raises(ToolError, match="characters"):
        parse_url(f"{longest}x")


REFUSED = {
    "absolute": ["", "example.com", "//example.com/"],
    "no host": ["http:example.com", "http:///path"],
    "neither a name": ["http://:80/", f"http://{'a' * 64}.example/", "http://-a.example/", "http://a..example/"],
    "scheme": ["file:///etc/passwd"],
    "space": ["http://a b/"],
    "control": ["http://a/\n"],
    "UTF-8": ["http://a/\ud800"],
    "IPv6": ["http://[::1/", "http://[::1]x/", "http://[::g]/", "http://[]/"],
    "IPv4": ["http://1.2.3.256/"],
    "ASCII": ["http://\u212a.example/"],
}


@pytest.mark.parametrize(("text", "problem"), [(text, problem) for problem in REFUSED for text in REFUSED[problem]])
def test_a_refused_url_says_why(text: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem) as refused:
        parse_url(text)
    assert refused.value.code == "url_refused"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "http://a.example:8080/b"),
        ("c?d", "http://a.example:8080/x/c?d"),
        ("//b.example/", "http://b.example/"),
        ("https://b.example/ü#f", "https://b.example/%C3%BC"),
        ("?q", "http://a.example:8080/x/y?q"),
    ],
)
def test_where_a_redirect_leads(location: str, target: str) -> None:
    assert str(parse_url("http://a.example:8080/x/y").join(location)) == target


@pytest.mark.parametrize(
    "location", ["javascript:alert(1)", "http://[::1", "\\\\b.example", "http://u@b.example/", "//1"]
)
def test_a_redirect_that_is_no_url_is_refused(location: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_url("http://a.example/").join(location)
    assert refused.value.code == "url_refused"

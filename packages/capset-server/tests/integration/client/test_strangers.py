"""A server that cannot be reached, breaks off, or is not capset."""

from __future__ import annotations

import json

import pytest

from capset.errors import CapsetError, ForeignAnswer, Unreachable
from capset_server.client import AgentInput, Client, data_of
from tests.helpers.client.ports import closed_port
from tests.helpers.client.strangers import answer, events, stranger

HTML = b"<html>Welcome</html>"
PROBLEM = b"""{
    "type": "urn:x", "title": "Slow down", "status": 429, "detail": "Later", "code": "rate_limited",
    "retryable": true, "correlation": "c-9", "new": 1
}"""
ERROR = {"code": "rate_limited", "status": 429, "message": "Later", "retryable": True}
MOVED = ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]


async def test_nobody_listens() -> None:
    url = closed_port()
    async with Client(url) as client:
        for request in (client.health(), client.call("s", "t")):
            with pytest.raises(Unreachable, match=f"cannot reach {url}: ") as caught:
                await request
            assert caught.value.retryable, "it was never sent"


async def test_a_name_that_nobody_has() -> None:
    async with Client("https://capset.invalid", connect_timeout=5) as client:
        with pytest.raises(Unreachable, match=r"cannot reach https://capset\.invalid: "):
            await client.health()


@pytest.mark.parametrize(
    "reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"SSH-2.0-OpenSSH\r\n\r\n"]
)
async def test_a_connection_that_breaks_may_have_done_its_work(reply: bytes) -> None:
    async with stranger(reply) as server, Client(server.url) as client:
        for request, retryable in (
            (client.call("s", "t"), False),
            (client.call("s", "t", idempotency_key="once"), True),
            (client.sessions.get("s"), True),
        ):
            with pytest.raises(Unreachable, match=r"the connection to http://.* broke: ") as caught:
                await request
            assert caught.value.retryable is retryable


async def test_a_server_that_says_nothing() -> None:
    async with stranger(stays=True) as server, Client(server.url, timeout=0.05) as client:
        with pytest.raises(Unreachable, match="broke: ReadTimeout"):
            await client.health()
    assert len(server.heads) == 1, "nothing is tried again"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answer("200 OK", "text/html", HTML), "did not answer with a HealthShape: is it a compatible capset"),
        (answer("200 OK", "application/json", b'{"other": 1}'), "did not answer with a HealthShape"),
        (answer("404 Not Found", "text/html", HTML), "answered 404, but not as capset does"),
        (answer("404 Not Found", "application/json", b'{"detail": "Not Found"}'), "answered 404, but not as"),
        (answer("502 Bad Gateway", "text/html", HTML), "answered 502, but not as capset does"),
        (answer("404 Not Found", "application/problem+json", b'{"title": "x"}'), "did not answer with a Problem"),
        (answer("200 OK", "application/json", b"zip", "Content-Encoding: gzip"), "sent a response that cannot be read"),
    ],
)
async def test_what_is_not_capset_is_named(reply: bytes, message: str) -> None:
    async with stranger(reply) as server, Client(server.url) as client:
        with pytest.raises(ForeignAnswer, match=f"^{server.url} {message}"):
            await client.health()


@pytest.mark.parametrize("status", MOVED)
async def test_no_redirect_is_followed(status: str) -> None:
    async with stranger(answer("200 OK", "application/json", b"{}")) as elsewhere:
        moved = answer(status, "text/plain", b"", f"Location: {elsewhere.url}/v1/agents")
        async with stranger(moved) as server, Client(server.url, key="capset_k") as client:
            for request in (client.health(), client.agents.create(AgentInput(name="a")), client.call("s", "t")):
                with pytest.raises(ForeignAnswer, match=f"redirects to '{elsewhere.url}/v1/agents'"):
                    await request
            with pytest.raises(ForeignAnswer, match="redirects to"):
                async with client.stream("s", "t"):
                    pass
        assert elsewhere.heads == []


async def test_a_deletion_that_is_not_told_as_capset_does_did_not_happen() -> None:
    async with stranger(answer("200 OK", "text/html", HTML)) as server, Client(server.url) as client:
        with pytest.raises(ForeignAnswer, match="answered 200, but capset answers 204"):
            await client.sessions.delete("s")


async def test_a_problem_of_a_newer_server_is_understood() -> None:
    reply = answer("429 Too Many Requests", "application/problem+json; charset=utf-8", PROBLEM)
    async with stranger(reply) as server, Client(server.url) as client:
        with pytest.raises(CapsetError, match="Later") as caught:
            await client.health()
        with pytest.raises(CapsetError, match="Later"):  # no call came of it
            await client.call("s", "t")
    error = caught.value
    assert (error.code, error.status, error.retryable, error.correlation) == ("rate_limited", 429, True, "c-9")


@pytest.mark.spec("P31")
@pytest.mark.parametrize("media_type", ["application/problem+json", "application/json"])
async def test_a_refused_call_of_a_newer_and_of_an_older_server_is_a_call(media_type: str) -> None:
    body = json.loads(PROBLEM) if media_type == "application/problem+json" else {}
    body |= {"success": False, "error": ERROR, "refused": True, "record": "r", "session": "s", "runtime_hash": "h"}
    reply = answer("429 Too Many Requests", media_type, json.dumps(body | {"prompt_hash": "p"}).encode())
    async with stranger(reply) as server, Client(server.url) as client:
        shape = await client.call("s", "t")
    assert (shape.success, shape.refused, shape.record) == (False, True, "r")
    with pytest.raises(CapsetError, match="Later") as caught:
        data_of(shape)
    assert caught.value.code == "rate_limited"


@pytest.mark.parametrize("headers", [[], ['ETag: "abc"'], ['ETag: "²"'.encode().decode("latin-1")]])
async def test_a_file_without_a_version_is_not_capsets(headers: list[str]) -> None:
    reply = answer("200 OK", "application/octet-stream", b"x", *headers)
    async with stranger(reply) as server, Client(server.url) as client:
        with pytest.raises(ForeignAnswer, match="no version"):
            await client.files.read("s", "/a")


async def test_a_list_that_goes_in_circles_ends() -> None:
    page = answer("200 OK", "application/json", b'{"items": [], "next": "a"}')
    async with stranger(page) as server, Client(server.url) as client:
        with pytest.raises(ForeignAnswer, match="one page of a list twice"):
            _ = [session async for session in client.sessions.all()]
    assert len(server.heads) == 2


@pytest.mark.parametrize("reply", [answer("200 OK", "application/json", b"{}"), answer("200 OK", "text/html", HTML)])
async def test_a_stream_that_is_none(reply: bytes) -> None:
    async with stranger(reply) as server, Client(server.url) as client:
        with pytest.raises(ForeignAnswer, match="with an event stream"):
            async with client.stream("s", "t"):
                pass


@pytest.mark.parametrize("body", [b"", b'data: {"kind": "event", "type": "x"}\n\nevent: result\ndata: {}'])
async def test_a_stream_that_ends_before_its_result(body: bytes) -> None:
    async with stranger(events(body)) as server, Client(server.url) as client, client.stream("s", "t") as stream:
        with pytest.raises(Unreachable, match="ended before the call's result") as caught:
            _ = [event async for event in stream]
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = stream.result
    assert not caught.value.retryable

"""What the client sends and takes over HTTP, as the revisions of the protocol have it (spec 7, M18)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from capset.errors import ToolError, TransientError
from capset_connect.mcp.connection import McpConnection
from tests.helpers.connect.mcp.opening import NONE, offers_of, opened
from tests.helpers.connect.mcp.raw import ECHO, NEWEST, OLDER, Message, done, error, not_allowed, raw
from tests.helpers.connect.mcp.urls import declared, serving


def event(id: str, data: bytes) -> Response:
    """Return a stream of one event that asks to be resumed soon, and ends."""
    return Response(b"id: %s\nretry: 10\ndata: %s\n\n" % (id.encode(), data), media_type="text/event-stream")


@pytest.mark.spec("M18")
async def test_a_stream_that_broke_off_is_resumed_and_the_call_is_not_made_again() -> None:
    calls: list[Message] = []
    resumed: list[str] = []

    def called(message: Message) -> Response:
        calls.append(message)
        return event("first", b"")

    def fetched(request: Request) -> Response:
        if (last := request.headers.get("last-event-id")) is None:
            return not_allowed(request)
        resumed.append(last)
        return event("second", bytes(done(calls[0]).body))

    async with serving(raw(called, fetched)) as upstream, opened(declared(upstream, timeout=10.0)) as site:
        assert await site.call("books_echo") == "done"
    assert (len(calls), resumed) == (1, ["first"])


@pytest.mark.spec("M18", "M4")
async def test_a_schema_that_refers_elsewhere_is_not_used_and_nothing_is_fetched() -> None:
    fetched: list[str] = []

    def schema(request: Request) -> Response:
        fetched.append(request.url.path)
        return JSONResponse({"type": "string"})

    properties: dict[str, Any] = {}
    tool = {**ECHO, "inputSchema": {"type": "object", "properties": properties}}
    async with serving(raw(fetched=schema, tools=[tool], revision=NEWEST)) as upstream:
        properties["to"] = {"$ref": f"http://{upstream.host}/canary.json"}
        assert (await offers_of(declared(upstream)))["echo"].is_unusable
    assert "/canary.json" not in fetched


@pytest.mark.spec("M18")
@pytest.mark.parametrize("region", ["us-west1", "Zürich", " padded ", "a\r\nX-Evil: 1"])
async def test_arguments_stand_in_the_headers_that_their_schema_names(region: str) -> None:
    named = {"region": {"type": "string", "x-mcp-header": "Region"}, "word": {"type": "string"}}
    tool = {**ECHO, "inputSchema": {"type": "object", "properties": named}}
    async with serving(raw(tools=[tool], revision=NEWEST)) as upstream, opened(declared(upstream)) as site:
        assert await site.call("books_echo", region=region, word="Emma") == "done"
        (sent,) = [headers for headers in upstream.headers if headers.get("mcp-method") == "tools/call"]
    encoded = f"=?base64?{base64.b64encode(region.encode()).decode()}?="
    assert sent["mcp-param-region"] == (region if region == "us-west1" else encoded)
    assert (sent["mcp-name"], sent["mcp-protocol-version"]) == ("echo", NEWEST)
    assert not {"mcp-param-word", "x-evil"} & sent.keys()


@pytest.mark.spec("M18")
@pytest.mark.parametrize(
    "bad", [{"type": "number", "x-mcp-header": "A"}, {"type": "string", "x-mcp-header": "A: b\r\nX-Evil"}]
)
async def test_a_tool_whose_header_nobody_could_send_is_unusable_and_others_are_not(bad: dict[str, Any]) -> None:
    tools = [ECHO, {**ECHO, "name": "bad", "inputSchema": {"type": "object", "properties": {"value": bad}}}]
    async with serving(raw(tools=tools, revision=NEWEST)) as upstream:
        offers = await offers_of(declared(upstream))
        assert {name: offer.is_unusable for name, offer in offers.items()} == {"bad": True, "echo": False}
        assert "names a header that cannot be sent" in offers["bad"].problems[-1]
    async with serving(raw(tools=tools, revision=OLDER)) as upstream:
        assert not (await offers_of(declared(upstream)))["bad"].is_unusable, "there are no such headers"


@pytest.mark.spec("M18", "M2")
@pytest.mark.parametrize("body", [b"", b'{"error": "invalid_token"}'])
async def test_a_server_that_wants_a_credential_is_told_as_that(body: bytes) -> None:
    async def closed(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(body, 401, media_type="application/json")(scope, receive, send)

    async with serving(closed) as upstream, McpConnection(declared(upstream), NONE) as connection:
        with pytest.raises(TransientError, match=r"it answered 401 Unauthorized: declare a credential"):
            await connection.offers()


@pytest.mark.spec("M18", "M3")
async def test_a_call_that_is_forbidden_is_told_as_that_and_the_next_one_is_made() -> None:
    answers = [Response("<html>", 403), JSONResponse({"message": "closed"}, 502)]

    def called(message: Message) -> Response:
        return answers.pop(0) if answers else done(message)

    async with serving(raw(called)) as upstream, opened(declared(upstream)) as site:
        with pytest.raises(ToolError, match="it answered 403 Forbidden: the credential that was sent does not"):
            await site.call("books_echo")
        with pytest.raises(ToolError, match=r"it answered 502 Bad Gateway$"):
            await site.call("books_echo")
        assert await site.call("books_echo") == "done"


@pytest.mark.spec("M18")
async def test_an_error_of_mcp_is_told_as_its_server_says_it_whatever_its_status() -> None:
    def called(message: Message) -> Response:
        return error(message, -32602, "no such shelf", 403)

    async with serving(raw(called)) as upstream, opened(declared(upstream)) as site:
        with pytest.raises(ToolError, match="no such shelf"):
            await site.call("books_echo")


@pytest.mark.spec("M18", "M4")
async def test_an_error_page_without_end_is_not_read() -> None:
    async def flooding(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        for _ in range(200):
            await send({"type": "http.response.body", "body": b" " * 10_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with serving(flooding) as upstream, McpConnection(declared(upstream), NONE) as connection:
        with pytest.raises(ToolError, match="a message of more than"):
            await connection.offers()


@pytest.mark.spec("M18")
@pytest.mark.parametrize("revision", [OLDER, NEWEST])
async def test_the_newest_revision_is_spoken_that_a_server_knows(revision: str) -> None:
    async with serving(raw(revision=revision)) as upstream, opened(declared(upstream)) as site:
        assert await site.call("books_echo") == "done"
        assert [headers["mcp-protocol-version"] for headers in upstream.headers if "mcp-protocol-version" in headers][
            -1
        ] == revision

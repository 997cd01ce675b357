"""Calls of tools at URLs, and how they end (spec 7, M17)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from capset.definitions.calls.messages import Message as Command
from capset.errors import DeadlineExceeded, TransientError
from capset_connect.mcp.connection import McpConnection
from tests.helpers.connect.mcp.opening import NONE, opened
from tests.helpers.connect.mcp.scripted import (
    ADD,
    CASES,
    PROGRESS,
    STRUCTURED,
    Answering,
    Wire,
    events,
    library,
    outcome,
    plain,
    scripted,
    site_of,
    watched,
)
from tests.helpers.connect.mcp.urls import declared, serving
from tests.helpers.kernel.support import records_of
from tests.waiting import until

pytestmark = pytest.mark.spec("M17")


@pytest.mark.parametrize("name", CASES)
async def test_an_answer_is_read_and_so_is_the_next_one(name: str) -> None:
    answering, expected = CASES[name]
    async with site_of(scripted(answering)) as (site, _):
        first, second = await outcome(site, a=1), await outcome(site, a=2)
    assert first == second
    assert expected is None or expected in str(first)


@pytest.mark.spec("M1", "M96")
@pytest.mark.parametrize(
    ("members", "expected"),
    [({"structuredContent": {"n": 1}}, {"n": 1}), ({"structuredContent": {"n": "many"}}, {"n": "many"}), ({}, "done")],
)
async def test_a_structure_is_passed_on_whether_or_not_it_fits_the_schema(
    members: dict[str, Any], expected: Any
) -> None:
    async with site_of(scripted(plain(**members), STRUCTURED)) as (site, _):
        assert await outcome(site, a=1) == expected


@pytest.mark.spec("M3")
async def test_progress_is_told_to_who_follows_it() -> None:
    async with site_of(library([])) as (site, wire):
        assert await site.call("books_count", to=2) == "counted to 2"
        async with site.session.invoke(Command("command", "books_count", {"to": 3})) as messages:
            reports = [message.data async for message in messages]
        assert [report["message"] for report in reports[:-1]] == ["at 0", "at 1", "at 2"]
        assert [round(report["fraction"], 2) for report in reports[:-1]] == [0, 0.33, 0.67]
        assert reports[-1] == "counted to 3"
        assert ["progressToken" in body["params"]["_meta"] for _, body in wire.calls] == [False, True]


@pytest.mark.spec("M96")
async def test_progress_without_a_total_goes_on_and_is_never_at_its_end() -> None:
    answering = events(PROGRESS + "1}}\n\n", PROGRESS + '200,"message":"far"}}\n\n', "{last}")
    async with (
        site_of(scripted(answering)) as (site, _),
        site.session.invoke(Command("command", "books_add", {"a": 1})) as messages,
    ):
        heard = [message.data async for message in messages]
    assert [report["message"] for report in heard[:-1]] == ["1", "far"]
    first, second = (report["fraction"] for report in heard[:-1])
    assert 0 < first < second < 1
    assert heard[-1] == "done"


@pytest.mark.spec("M3")
async def test_a_caller_that_leaves_cancels_its_call_and_no_other() -> None:
    done: list[str] = []
    waits: list[float] = []
    async with site_of(library(done, waits)) as (site, _):
        staying = asyncio.create_task(site.call("books_wait", seconds=1))
        leaving = asyncio.create_task(site.call("books_wait", seconds=30))
        await until(lambda: sorted(waits) == [1, 30])
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await until(lambda: done)
        assert done == ["cancelled"]
        assert await site.call("books_add", a=1, b=2) == {"result": 3}
        assert await staying == "waited"


@pytest.mark.spec("M3", "G61")
async def test_one_that_hangs_ends_by_its_timeout() -> None:
    done: list[str] = []
    async with site_of(library(done), rules={"wait": {"timeout": 0.5}}) as (site, _):
        with pytest.raises((TransientError, DeadlineExceeded)):
            await site.call("books_wait", seconds=30)
        assert [record.outcome for record in await records_of(site.kernel.audit, tool="books_wait")] == ["unknown"]
        assert await site.call("books_add", a=1, b=2) == {"result": 3}
        assert done[0] == "cancelled"


@pytest.mark.spec("M3")
async def test_one_that_breaks_off_says_so_and_is_reached_again() -> None:
    calls = 0

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        nonlocal calls
        calls += 1
        if calls == 1:

            async def breaking() -> AsyncGenerator[bytes]:
                yield b'{"jsonrpc"'
                raise ConnectionError

            return StreamingResponse(breaking(), media_type="application/json")
        return await plain()(request, message)

    async with site_of(scripted(answering)) as (site, _):
        with pytest.raises(
            TransientError, match=r"cannot be reached: .* broke off.*; the outcome of the call is unknown"
        ):
            await site.call("books_add", a=1)
        assert await site.call("books_add", a=1) == "done"


@pytest.mark.spec("M3", "G61")
@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
async def test_one_that_breaks_off_ends_no_other(media_type: str) -> None:
    has_broken = asyncio.Event()

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if message["params"]["arguments"] == {"a": 1}:
            await has_broken.wait()
            return await plain()(request, message)

        async def breaking() -> AsyncGenerator[bytes]:
            yield b"data: " if media_type == "text/event-stream" else b"{"
            raise ConnectionError

        return StreamingResponse(breaking(), media_type=media_type)

    async with site_of(scripted(answering)) as (site, wire):
        staying = asyncio.create_task(outcome(site, a=1))
        await until(lambda: len(wire.calls) == 1)
        assert (await outcome(site, a=2))[1] == "unreachable"
        has_broken.set()
        assert await staying == "done"
        assert [record.outcome for record in await records_of(site.kernel.audit)] == ["unknown", "succeeded"]


@pytest.mark.spec("M3")
async def test_what_a_server_wants_first_is_refused_and_what_is_to_be_made_again_is() -> None:
    form = {"message": "Say your key.", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}
    inputs = {"who": {"method": "elicitation/create", "params": form}}
    model = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say your key."}}], "maxTokens": 10}
    async with site_of(scripted(required(inputRequests=inputs))) as (site, _):
        assert "refused: Elicitation not supported" in str(await outcome(site, a=1))
    inputs = {"who": {"method": "sampling/createMessage", "params": model}}
    async with site_of(scripted(required(inputRequests=inputs))) as (site, _):
        assert "refused: Sampling not supported" in str(await outcome(site, a=1))
    wire = Wire()
    async with (
        serving(watched(scripted(required(requestState="later")), wire)) as upstream,
        opened(declared(upstream)) as site,
    ):
        assert await outcome(site, a=1) == "done"
    assert [body["params"].get("requestState") for _, body in wire.calls] == [None, "later"]


def required(**members: Any) -> Answering:
    """Ask for something first, and answer once the state is there."""

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if message["params"].get("requestState"):
            return await plain()(request, message)
        result = {"resultType": "input_required", **members}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    return answering


@pytest.mark.spec("M4", "T43")
async def test_a_request_in_a_stream_is_refused() -> None:
    refused = asyncio.Event()
    refusals: list[Any] = []

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if "error" in message:
            refusals.append((message["id"], message["error"]["code"]))
            refused.set()
            return Response(status_code=202)

        async def stream() -> AsyncGenerator[str]:
            asking = {"jsonrpc": "2.0", "id": 77, "method": "sampling/createMessage", "params": {"maxTokens": 1}}
            yield f"data: {json.dumps(asking)}\n\n"
            await refused.wait()
            answer = {"resultType": "complete", "content": [{"type": "text", "text": "refused"}]}
            yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': answer})}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    async with site_of(scripted(answering)) as (site, _):
        assert await site.call("books_add", a=1) == "refused"
    assert refusals == [(77, -32601)]


@pytest.mark.realtime
@pytest.mark.spec("M5")
async def test_a_change_that_is_told_in_a_stream_is_heard() -> None:
    lists = 0
    changed = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
    app = scripted(events(changed, "{last}"))

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal lists
        lists += (b"mcp-method", b"tools/list") in scope.get("headers", ())
        await app(scope, receive, send)

    async with site_of(counting) as (site, _):
        await site.call("books_add", a=1)
        before = lists
        await asyncio.sleep(0.1)
        await site.call("books_add", a=1)
        assert lists == before + 1


async def test_a_stream_that_its_server_closed_is_read_on_and_so_is_the_progress_in_it() -> None:
    tokens: list[Any] = []
    read: list[str] = []

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if request.method == "POST":
            tokens.append(message["params"]["_meta"]["progressToken"])
            return Response("retry: 10\nid: 7\ndata:\n\n", media_type="text/event-stream")
        read.append(request.headers["last-event-id"])
        progress = {"progressToken": tokens[0], "progress": len(read), "total": 2, "message": f"part {len(read)}"}
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
        parts = [f"id: {7 + len(read)}", f"data: {json.dumps(notification)}", ""]
        if len(read) == 2:
            answer = {"resultType": "complete", "content": [{"type": "text", "text": "read on"}]}
            parts += [f"data: {json.dumps({'jsonrpc': '2.0', 'id': tokens[0], 'result': answer})}", ""]
        return Response("".join(f"{line}\n" for line in parts), media_type="text/event-stream")

    async with (
        site_of(scripted(answering)) as (site, _),
        site.session.invoke(Command("command", "books_add", {"a": 1})) as messages,
    ):
        reports = [message.data async for message in messages]
    assert [report["message"] for report in reports[:-1]] == ["part 1", "part 2"]
    assert (reports[-1], read, len(tokens)) == ("read on", ["7", "8"], 1)


@pytest.mark.parametrize("status", [200, 503])
async def test_a_stream_that_cannot_be_read_on_is_a_call_whose_outcome_is_not_known(status: int) -> None:
    read: list[str] = []

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if request.method == "POST":
            return Response("retry: 1\nid: 7\ndata:\n\n", media_type="text/event-stream")
        read.append(request.headers["last-event-id"])
        return Response("", status, media_type="text/event-stream")

    async with site_of(scripted(answering), timeout=1.0) as (site, _):
        error = await outcome(site, a=1)
        (record,) = await records_of(site.kernel.audit, tool="books_add")
    assert error[1] in ("deadline_exceeded", "unreachable")
    assert record.outcome == "unknown"
    assert set(read) == {"7"}
    assert read


async def test_a_redirect_within_the_server_is_followed() -> None:
    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if request.url.path == "/mcp":
            return RedirectResponse("/mcp/", 307)
        return await plain()(request, message)

    async with site_of(scripted(answering)) as (site, _):
        assert [await outcome(site, a=1), await outcome(site, a=2)] == ["done", "done"]


async def test_arguments_are_repeated_in_headers_that_their_schema_names() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "Number"}}}
    async with site_of(scripted(plain(), {**ADD, "inputSchema": schema})) as (site, wire):
        assert await outcome(site, a=1) == "done"
    assert (b"mcp-param-number", b"1") in wire.calls[0][0]


@pytest.mark.parametrize("name", ["l\u00e4s", "a\r\nx-evil: 1", "a\0", " a ", "=?base64?eA==?=", "x" * 1_000])
async def test_the_name_of_a_tool_makes_no_header_of_its_own(name: str) -> None:
    wire = Wire()
    async with (
        serving(watched(scripted(plain()), wire)) as upstream,
        McpConnection(declared(upstream), NONE) as connection,
    ):
        await connection.offers()
        assert (await connection.call(name, {}, None)).content == [{"type": "text", "text": "done"}]
    headers, body = wire.calls[0]
    assert (body["params"]["name"], b"x-evil" in dict(headers)) == (name, False)


async def test_calls_share_connections() -> None:
    async with site_of(library([])) as (site, wire):
        for number in range(5):
            assert await site.call("books_add", a=number, b=1) == {"result": number + 1}
        assert len(wire.clients) <= 2
        sums = await asyncio.gather(*(site.call("books_add", a=addend, b=1) for addend in range(30)))
        assert sums == [{"result": addend + 1} for addend in range(30)]
        assert len(wire.clients) <= 20


@pytest.mark.spec("M3")
async def test_a_server_that_is_gone_is_unreachable_and_tried_again_later() -> None:
    async with AsyncExitStack() as stack:
        async with serving(watched(scripted(plain()), Wire())) as upstream:
            site = await stack.enter_async_context(opened(declared(upstream)))
            assert await outcome(site, a=1) == "done"
        ends = [await outcome(site, a=1) for _ in range(3)]
    assert {end[:2] for end in ends} == {(TransientError, "unreachable")}
    assert "it is tried again in" in ends[-1][3]

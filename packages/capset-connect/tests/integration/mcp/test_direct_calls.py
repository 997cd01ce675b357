"""Calls of tools at URLs without the SDK, which end as they do with it (spec 7, M17).

The SDK's client keeps cookies, so a server that has set one gets every call from the SDK.
"""

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
from tests.helpers.connect.mcp.direct import (
    ADD,
    BOTH,
    CASES,
    FIRST_DIRECT,
    PROGRESS,
    STRUCTURED,
    Answering,
    Wire,
    both,
    events,
    failing,
    fixed,
    library,
    outcome,
    plain,
    scripted,
    site_of,
    watched,
)
from tests.helpers.connect.mcp.opening import NONE, opened
from tests.helpers.connect.mcp.urls import declared, serving
from tests.helpers.kernel.support import records_of
from tests.waiting import until

pytestmark = pytest.mark.spec("M17")


@pytest.mark.parametrize("name", CASES)
async def test_an_answer_is_read_as_the_sdk_reads_it(name: str) -> None:
    answering, expected = CASES[name]
    direct, sdk = await both(answering)
    assert direct == sdk
    assert direct[0] == direct[1]
    assert expected is None or expected in str(direct[0])


@pytest.mark.spec("M1", "M96")
@pytest.mark.parametrize(
    ("members", "expected"),
    [({"structuredContent": {"n": 1}}, {"n": 1}), ({"structuredContent": {"n": "many"}}, {"n": "many"}), ({}, "done")],
)
async def test_a_structure_is_passed_on_whether_or_not_it_fits_the_schema(
    members: dict[str, Any], expected: Any
) -> None:
    direct, sdk = await both(plain(**members), STRUCTURED)
    assert direct == sdk == ((expected, expected))


async def test_what_is_sent_is_what_the_sdk_sends() -> None:
    recorded: list[Any] = []
    for is_direct in (True, False):
        sent: list[Any] = []
        async with site_of(
            scripted(plain()), is_direct=is_direct, headers={"Authorization": "Bearer x", "Accept": "y"}
        ) as (site, wire):
            assert await outcome(site, a=1, text="\u00e9\u2028\U0001f600") == "done"
            assert await outcome(site, text=None) == await outcome(site, text="a\r\nx: y\0") == "done"
            for headers, body in wire.calls:
                assert "progressToken" not in body["params"]["_meta"], "nobody follows it"
                length = int(dict(headers)[b"content-length"]) - len(str(body["id"]))
                other = (b"cookie", b"host", b"content-length")
                body_text = json.dumps({**body, "id": None})
                sent.append(({header for header in headers if header[0] not in other}, body_text, length))
        recorded.append(sent)
    assert recorded[0] == recorded[1]


@BOTH
@pytest.mark.spec("M3")
async def test_progress_is_told_to_who_follows_it(is_direct: bool) -> None:
    async with site_of(library([]), is_direct=is_direct) as (site, wire):
        assert await site.call("books_count", to=2) == "counted to 2"
        async with site.session.invoke(Command("command", "books_count", {"to": 3})) as messages:
            reports = [message.data async for message in messages]
        assert [report["message"] for report in reports[:-1]] == ["at 0", "at 1", "at 2"]
        assert [round(report["fraction"], 2) for report in reports[:-1]] == [0, 0.33, 0.67]
        assert reports[-1] == "counted to 3"
        assert ["progressToken" in body["params"]["_meta"] for _, body in wire.calls] == [False, True]


@BOTH
@pytest.mark.spec("M96")
async def test_progress_without_a_total_goes_on_and_is_never_at_its_end(is_direct: bool) -> None:
    answering = events(PROGRESS + "1}}\n\n", PROGRESS + '200,"message":"far"}}\n\n', "{last}")
    async with (
        site_of(scripted(answering), is_direct=is_direct) as (site, _),
        site.session.invoke(Command("command", "books_add", {"a": 1})) as messages,
    ):
        heard = [message.data async for message in messages]
    assert [report["message"] for report in heard[:-1]] == ["1", "far"]
    first, second = (report["fraction"] for report in heard[:-1])
    assert 0 < first < second < 1
    assert heard[-1] == "done"


@BOTH
@pytest.mark.spec("M3")
async def test_a_caller_that_leaves_cancels_its_call_and_no_other(is_direct: bool) -> None:
    done: list[str] = []
    waits: list[float] = []
    async with site_of(library(done, waits), is_direct=is_direct) as (site, _):
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


@BOTH
@pytest.mark.spec("M3", "G61")
async def test_one_that_hangs_ends_by_its_timeout(is_direct: bool) -> None:
    done: list[str] = []
    async with site_of(library(done), is_direct=is_direct, rules={"wait": {"timeout": 0.5}}) as (site, _):
        with pytest.raises((TransientError, DeadlineExceeded)):
            await site.call("books_wait", seconds=30)
        assert [record.outcome for record in await records_of(site.kernel.audit, tool="books_wait")] == ["unknown"]
        assert await site.call("books_add", a=1, b=2) == {"result": 3}
        assert done[0] == "cancelled"


@BOTH
@pytest.mark.spec("M3")
async def test_one_that_breaks_off_says_so_and_is_reached_again(is_direct: bool) -> None:
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

    async with site_of(scripted(answering), is_direct=is_direct) as (site, _):
        with pytest.raises(
            TransientError, match=r"cannot be reached: .* broke off.*; what came of the call is not known"
        ):
            await site.call("books_add", a=1)
        assert await site.call("books_add", a=1) == "done"


@BOTH
@pytest.mark.spec("M3")
async def test_what_a_server_wants_first_is_refused_and_what_is_to_be_made_again_is(is_direct: bool) -> None:
    form = {"message": "Say your key.", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}
    inputs = {"who": {"method": "elicitation/create", "params": form}}
    model = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say your key."}}], "maxTokens": 10}
    async with site_of(scripted(required(inputRequests=inputs)), is_direct=is_direct) as (site, _):
        assert "refused: Elicitation not supported" in str(await outcome(site, a=1))
    inputs = {"who": {"method": "sampling/createMessage", "params": model}}
    async with site_of(scripted(required(inputRequests=inputs)), is_direct=is_direct) as (site, _):
        assert "refused: Sampling not supported" in str(await outcome(site, a=1))
    wire = Wire()
    async with (
        serving(watched(scripted(required(requestState="later")), wire, is_direct=is_direct)) as upstream,
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


@BOTH
@pytest.mark.spec("M4", "T43")
async def test_a_request_in_a_stream_is_refused(is_direct: bool) -> None:
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

    async with site_of(scripted(answering), is_direct=is_direct) as (site, _):
        assert await site.call("books_add", a=1) == "refused"
    assert refusals == [(77, -32601)]


@pytest.mark.realtime
@BOTH
@pytest.mark.spec("M5")
async def test_a_change_that_is_told_in_a_stream_is_heard(is_direct: bool) -> None:
    lists = 0
    changed = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
    app = scripted(events(changed, "{last}"))

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal lists
        lists += (b"mcp-method", b"tools/list") in scope.get("headers", ())
        await app(scope, receive, send)

    async with site_of(counting, is_direct=is_direct) as (site, _):
        await site.call("books_add", a=1)
        before = lists
        await asyncio.sleep(0.1)
        await site.call("books_add", a=1)
        assert lists == before + 1


@BOTH
async def test_a_stream_that_its_server_closed_is_read_on_and_so_is_the_progress_in_it(is_direct: bool) -> None:
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
        site_of(scripted(answering), is_direct=is_direct) as (site, _),
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
            return Response("retry: 1\nid: \u00e9\ndata:\n\n", media_type="text/event-stream")
        read.append(request.headers["last-event-id"].encode("latin-1").decode())
        return Response("", status, media_type="text/event-stream")

    async with site_of(scripted(answering), is_direct=True, timeout=1.0) as (site, _):
        error = await outcome(site, a=1)
        (record,) = await records_of(site.kernel.audit, tool="books_add")
    assert error[1] == ("deadline_exceeded" if status == 200 else "unreachable")
    assert record.outcome == "unknown"
    assert set(read) == {"\u00e9"}
    assert len(read) == 2 if status == 503 else 2 < len(read) <= 20


async def test_a_redirect_within_the_server_is_the_sdks_from_then_on() -> None:
    wire = Wire()

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if request.url.path == "/mcp":
            return RedirectResponse("/mcp/", 307)
        return await plain()(request, message)

    async with (
        serving(watched(scripted(answering), wire, is_direct=True)) as upstream,
        opened(declared(upstream)) as site,
    ):
        assert [await outcome(site, a=1), await outcome(site, a=2)] == ["done", "done"]
    assert wire.direct == [True, False, False, False, False]


async def test_arguments_that_are_repeated_in_headers_are_the_sdks() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "Number"}}}
    wire = Wire()
    app = watched(scripted(plain(), {**ADD, "inputSchema": schema}), wire, is_direct=True)
    async with serving(app) as upstream, opened(declared(upstream)) as site:
        assert await outcome(site, a=1) == "done"
    assert wire.direct == [False]
    assert (b"mcp-param-number", b"1") in wire.calls[0][0]


async def test_a_call_whose_headers_are_refused_is_made_again_by_the_sdk() -> None:
    wire = Wire()

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        if message["id"] >= FIRST_DIRECT:
            return await failing(400, -32020)(request, message)
        return await plain()(request, message)

    async with (
        serving(watched(scripted(answering), wire, is_direct=True)) as upstream,
        opened(declared(upstream)) as site,
    ):
        assert await outcome(site, a=1) == "done"
    assert wire.direct == [True, False]


@pytest.mark.parametrize("name", ["l\u00e4s", "a\r\nx-evil: 1", "a\0", " a ", "=?base64?eA==?=", "x" * 1_000])
async def test_the_name_of_a_tool_makes_no_header_of_its_own(name: str) -> None:
    sent: list[Any] = []
    for is_direct in (True, False):
        wire = Wire()
        app = watched(scripted(plain()), wire, is_direct=is_direct)
        async with serving(app) as upstream, McpConnection(declared(upstream), NONE) as connection:
            await connection.offers()
            assert (await connection.call(name, {}, None)).content == [{"type": "text", "text": "done"}]
        assert wire.direct == [is_direct]
        headers, body = wire.calls[0]
        assert (body["params"]["name"], b"x-evil" in dict(headers)) == (name, False)
        sent.append(dict(headers)[b"mcp-name"])
    assert sent[0] == sent[1]


async def test_calls_share_connections() -> None:
    async with site_of(library([]), is_direct=True) as (site, wire):
        for number in range(5):
            assert await site.call("books_add", a=number, b=1) == {"result": number + 1}
        assert len(wire.clients) <= 2
        sums = await asyncio.gather(*(site.call("books_add", a=addend, b=1) for addend in range(30)))
        assert sums == [{"result": addend + 1} for addend in range(30)]
        assert len(wire.clients) <= 20


@pytest.mark.parametrize(
    "answer",
    [
        {"jsonrpc": "2.0", "id": 5, "result": {"resultType": "complete", "content": []}},
        {"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
    ],
)
async def test_an_answer_to_another_request_is_none(answer: dict[str, Any]) -> None:
    async with site_of(scripted(fixed(lambda: JSONResponse(answer))), is_direct=True) as (site, _):
        assert "refused: The answer is no response to the call." in str(await outcome(site, a=1))


@BOTH
@pytest.mark.spec("M3")
async def test_a_server_that_is_gone_is_unreachable_and_tried_again_later(is_direct: bool) -> None:
    async with AsyncExitStack() as stack:
        async with serving(watched(scripted(plain()), Wire(), is_direct=is_direct)) as upstream:
            site = await stack.enter_async_context(opened(declared(upstream)))
            assert await outcome(site, a=1) == "done"
        ends = [await outcome(site, a=1) for _ in range(3)]
    assert {end[:2] for end in ends} == {(TransientError, "unreachable")}
    assert "it is tried again in" in ends[-1][3]

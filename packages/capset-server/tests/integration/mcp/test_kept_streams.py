"""Answers of 2025-11-25 whose streams break off: fetched by the same caller, within bounds (spec 7, M25)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import Message

from capset import Progress, Reply, tool
from capset.definitions.tools.definition import AnyTool
from capset_server.mcp import kept_streams
from capset_server.mcp.kept_streams import AnswerOwner, KeptStream
from tests.helpers.server.mcp.support import Site, echo, site, text_of
from tests.waiting import until

pytestmark = pytest.mark.realtime

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
PATH = "/mcp/agents/tester"


class Gate:
    """Tools that go on when they are let, and what became of them."""

    def __init__(self) -> None:
        self.started, self.open, self.cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.size = 4

    def tools(self) -> tuple[AnyTool, ...]:
        """Return them."""

        @tool(effect="write")
        async def hold() -> str:
            """Wait."""
            self.started.set()
            try:
                await self.open.wait()
            finally:
                self.cleaned.set()
            return "x" * self.size

        @tool(effect="read")
        async def steps() -> AsyncIterator[Progress | Reply[str]]:
            """Tell of steps, and wait."""
            yield Progress(0.25, "one")
            yield Progress(0.5, "two")
            self.started.set()
            await self.open.wait()
            yield Progress(0.75, "three" * self.size)
            yield Reply("done")

        return hold, steps, echo


class Event(NamedTuple):
    id: str
    data: Any
    retry: str


class Caller:
    """A client by hand: what it has of a stream stays in its hands when that breaks off."""

    def __init__(self, server: Site, http: httpx2.AsyncClient, token: str) -> None:
        self.here, self.http, self.token, self.ticket = server, http, token, ""

    def headers(self, version: str = "2025-11-25", **more: str) -> dict[str, str]:
        """Return the headers of a request."""
        ticket = {"Mcp-Session-Id": self.ticket} if self.ticket else {}
        sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
        return {**sent, "Authorization": f"Bearer {self.token}", **ticket, **more}

    async def post(self, message: dict[str, Any], **headers: str) -> httpx2.Response:
        """Send a message, and read all of the answer."""
        return await self.http.post(self.here.url + PATH, json=message, headers=self.headers(**headers))

    @asynccontextmanager
    async def calling(self, name: str, id: int = 1, **headers: str) -> AsyncGenerator[AsyncGenerator[Event]]:
        """Call a tool, and yield the events of the answer; leaving breaks off."""
        params = {"name": name, "arguments": {}, "_meta": {"progressToken": "p"}}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        sent = self.headers(**headers)
        async with self.http.stream("POST", self.here.url + PATH, json=message, headers=sent) as response:
            assert response.status_code == 200
            yield events(response)

    @asynccontextmanager
    async def resuming(self, event: str) -> AsyncGenerator[AsyncGenerator[Event]]:
        """Go on reading after an event."""
        headers = self.headers(**{"Last-Event-ID": event})
        async with self.http.stream("GET", self.here.url + PATH, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield events(response)

    async def refused(self, event: str, version: str = "2025-11-25") -> tuple[int, str]:
        """Return how such a request is refused."""
        headers = self.headers(version, **{"Last-Event-ID": event})
        response = await self.http.get(self.here.url + PATH, headers=headers)
        return response.status_code, response.text


async def events(response: httpx2.Response) -> AsyncGenerator[Event]:
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            data = fields.get("data", "")
            yield Event(fields.get("id", ""), json.loads(data) if data else None, fields.get("retry", ""))
            fields = {}


@asynccontextmanager
async def caller(server: Site, token: str = "ada") -> AsyncGenerator[Caller]:
    async with httpx2.AsyncClient(timeout=20) as http:
        client = Caller(server, http, token)
        opened = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        client.ticket = opened.headers["mcp-session-id"]
        yield client


def texts(stream_events: list[Event]) -> list[str]:
    """Return the messages of progress and the texts of answers in events."""
    messages: list[str] = []
    for event in stream_events:
        if event.data is not None:
            data = event.data
            messages.append(data["params"]["message"] if "params" in data else data["result"]["content"][0]["text"])
    return messages


@pytest.mark.spec("M25")
async def test_a_stream_that_broke_off_goes_on_where_it_was() -> None:
    gate = Gate()
    async with site(*gate.tools()) as server, caller(server) as ada:
        async with ada.calling("steps") as stream:
            first, second = await anext(stream), await anext(stream)
            assert (first.data, first.retry) == (None, "2000"), "the first event has no data, and says when to come"
            assert texts([second]) == ["one"]
        async with ada.resuming(second.id) as stream:
            opening, two = await anext(stream), await anext(stream)
            assert (opening.id, opening.data, texts([two])) == (second.id, None, ["two"])
            gate.open.set()
            rest = [event async for event in stream]
            assert texts(rest) == ["threethreethreethree", "done"]
        async with ada.resuming(first.id) as stream:
            assert texts([event async for event in stream]) == ["one", "two", "threethreethreethree", "done"]
        async with ada.resuming(rest[-1].id) as stream:
            assert texts([event async for event in stream]) == [], "it has all"
        assert (await server.record()).outcome == "succeeded"
        await until(lambda: server.open_requests == 0)


@pytest.mark.spec("M25")
async def test_an_answer_that_came_without_its_client_is_fetched_by_the_official_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_streams, "RETRY_MS", 100)
    gate = Gate()
    async with site(*gate.tools()) as server:
        cut = Cutting()
        async with (
            httpx2.AsyncClient(transport=cut, headers={"Authorization": "Bearer ada"}, timeout=20) as http,
            Client(streamable_http_client(server.url + PATH, http_client=http), mode="legacy") as client,
        ):
            assert client.protocol_version == "2025-11-25"
            calling = asyncio.ensure_future(client.call_tool("hold"))
            await asyncio.wait_for(gate.started.wait(), 60)
            await cut.cut()
            gate.open.set()
            assert text_of(await asyncio.wait_for(calling, 60)) == "xxxx"
            assert cut.methods.count("GET") >= 1
        assert (await server.record()).outcome == "succeeded"


class Cutting(httpx2.AsyncHTTPTransport):
    """A network that breaks connections off."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []
        self._open: list[httpx2.Response] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on."""
        self.methods.append(request.method)
        response = await super().handle_async_request(request)
        self._open.append(response)
        return response

    async def cut(self) -> None:
        """Break off what is open."""
        for response in self._open:
            network = response.extensions["network_stream"]
            await network.aclose()


@pytest.mark.spec("M25")
async def test_nobody_else_fetches_it() -> None:
    gate = Gate()
    async with (
        site(*gate.tools()) as server,
        caller(server) as ada,
        caller(server, "bob") as bob,
        caller(server) as other,
    ):
        async with ada.calling("hold") as stream:
            first = await anext(stream)
        gate.open.set()
        await until(lambda: server.open_requests == 0)
        gone = await ada.refused(first.id.replace(".0", ".7"))
        assert gone[0] == 410
        assert await bob.refused(first.id) == gone, "and is not told whether there is one"
        assert await other.refused(first.id) == gone, "another transport session is another client"
        ticket, bob.ticket = bob.ticket, ada.ticket
        assert (await bob.refused(first.id))[0] == 404
        bob.ticket = ticket
        assert (await ada.refused(first.id, "2025-06-18"))[0] == 405
        process, name, _ = first.id.split(".")
        assert (await ada.refused(f"{'0' * len(process)}.{name}.0"))[0] == 421
        for wrong in ("0", "a.b", f"{process}.{name}.-1", f"{process}.{name}.{'9' * 30}"):
            assert (await ada.refused(wrong))[0] == 400, wrong
        async with ada.resuming(first.id) as stream:
            assert texts([event async for event in stream]) == ["xxxx"]


@pytest.mark.spec("M25")
async def test_a_call_ends_when_its_client_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_streams, "GRACE_SECONDS", 0.2)
    gate = Gate()
    async with site(*gate.tools()) as server, caller(server) as ada:
        async with ada.calling("hold") as stream:
            first = await anext(stream)
        async with ada.resuming(first.id) as stream:
            await anext(stream)
            await asyncio.sleep(0.4)
            assert not gate.cleaned.is_set(), "the client is there"
        await until(lambda: server.open_requests == 0)
        assert gate.cleaned.is_set()
        assert (await server.record()).outcome == "cancelled"
        async with ada.resuming(first.id) as stream:
            last = [event async for event in stream][-1]
            assert last.data["error"]["message"] == "Request cancelled"


@pytest.mark.spec("M25")
async def test_a_client_that_has_left_can_still_cancel() -> None:
    gate = Gate()
    async with site(*gate.tools()) as server, caller(server) as ada:
        async with ada.calling("hold", id=7) as stream:
            await anext(stream)
        await asyncio.sleep(0.1)
        assert not gate.cleaned.is_set()
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await ada.post(message)).status_code == 202
        await until(lambda: server.open_requests == 0)
        assert (await server.record()).outcome == "cancelled"


@pytest.mark.spec("M25")
async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_streams, "MAX_BYTES", 2_000)
    monkeypatch.setattr(kept_streams, "MAX_OWN", 2)
    gate = Gate()
    gate.size = 3_000
    async with site(*gate.tools()) as server, caller(server) as ada, caller(server, "bob") as bob:
        async with ada.calling("steps", 1) as stream:
            steps = await anext(stream)
        async with ada.calling("hold", 2) as stream:
            hold = await anext(stream)
            await gate.started.wait()
            async with ada.calling("hold", 3) as third, bob.calling("hold", 4) as other:
                gate.open.set()
                assert [received.id for received in [event async for event in third]] == [""], (
                    "there is no room to keep it"
                )
                assert (await anext(other)).id, "that of others is their own"
                assert len(texts([event async for event in stream])[0]) == 3_000, "who is there gets all of it"
        await until(lambda: server.open_requests == 0)
        assert (await ada.refused(hold.id))[0] == 410, "it is too long to be kept"
        async with ada.resuming(steps.id) as stream:
            assert texts([event async for event in stream]) == ["done"], "the progress that was too long is dropped"
        async with ada.calling("echo", 5) as stream:
            assert (await anext(stream)).id, "the oldest answers make room"


@pytest.mark.spec("M25")
async def test_answers_are_kept_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_streams, "SENT_SECONDS", 0.05)
    gate = Gate()
    gate.open.set()
    async with site(*gate.tools()) as server, caller(server) as ada:

        async def is_gone(event: str) -> bool:
            return (await ada.refused(event))[0] == 410

        async with ada.calling("hold") as stream:
            sent = [event async for event in stream]
        await until(lambda: is_gone(sent[0].id), "an answer that was sent to be dropped")
        gate.open.clear()
        async with ada.calling("hold") as stream:
            first = await anext(stream)
        gate.open.set()
        await until(lambda: server.open_requests == 0)
        await asyncio.sleep(0.2)
        async with ada.resuming(first.id) as stream:
            assert texts([await anext(stream), await anext(stream)]) == ["xxxx"], "it was not sent yet"
        monkeypatch.setattr(kept_streams, "KEEP_SECONDS", 0.2)
        gate.open.clear()
        async with ada.calling("hold") as stream:
            first = await anext(stream)
        gate.open.set()
        await until(lambda: is_gone(first.id), "the server to drop an answer that no client fetched")


@pytest.mark.spec("M25")
async def test_a_client_that_saw_no_id_cannot_come_again_and_its_call_ends() -> None:
    cancelled, sent = asyncio.Event(), list[Message]()
    stream = KeptStream("p.s", AnswerOwner("ada", None), "ada", "hold", cancelled.set)

    async def disconnect() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await stream.deliver(0, disconnect, send)
    await asyncio.wait_for(cancelled.wait(), 60)
    stream.end()
    assert sent == []


@pytest.mark.spec("M25")
async def test_who_comes_later_misses_nothing_of_what_a_slower_one_was_sent() -> None:
    stream = KeptStream("p.s", AnswerOwner("ada", None), "ada", "hold", lambda: None)
    await stream.take({"type": "http.response.start", "headers": [(b"content-type", b"text/event-stream")]})
    for number in range(1, 6):
        await stream.take({"type": "http.response.body", "body": b"data: %d\r\n\r\n" % number})
    blocked, free, sent = asyncio.Event(), asyncio.Event(), list[bytes]()

    async def stays() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def slow(message: Message) -> None:
        if b"data: 4" in message.get("body", b""):
            blocked.set()
            await free.wait()

    async def fast(message: Message) -> None:
        sent.append(message.get("body", b""))
        free.set()
        await asyncio.sleep(0)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        tasks.create_task(stream.deliver(0, stays, slow))
        await blocked.wait()
        tasks.create_task(stream.deliver(1, stays, fast))
        await free.wait()
        stream.end()
    assert [chunk[-5] for chunk in sent if b"data: " in chunk and b"retry" not in chunk] == list(b"2345")


@pytest.mark.spec("M25")
async def test_other_revisions_and_methods_are_as_before() -> None:
    gate = Gate()
    gate.open.set()
    async with site(*gate.tools()) as server, caller(server) as ada:
        async with ada.calling("hold", version="2025-06-18") as stream:
            assert [received.id for received in [event async for event in stream]] == [""]
        listing = await ada.post({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})
        assert "id: " not in listing.text
        assert (await ada.http.get(server.url + PATH, headers=ada.headers())).status_code == 405
        wrong = await ada.http.post(
            server.url + PATH,
            json={"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "hold"}},
            headers=ada.headers(Accept="application/json"),
        )
        assert wrong.status_code == 406, "an answer that is no stream is passed on as it is"
        assert wrong.json()["error"]["message"].startswith("Not Acceptable")

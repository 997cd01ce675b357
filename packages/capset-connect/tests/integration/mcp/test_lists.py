"""Servers that say more of their tools than anybody could read: one server, and all of an organisation (M91)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.errors import ToolError, TransientError
from capset_connect.mcp import McpServer
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.lists.meter import LIST_BYTES, ListMeter
from capset_connect.mcp.rooms import Room
from tests.helpers.connect.mcp.opening import NONE, offers_of, server
from tests.helpers.connect.mcp.scripted import ADD, VERSION
from tests.helpers.connect.mcp.urls import declared, serving

Page = Callable[[int], dict[str, Any]]


def listing(page: Page, *, as_events: bool = False, instructions: str = "") -> ASGIApp:
    """Return a server whose list of tools has these pages, by their numbers; each says whether there is another."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message = json.loads(await Request(scope, receive).body() or b"{}")
        answer: dict[str, Any] | None = None
        match message.get("method"):
            case "server/discover":
                answer = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, "instructions": instructions}
            case "tools/list":
                answer = page(int(message["params"].get("cursor") or 0))
            case _:
                pass
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        if answer is None:
            reply["error"] = {"code": -32601, "message": "there is no such method"}
        else:
            reply["result"] = {**answer, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        response: Response = JSONResponse(reply)
        if as_events and message.get("method") == "tools/list":
            response = Response(f"event: message\ndata: {json.dumps(reply)}\n\n", media_type="text/event-stream")
        await response(scope, receive, send)

    return app


def pages(*sizes: int) -> Page:
    """Return pages of one tool each, whose descriptions have these numbers of characters."""

    def page(number: int) -> dict[str, Any]:
        tool = {**ADD, "name": f"tool{number}", "description": "x" * sizes[number]}
        return {"tools": [tool], **({"nextCursor": str(number + 1)} if number + 1 < len(sizes) else {})}

    return page


def nested(number: int) -> dict[str, Any]:
    """Return a page of a schema that takes 30 times as much memory as its text."""
    tool = {**ADD, "name": f"tool{number}", "inputSchema": {"type": "object", "x": [[]] * 200_000}}
    return {"tools": [tool]}


@pytest.mark.spec("M91", "T43")
@pytest.mark.parametrize("as_events", [False, True], ids=["json", "events"])
@pytest.mark.parametrize(
    ("page", "instructions"),
    [(pages(*[200_000] * 30), ""), (nested, ""), (pages(*[200_000] * 18), "x" * 700_000)],
    ids=["many pages", "small text and much memory", "pages and instructions together"],
)
async def test_all_that_a_server_says_of_itself_is_bounded_and_what_is_refused_is_not_kept(
    page: Page, instructions: str, as_events: bool
) -> None:
    async with (
        serving(listing(page, as_events=as_events, instructions=instructions)) as upstream,
        McpConnection(declared(upstream), NONE) as connection,
    ):
        with pytest.raises(ToolError, match="sent more than 4 MiB of tools and prompts") as raised:
            await connection.offers()
        assert raised.value.code == "too_large"
        assert not connection.is_connected
        assert connection.known_offers is None


@pytest.mark.spec("M91")
async def test_a_long_list_within_the_bound_is_taken_and_kept_without_what_it_says() -> None:
    async with (
        serving(listing(pages(*[200_000] * 18))) as upstream,
        McpConnection(declared(upstream), NONE) as connection,
    ):
        offers = await connection.offers()
        assert [len(offer.shape["description"]) for offer in offers] == [200_000] * 18
        cached = await connection.offers()
        assert [(offer.name, offer.hash) for offer in cached] == [(offer.name, offer.hash) for offer in offers]
        assert {str(offer.shape) for offer in cached} == {str({"name": offer.name}) for offer in offers}
        assert await connection.offers(at_once=True) == offers, "each list is counted from zero"


@pytest.mark.spec("M91", "T45")
async def test_what_the_servers_of_one_organisation_say_is_bounded_together_and_others_have_their_own() -> None:
    room = Room("The organisation 'acme'", lists_bytes=1_500_000)
    async with (
        serving(listing(pages(*[200_000] * 5))) as upstream,
        McpConnection(declared(upstream), NONE, room) as first,
        McpConnection(declared(upstream), NONE, room) as other,
        McpConnection(declared(upstream), NONE, Room("another")) as elsewhere,
    ):
        assert len(await first.offers()) == 5
        with pytest.raises(TransientError, match="The organisation 'acme' has connections whose tool lists") as raised:
            await other.offers()
        assert raised.value.code == "too_many_lists"
        assert len(await elsewhere.offers()) == 5
        assert len(await first.offers(at_once=True)) == 5


@pytest.mark.realtime
@pytest.mark.spec("M91", "T43")
async def test_a_process_may_say_no_more(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="sent more than 4 MiB of tools and prompts"):
        await offers_of(server("verbose", tmp_path))


def test_a_part_counts_only_while_a_list_is_under_way() -> None:
    meter = ListMeter(McpServer(name="books", url="https://books.example.com/mcp"))
    meter.count(b"x" * (LIST_BYTES + 1))
    assert meter.size == 0
    with meter.reading(from_zero=True):
        meter.count(b"[{},[]]")
        assert meter.size == 7 + 16 * 4
    with meter.reading(from_zero=False):
        meter.count(b"x")
    assert meter.size == 7 + 16 * 4 + 1

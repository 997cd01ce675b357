"""What ``web_fetch`` is to those who install it, configure it, and use it from code."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from capset import Agent, Capability, Context, DefinitionError, Kernel, Principal, tool
from capset.errors import PermissionDenied
from capset_testing import capability_suite, session_for
from capset_tools.web_fetch import BODY, FIRST_BYTE, MAX_REDIRECTS, WebFetchConfig, WebPage, web_fetch, web_fetch_over
from capset_tools.web_fetch.conversion import MAX_CONVERTED
from capset_tools.web_fetch.tidy_html import MAX_TAGS
from scripts.packages import ROOT
from tests.helpers.net.support import Server, answer, server
from tests.helpers.tools.web_fetch.support import site

LOCAL = WebFetchConfig(allow=("127.0.0.1",))


@pytest.mark.spec("P17", "G10")
def test_it_is_what_the_seed_says() -> None:
    assert (web_fetch.name, web_fetch.icon, web_fetch.category) == ("web_fetch", "globe", "Network")
    assert not web_fetch.part.instructions, "the tool says all that there is to say"
    (only,) = web_fetch.every_tool
    assert (only.name, only.effect, only.permissions) == ("web_fetch", "read", frozenset({"http:read"}))
    schema = only.arguments.json_schema
    assert schema["required"] == ["url"]
    assert {name: parameter.get("default") for name, parameter in schema["properties"].items()} == {
        "url": None,
        "method": "GET",
        "as_markdown": False,
        "as_text": False,
    }
    assert schema["properties"]["method"]["enum"] == ["GET", "HEAD"]
    assert set(only.output.json_schema["required"]) == {
        *("url", "status_code", "content_type", "size", "format", "truncated")
    }
    assert set(only.output.json_schema["properties"]) == {
        *("url", "status_code", "content_type", "size", "format", "truncated"),
        *("last_modified", "filename", "content", "error"),
    }


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    "arguments",
    [{}, {"method": "POST"}, {"method": "get"}, {"as_markdown": "yes"}, {"url": 1}, {"headers": {}}],
)
async def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    async with site() as it:
        call_arguments = {"url": it.server.url("/page"), **arguments} if arguments else {}
        result = await it.desk.session.try_message(it.desk.session.message("web_fetch", call_arguments))
        assert result.error is not None
        assert result.error.status == 422
        assert it.server.asked == []


@pytest.mark.spec("P26", "P27")
def test_its_config() -> None:
    config = WebFetchConfig()
    assert (config.allow, config.max_bytes, config.redirects) == ((), 10_000_000, 10)
    for wrong in ({"allow": ("127.1",)}, {"max_bytes": 0}, {"max_bytes": 10_000_001}, {"redirects": 21}, {"more": 1}):
        with pytest.raises(ValidationError):
            WebFetchConfig.model_validate(wrong)


@pytest.mark.spec("P26")
async def test_the_deadlines_are_those_of_the_seed() -> None:
    @tool(effect="read")
    async def deadlines(ctx: Context) -> list[float]:
        """Return those that the real one has."""
        fetch = ctx.use(web_fetch)
        return [fetch.first_byte, fetch.body]

    asks = Capability("asks", title="Asks", description="Deadlines.", tools=[deadlines], uses=[web_fetch])
    agent = Agent("reader", uses=[asks, web_fetch])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        assert await session.call(deadlines) == [1, 30] == [FIRST_BYTE, BODY]


@pytest.mark.spec("P26")
@pytest.mark.parametrize(("first_byte", "body"), [(FIRST_BYTE, BODY), (0.1, 300.0), (60.0, 0.1)])
def test_the_tool_has_more_time_than_all_that_it_waits_for(first_byte: float, body: float) -> None:
    assert WebFetchConfig(redirects=MAX_REDIRECTS)
    over = web_fetch_over(first_byte=first_byte, body=body)
    real = [web_fetch] if (first_byte, body) == (FIRST_BYTE, BODY) else []
    for capability in (over, *real):
        (only,) = capability.every_tool
        assert only.timeout is not None
        assert only.timeout > (MAX_REDIRECTS + 1) * first_byte + body


def test_its_page_says_its_bounds() -> None:
    page = (ROOT / "docs/capabilities/web_fetch.md").read_text("utf-8")
    assert f"| HTML to convert | {MAX_TAGS:,} tags, {MAX_CONVERTED:,} characters of result;" in page
    assert f"| the answer of each hop | {FIRST_BYTE:g} s," in page
    assert f"| the body | {BODY:g} s " in page


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_deadlines_are_positive(seconds: float) -> None:
    with pytest.raises(DefinitionError, match="first_byte"):
        web_fetch_over(first_byte=seconds)
    with pytest.raises(DefinitionError, match="body"):
        web_fetch_over(body=seconds)


@pytest.mark.spec("P26")
async def test_other_capabilities_use_it_from_code() -> None:
    @tool(effect="read")
    async def title(ctx: Context, url: str) -> str:
        """Return a page's heading."""
        page: WebPage = await ctx.use(web_fetch).fetch(url, as_text=True)
        return page.get("content", "")

    titles = Capability("titles", title="Titles", description="Headings.", tools=[title], uses=[web_fetch])
    agent = Agent("reader", uses=[titles, web_fetch.with_config(LOCAL)])
    async with (
        server({"/": answer(body=b"<h1>Hello</h1>", content_type="text/html")}) as page_server,
        Kernel("memory://") as kernel,
        kernel.open(agent, principal=Principal("ada")) as session,
    ):
        assert await session.call(title, page_server.url()) == "Hello"


@pytest.mark.spec("G10")
async def test_it_needs_its_permission() -> None:
    async with server({"/": answer()}) as page_server, session_for(web_fetch, config=LOCAL) as desk:
        result = await desk.session.try_message(desk.session.message("web_fetch", {"url": page_server.url()}))
        assert isinstance(result.error, PermissionDenied)
    assert page_server.asked == []


def pages(page_server: Server) -> list[dict[str, Any]]:
    return [
        {"url": page_server.url("/page"), "as_markdown": True},
        {"url": page_server.url("/page"), "as_text": True},
        {"url": page_server.url("/page"), "method": "HEAD"},
        {"url": page_server.url("/picture")},
        {"url": page_server.url("/nowhere")},
    ]


@pytest.mark.realtime
@pytest.mark.spec("P17")
async def test_it_keeps_every_promise() -> None:
    responses = {
        "/page": answer(body=b"<h1>Hello</h1>", content_type="text/html", last_modified="today"),
        "/picture": answer(body=b"\x89PNG", content_type="image/png", content_disposition="inline; filename=a.png"),
    }
    async with server(responses) as page_server:
        for check in capability_suite(web_fetch, examples={"web_fetch": pages(page_server)}, config=LOCAL):
            await check()

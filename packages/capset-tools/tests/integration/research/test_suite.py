"""Research passes the suite that third parties run; its examples really fetch, from a server of the test's own."""

from __future__ import annotations

import asyncio
import atexit
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from capset import Agent, Kernel, Principal, Session
from capset_testing import capability_suite
from capset_testing.capability_suite import Arguments, Check
from capset_tools.research import ResearchConfig, research, research_over
from capset_tools.web_fetch import web_fetch, web_fetch_over
from tests.helpers.net.support import PUBLIC, Answer, Bottle, Names, Server, redirect
from tests.helpers.tools.research.support import COFFEE, TEA

LISTENING = socket.create_server(("127.0.0.1", 0))
"""The checks are made before there is a server, so its port is kept from the beginning."""
atexit.register(LISTENING.close)
SITE = "study.example"
FETCHING = web_fetch_over(Names({SITE: [[PUBLIC]], "evil.example": [[PUBLIC]]}), Bottle(LISTENING.getsockname()[1]))
STUDY = research_over(FETCHING)
REDIRECTS: dict[str, Answer] = {
    "/out": redirect("http://evil.example/tea"),
    "/on": redirect("/tea"),
    "/long": redirect(f"http://evil.example/tea?{'x' * 2_048}"),
}


def after_fetching(**arguments: object) -> Callable[[Session], Awaitable[Arguments]]:
    async def prepare(session: Session) -> Arguments:
        fetched = await session.call(session.snapshot.tools["research_fetch"].tool, url=f"http://{SITE}/tea")
        assert fetched["source"] == 1
        return arguments

    return prepare


async def after_noting(session: Session) -> Arguments:
    await session.call(session.snapshot.tools["research_note"].tool, text="Who knows?", topic="Open")
    return {"topic": "open"}


EXAMPLES = {
    "research_note": [
        {"text": "Is green tea older than black tea?", "topic": "Open"},
        after_fetching(text="Green tea is brewed at 80 °C.", sources=[1], topic="Brewing"),
    ],
    "research_fetch": [{"url": f"http://{SITE}/tea"}, {"url": f"http://{SITE}/coffee", "title": "On coffee"}],
    "research_search": [{"query": "tea"}, after_fetching(query="brewed", limit=1)],
    "research_report": [{"title": "Hot drinks"}, after_noting],
}


@asynccontextmanager
async def site(pages: dict[str, Answer] | None = None) -> AsyncGenerator[None]:
    page_server = Server(0, {"/tea": TEA, "/coffee": COFFEE, **(pages or {})})
    listening = await asyncio.start_server(page_server.serve, sock=LISTENING.dup())
    try:
        yield
    finally:
        listening.close()
        while page_server.serving:
            await asyncio.wait(page_server.serving, timeout=1)


@pytest.mark.spec("P17", "P18")
@pytest.mark.parametrize(
    "check",
    [
        *capability_suite(STUDY, examples=EXAMPLES),
        *capability_suite(
            STUDY,
            examples=EXAMPLES,
            config=ResearchConfig(max_sources=2, max_notes=50, max_source_characters=1_000, shown=10),
        ),
    ],
    ids=lambda check: check.__name__,
)
async def test_research_keeps_every_promise(check: Check) -> None:
    async with site():
        await check()


@pytest.mark.spec("P18", "P26")
async def test_a_source_is_not_laid_at_the_door_of_who_only_redirected() -> None:
    async with site(REDIRECTS), Kernel("memory://") as kernel:
        ada = Principal("ada", permissions=["research:write", "http:read"])
        async with kernel.open(Agent("scholar", uses=[STUDY]), principal=ada) as session:
            tools = session.snapshot.tools
            fetch = tools["research_fetch"].tool
            away, url = await session.call(fetch, url=f"http://{SITE}/out"), f"http://{SITE}/out"
            assert (away["url"], away["answered_by"]) == (url, "http://evil.example/tea")
            assert "answered_by" not in await session.call(fetch, url=f"http://{SITE}/on")
            report = (await session.call(tools["research_report"].tool))["report"]
            assert f"<{url}>, answered by <http://evil.example/tea>, fetched" in report
            assert report.count("answered by") == 1
            searched = await session.call(tools["research_search"].tool, query="brewed")
            assert [hit.get("answered_by") for hit in searched["hits"]] == [None, "http://evil.example/tea"]
            long = await session.call(fetch, url=f"http://{SITE}/long")
            assert long["answered_by"] == "http://evil.example/", "as much as fits"


def test_research_stands_on_the_web_fetch_that_is_installed() -> None:
    assert [reference.base for reference in research.uses if not callable(reference)] == [web_fetch]

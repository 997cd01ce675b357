"""A session that does research on a server of this machine, which it is allowed to ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from capset import Agent, Context, Kernel, Principal, Session, tool
from capset_testing import FakeClock
from capset_tools.research import ResearchConfig, Source, research_over
from capset_tools.research.sources import texts
from capset_tools.web_fetch import WebFetchConfig, web_fetch_over
from tests.helpers.net.support import Answer, Server, answer, server

PERMISSIONS = ("research:write", "http:read")
PLAIN = ResearchConfig()
patient_fetch = web_fetch_over(first_byte=60)  # a second is too short on a busy machine
research = research_over(patient_fetch)


@tool(effect="read")
async def stored_texts(ctx: Context) -> list[str]:
    """Return every text that is stored, whatever it belongs to, the oldest first."""
    return [document.text for document in await ctx.documents(texts).recent(1_000)][::-1]


@tool
async def leave_behind(ctx: Context, text: str) -> None:
    """Keep a text that nothing names, as a process does that dies at the wrong moment."""
    await ctx.documents(texts).add(text)


@tool(effect="read")
async def every_source(ctx: Context) -> list[Source]:
    """Return the sources as code of other capabilities has them."""
    return await ctx.use(research).sources()


@dataclass(frozen=True)
class Study:
    """A session, the server it reads, and the clock that dates what it gathers."""

    session: Session
    server: Server
    clock: FakeClock

    async def fetch(self, page: str, **arguments: Any) -> Any:
        return await self._call("research_fetch", url=self.server.url(page), **arguments)

    async def note(self, text: str, *sources: int, **arguments: Any) -> Any:
        return await self._call("research_note", text=text, sources=[*sources], **arguments)

    async def search(self, query: str, **arguments: Any) -> Any:
        payload = await self._call("research_search", query=query, **arguments)
        assert payload["count"] == len(payload["hits"])
        return payload["hits"]

    async def report(self, **arguments: Any) -> Any:
        return await self._call("research_report", **arguments)

    async def sources(self) -> list[Source]:
        return await self.session.call(every_source)

    async def texts(self) -> list[str]:
        return await self.session.call(stored_texts)

    async def _call(self, name: str, **arguments: Any) -> Any:
        return await self.session.call(self.session.snapshot.tools[name].tool, **arguments)


def html(text: str) -> bytes:
    return answer(body=text.encode(), content_type="text/html; charset=utf-8")


def plain(text: str) -> bytes:
    return answer(body=text.encode(), content_type="text/plain; charset=utf-8")


TEA = html("<title>x</title><h1>Green <em>tea</em></h1><p>Green tea is brewed at 80 °C.</p><script>steal()</script>")
COFFEE = plain("Coffee is brewed at 93 °C.\n\nIt is ground before.")


@asynccontextmanager
async def study(
    config: ResearchConfig = PLAIN,
    *,
    store: str = "memory://",
    permissions: tuple[str, ...] = PERMISSIONS,
    **pages: Answer,
) -> AsyncGenerator[Study]:
    """Open a session; ``pages`` are what the server has besides ``/tea`` and ``/coffee``."""
    clock = FakeClock()
    async with server(
        {"/tea": TEA, "/coffee": COFFEE, **{f"/{name}": page for name, page in pages.items()}}
    ) as page_server:
        allowed = patient_fetch.with_config(WebFetchConfig(allow=(f"127.0.0.1:{page_server.port}",)))
        uses = [allowed, research.with_config(config)]
        agent = Agent("scholar", uses=uses, tools=[stored_texts, every_source, leave_behind])
        async with (
            Kernel(store, clock=clock) as kernel,
            kernel.open(agent, principal=Principal("ada", permissions=permissions)) as session,
        ):
            yield Study(session, page_server, clock)

"""Sessions for tests of the console: a shop whose model follows a script, and a client that is signed in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2

from capset import Capability, Progress, Reply, tool
from capset.ext import Governance
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call, ScriptStep
from capset_agents.runner import AgentRunner
from tests.helpers.server.approving import till
from tests.helpers.server.support import ALL_SCOPES, Site, make_session, site
from tests.waiting import until

HOSTILE: Final = '</pre><script>alert(1)</script>"><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe'
"""Text that would run, or mislead, where it is not escaped."""


class Brake:
    """A tool that reports half of its work, and goes on once ``go`` is set."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.started = asyncio.Event()

    def capability(self) -> Capability:
        """Return the capability with the tool, and with one that says hostile things."""

        @tool(effect="read")
        async def work() -> AsyncIterator[Progress | Reply[str]]:
            """Work for a while."""
            yield Progress(0.5, "half done")
            self.started.set()
            await self.go.wait()
            yield Reply("worked")

        @tool(effect="read")
        async def shout(text: str = HOSTILE, times: int = 1) -> str:
            """Say something many times."""
            return text * times

        return Capability("brake", description="Waits.", tools=[work, shout])


@asynccontextmanager
async def shop(
    *moves: Call | str | ScriptStep | Sequence[Call], brake: Brake | None = None, own: bool = True, **options: Any
) -> AsyncGenerator[Site]:
    """Serve agents whose model follows a script; ``boss`` may do everything, ``spy`` is of another organisation."""
    runner = AgentRunner(ScriptedModel(*moves)) if moves else None
    governance = Governance(own_approvals=own)
    capabilities = [till, (brake or Brake()).capability()]
    async with site(*capabilities, generator=runner, governance=governance, **options) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        await server.key("plain", scopes=[scope for scope in ALL_SCOPES if scope != "capset:approve"])
        yield server


USES: Final = ("kit", "till", "brake", "session_file_system", "stateless_todo_list")


async def session_of(server: Site, user: str = "boss") -> str:
    """Make a session of an agent with everything."""
    async with server.client(user) as client:
        return await make_session(client, *USES)


class Visitor:
    """Somebody who has signed in, without a browser."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.token = ""

    async def get(self, path: str, *, fragment: bool = False, **options: Any) -> httpx2.Response:
        """Get a page, or a part of one."""
        headers = {"hx-request": "true"} if fragment else {}
        answer = await self.client.get(path, headers=headers, **options)
        if (match := re.search(r'data-token="([0-9a-f]{64})"', answer.text)) is not None:
            self.token = match[1]
        return answer

    async def post(
        self, path: str, fields: Mapping[str, str] | None = None, *, fragment: bool = False, **form: str
    ) -> httpx2.Response:
        """Send a form as the pages of the sign-in do."""
        headers = {"hx-request": "true"} if fragment else {}
        return await self.client.post(path, data={"token": self.token, **form, **(fields or {})}, headers=headers)

    async def put(self, path: str, content: bytes, **headers: str) -> httpx2.Response:
        """Upload a file as the script of the page does."""
        sent_headers = {"x-capset-token": self.token, "hx-request": "true", **headers}
        return await self.client.put(path, content=content, headers=sent_headers)


@asynccontextmanager
async def visitor(server: Site, user: str = "boss") -> AsyncGenerator[Visitor]:
    """Sign somebody in."""
    async with server.client(None, follow_redirects=True) as client:
        answer = await client.post("/login", data={"key": server.keys[user], "next": "/sessions"})
        assert answer.url.path == "/sessions", answer.text
        guest = Visitor(client)
        await guest.get("/sessions")
        yield guest


async def until_state(server: Site, session: str, *kinds: str, user: str = "boss") -> list[str]:
    """Wait until the last event of a session is of one of these types, and return the types of all."""
    async with server.client(user) as client:

        async def ended() -> list[str]:
            answer = await client.get(f"/v1/sessions/{session}/events", params={"follow": "false"})
            types: list[str] = re.findall(r"^event: (.+)$", answer.text, re.MULTILINE)
            return types if types and types[-1] in kinds else []

        return await until(ended, f"the last event to be {' or '.join(kinds)}")

"""The server of the demo: on a free local port, on the demo's own database, for as long as it is needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel

from capset import Capability, Context, Progress, Reply, tool
from capset.definitions.principals import Principal
from capset.errors import counted
from capset.kernel.blocks.generation import GeneratorRunner
from capset.kernel.registry import Registry
from capset_cli.common.configuration import make_kernel
from capset_server.auth.keys import create_key

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration

CLIENT = Principal("client", permissions={"session_files:read", "session_files:write"}, org="demo")
EDITOR = Principal("editor", org="demo")
CLERK = Principal("clerk", permissions={"orders:refund"})

STEPS: Final = 4
"""The number of progress reports of the tool."""


@dataclass(frozen=True, slots=True)
class DemoServer:
    """The server's address, a key for everything, another principal's that may approve, and the key of a clerk."""

    url: str
    key: str
    editor: str
    clerk: str


@asynccontextmanager
async def serving(
    folder: Path, configuration: Configuration | None = None, generator: GeneratorRunner | None = None
) -> AsyncGenerator[DemoServer]:
    """Serve the installed capabilities and the demo's own, from the database in ``folder``; or a configuration.

    ``generator`` runs agents.
    """
    # Imported here because the demo also works without the server's dependencies.
    from capset_server.app import open_app
    from capset_server.http.request_rules import AllowedHosts
    from capset_server.http.uvicorn_server import bind, make_server
    from capset_server.service import Service

    registry = Registry.of([*Registry.installed().capabilities.values(), survey, press])
    if configuration is not None:
        registry = configuration.within(Registry.installed())
    started = asyncio.Event()
    with bind("127.0.0.1", 0) as bound, (folder / "server.log").open("ab") as log:
        async with make_kernel(store_url(folder), configuration, generator=generator) as kernel:
            _, key = await create_key(kernel, "demo", CLIENT, scopes=["capset:admin"])
            _, editor = await create_key(kernel, "editor", EDITOR, scopes=["capset:approve"])
            _, clerk = await create_key(kernel, "clerk", CLERK, scopes=["capset:read", "capset:call"])
            service = Service(kernel, registry)
            async with open_app(service, AllowedHosts.of("127.0.0.1"), log=log) as app:
                server = make_server(app, service.limits, started.set)
                task = asyncio.create_task(server.serve(sockets=[bound]))
                try:
                    await started.wait()
                    yield DemoServer(f"http://127.0.0.1:{bound.getsockname()[1]}", key, editor, clerk)
                finally:
                    server.should_exit = True
                    await task


def store_url(folder: Path) -> str:
    """Return the URL of the demo's database."""
    return f"sqlite:///{folder / 'capset.db'}"


class Survey(BaseModel):
    """What was counted: files, their words, and the most frequent of those with more than four letters."""

    files: int
    words: int
    frequent: list[str]


@tool(effect="read", permissions={"session_files:read"})
async def count_words(ctx: Context, path: str = "/") -> AsyncIterator[Progress | Reply[Survey]]:
    """Count the words of every text file below a directory."""
    files = [file for file in await ctx.files.list(path, recursive=True) if not file.is_directory]
    words: Counter[str] = Counter()
    for position, file in enumerate(files):
        if position % (len(files) // STEPS + 1) == 0:
            yield Progress(position / len(files), f"{position} of {counted(len(files), 'file')}")
        _, content = await ctx.files.read(file.path)
        words.update(content.decode(errors="replace").lower().split())
    frequent = [word for word, _ in words.most_common() if word.isalpha() and len(word) > 4][:5]
    yield Reply(Survey(files=len(files), words=words.total(), frequent=frequent))


survey: Final = Capability("survey", description="Counts words.", tools=[count_words])


@tool(effect="external", approval="ask")
async def publish(title: str) -> str:
    """Publish something; somebody else has to approve it."""
    return f"published: {title}"


@tool(effect="write", limits="2/1m")
async def announce(title: str) -> str:
    """Announce something, twice a minute at most."""
    return f"announced: {title}"


press: Final = Capability("press", description="Publishes and announces.", tools=[publish, announce])

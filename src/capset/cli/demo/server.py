"""The server of the demo: on a free local port, on the demo's own database, for as long as it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from capset.cli.demo.press import press
from capset.cli.demo.survey import survey
from capset.definitions.principals import Principal
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.server.auth.keys import create_key

CLIENT = Principal("client", permissions={"session_files:read", "session_files:write"}, org="demo")
EDITOR = Principal("editor", org="demo")


@dataclass(frozen=True, slots=True)
class DemoServer:
    """The server's address, a key for everything, and another principal's key that may approve."""

    url: str
    key: str
    editor: str


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[DemoServer]:
    """Serve what is installed and the demo's own capabilities, from the database in ``folder``."""
    # Imported here because the demo also works without the server's dependencies.
    from capset.server.app import open_app
    from capset.server.http.middleware import AllowedHosts
    from capset.server.http.uvicorn_server import bind, make_server
    from capset.server.service import Service

    registry = Registry.of([*Registry.installed().capabilities.values(), survey, press])
    started = asyncio.Event()
    with bind("127.0.0.1", 0) as bound, (folder / "server.log").open("ab") as log:
        async with Kernel(store=store_of(folder)) as kernel:
            _, key = await create_key(kernel, "demo", CLIENT, scopes=["capset:admin"])
            _, editor = await create_key(kernel, "editor", EDITOR, scopes=["capset:approve"])
            service = Service(kernel, registry)
            async with open_app(service, AllowedHosts.of("127.0.0.1"), log=log) as app:
                server = make_server(app, service.limits, started.set)
                task = asyncio.create_task(server.serve(sockets=[bound]))
                try:
                    await started.wait()
                    yield DemoServer(f"http://127.0.0.1:{bound.getsockname()[1]}", key, editor)
                finally:
                    server.should_exit = True
                    await task


def store_of(folder: Path) -> str:
    """Return the URL of the demo's database."""
    return f"sqlite:///{folder / 'capset.db'}"

"""One server for all tests of the client, with a workshop of tools, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from capset_server.client import AgentInput, Client
from tests.helpers.cli.fixtures import WORKSHOP
from tests.helpers.cli.support import install
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.real_time import service_ports

FILES = ("session_files:read", "session_files:write")


@dataclass(frozen=True, slots=True)
class Served:
    """A server, and the keys of somebody who may do everything and of somebody who may only call."""

    server: Running
    boss: str
    ada: str

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.url


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    folder = tmp_path_factory.mktemp("served")
    packages = folder / "packages"
    packages.mkdir()
    agents = {"foreman": "shop:foreman"}
    install(packages, "shop", WORKSHOP, capabilities={"workshop": "shop:workshop"}, agents=agents)
    with running(folder, PYTHONPATH=str(packages)) as server:
        service_ports.add(urlsplit(server.url).port)
        yield Served(
            server,
            boss=server.key("boss", grant=FILES, scopes=EVERYTHING),
            ada=server.key("ada", scopes=["capset:call"]),
        )


@pytest.fixture
async def boss(served: Served) -> AsyncGenerator[Client]:
    """Give the client of somebody who may do everything."""
    async with Client(served.url, key=served.boss) as client:
        yield client


@pytest.fixture
async def session(boss: Client) -> str:
    """Give the id of a new session with the workshop and files."""
    agent = await boss.agents.create(AgentInput(name="helper", capabilities=["workshop", "session_file_system"]))
    return (await boss.sessions.create(agent.id)).id

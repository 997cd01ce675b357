"""Every page with 500 capabilities, 10,000 agents, 5,000 open requests and 1,000,000 records (spec 9, N34).

``make nightly`` asks a small one, with a bound that any machine keeps; ``make lab-scale`` the large one, with that of
the specification.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import httpx2
import pytest
from pydantic import BaseModel, Field

from capset import Capability, tool
from capset.fingerprint.canonical import PROFILE, canonical, digest
from capset.fingerprint.hashes import member_payload
from capset.stores.base import PayloadRow
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_cli.serve.process import tune_garbage_collection
from capset_server.console.app import PAGE_ROUTES
from capset_testing.store_suite.support import NOW, entry
from tests.databases import Server
from tests.helpers.connect.vault.calendars import vault_of
from tests.helpers.server.approving import asked, till
from tests.helpers.server.console.auditing import auditing, called, reading
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.rest.wholesale import wholesale
from tests.helpers.server.support import Site, call
from tests.helpers.stores.scale.filling import FULL, LARGE, connected_to, fill, sizes
from tests.helpers.stores.sql.support import opened_at

SECONDS: Final = 0.1
TIMES: Final = 20 if sizes() is FULL else 5
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_PROMPT: Final = {"kind": "prompt", "systemPrompt": "Keep tidy notes.", "instructions": []}
_DAY: Final = "since=2026-01-01T00:00&until=2026-01-02T00:00"

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.nightly, pytest.mark.realtime]


class Folder(BaseModel):
    """Where a tool works, and how."""

    path: Annotated[str, Field(description="The folder.")] = "/work"
    keep: Annotated[int, Field(ge=1, le=100, description="How many versions are kept.")] = 3


def capabilities() -> list[Capability]:
    """Return 500 capabilities of two tools each; every fifth needs two others."""
    folders: list[Capability] = []
    for number in range(500):

        @tool(name=f"read_{number}", effect="read")
        async def read(path: str, lines: int = 100) -> str:
            """Read the beginning of a file."""
            return path * lines

        @tool(name=f"write_{number}", effect="write", permissions={f"folder:f{number % 20}"})
        async def write(path: str, folder: Folder) -> str:
            """Write a file into a folder."""
            return path + folder.path

        folders.append(
            Capability(
                f"folder_{number:03}",
                title=f"Folder {number}",
                description="Reads and writes the files of one folder.",
                category=f"category {number % 12}",
                instructions="Read a file before you write it.",
                tools=[read, write],
                uses=folders[-2:] if number % 5 == 4 else (),
            )
        )
    return folders


@dataclass
class Large:
    """A server with a large database, and what stands for the parameters of its pages' paths."""

    here: Site
    known: str
    named: dict[str, str] = field(default_factory=dict[str, str])
    agent: dict[str, Any] = field(default_factory=dict[str, Any])

    async def prepare(self) -> None:
        """Make an agent, a session with calls and a file, and an approval request."""
        await self.here.key("chief", org=LARGE, scopes=["capset:admin"])
        async with self.here.client("chief") as client:
            uses = [f"folder_{number:03}" for number in range(10)]
            uses += ["till", "session_file_system"]
            entry = {"name": "clerk", "system_prompt": "Keep tidy notes.", "capabilities": uses}
            self.agent = (await client.post("/v1/agents", json=entry)).json()
            changed = {"system_prompt": "Keep tidy files."}
            where, tag = f"/v1/agents/{self.agent['id']}", {"If-Match": f'"{self.agent["version"]}"'}
            done = await client.patch(where, json=changed, headers=tag)
            assert done.is_success, done.text
            session = (await client.post("/v1/sessions", json={"agent_id": self.agent["id"]})).json()["id"]
            put = await client.put(f"/v1/sessions/{session}/files/a.txt", content=b"Two\nlines\n")
            assert put.is_success, put.text
            for number in range(20):
                await call(client, session, f"read_{number % 10}", path="/a.txt")
            key = (await client.get("/v1/keys", params={"limit": 1})).json()["items"][0]["id"]
            turn = (await send(client, session, "Tidy up.")).json()["turn"]
            await read_until(client, session, "turn.ended")
            approval = (await client.get(f"/v1/approvals/{await asked(client, session)}")).json()
            self.named = {
                "agents/id": self.agent["id"],
                "sessions/id": session,
                "runs/id": turn,
                "approvals/id": approval["id"],
                "round": str(approval["round"]),
                "audit/id": "call-00000077",
                "capabilities/id": "folder_499",
                "keys/id": key,
                "servers/name": "shop",
                "connections/name": "calendar",
                "fingerprints/hash": self.known,
                "fingerprints/before": self.agent["static_hash"],
                "fingerprints/after": done.json()["static_hash"],
                "principals/kind": "user",
                "principals/id": "user-77",
                "path": "a.txt",
                "ending": "yaml",
                "tool": "read_1",
                "agent": self.agent["id"],
            }

    def paths(self) -> list[str]:
        """Return a path to every page, and to those that have filters, with many of them."""
        page_paths: list[str] = []
        for route in (page_route for page_route in PAGE_ROUTES if page_route.method == "GET"):
            if route.path in LEFT_OUT:
                continue
            noun = route.path.split("/")[1]
            page_paths.append(
                _PARAMETER.sub(lambda part: self.named.get(f"{noun}/{part[1]}") or self.named[part[1]], route.path)  # noqa: B023 - called at once
            )
        standing = f"/approvals/{self.named['approvals/id']}/standing?round={self.named['round']}"
        return [*page_paths, *FILTERED, standing]

    def previews(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the forms that show what would come of them, each with its path."""
        typed = {"name": "clerk", "system_prompt": "Keep tidy files."}
        edited: dict[str, Any] = {f"c{number}-id": f"folder_{number:03}" for number in range(10)}
        edited["capability"] = [f"c{number}" for number in range(10)]
        return [
            ("/agents/new", {"do": "preview", **typed, **edited}),
            (f"/agents/{self.agent['id']}/edit", {"do": "preview", **typed, **edited}),
            ("/agents/new", {"do": "preview", "search": "folder", **typed}),
            ("/capabilities/folder_499", {}),
        ]


LEFT_OUT: Final = {
    "/sessions/{id}/events": "a stream, which ends with its session",
    "/sessions/{id}/events/{seq}": "part of a conversation",
    "/sessions/{id}/turns/{turn}": "part of a conversation",
    "/sessions/{id}/approvals/{approval}": "part of a conversation",
    "/servers/agents/{agent}/{name}": "as a server of the configuration",
    "/servers/agents/{agent}/{name}/tools": "as a server of the configuration",
    "/approvals/{id}/files/{number}": "as long as the file",
    "/approvals/{id}/standing": "asked below with what an open page asks",
    "/connections/callback": "completes what a provider has granted",
    "/audit/export": "as long as what is exported",
    "/organisations": "for administrators of the server, who are asked below",
    "/fingerprints/find": "leads to the page of a fingerprint",
}
"""The routes that are not measured, and why."""
OPERATED: Final = (
    *("/organisations", "/limits", "/servers", "/servers/shop", "/agents", "/sessions", "/approvals", "/keys"),
    *("/runs", "/principals", "/audit", "/audit/timeline", "/audit/charts", "/fingerprints", "/people", "/deliveries"),
)
"""Pages that an administrator of the server sees, with what all organisations have."""
FILTERED: Final = (
    *("/agents?text=agent", "/agents?text=t%2077&status=archived"),
    *("/capabilities?text=files", "/capabilities?category=category%205", "/capabilities?permission=folder:f5"),
    *(
        *("/sessions/new?text=gent%207", "/sessions?text=agent", "/audit?text=ool_7", "/audit?text=nothing&kind=all"),
        "/keys?principal=user-77",
        "/principals?text=user-77",
    ),
    *("/approvals?tool=save", "/approvals?principal=user-77", "/approvals?status=all"),
    *("/audit?tool=tool_7", "/audit?principal=user-77&outcome=denied", "/audit?outcome=denied", f"/audit?{_DAY}"),
    *("/audit?session=session-00000100", "/audit?agent=agent%2020&code=permission_denied", "/audit?cursor=15000"),
    *("/audit?approval=approval-00000500", "/audit?tool=nothing&kind=all", "/audit?principal=nobody&outcome=failed"),
    *("/runs?state=failed", "/runs?principal=user-77", "/runs?agent=agent%207&since=2026-01-01T00:00"),
    *("/audit?correlation=c-00000077", f"/audit/timeline?{_DAY}", f"/audit/charts?{_DAY}"),
    f"/audit/charts?{_DAY}&tool=tool_7",
)


@asynccontextmanager
async def large(url: str) -> AsyncGenerator[Large]:
    """Serve a large database."""
    tool = member_payload(till.every_tool[0])
    prompt_hash, tool_hash = digest(_PROMPT), digest(tool)
    async with opened_at(url) as store:
        await store.lineage.record_payloads(
            [
                PayloadRow(LARGE, prompt_hash, PROFILE, "prompt", canonical(_PROMPT).decode()),
                PayloadRow(LARGE, tool_hash, PROFILE, "tool", canonical(tool).decode()),
            ],
            named_at="2026-01-01T00:00:00.000000Z",
        )
    fill(url, sizes())
    with connected_to(url) as connection:
        connection.execute("DELETE FROM loose_parts")  # or the pages would be asked beside the sweep of 10,000
        connection.execute(f"UPDATE links SET prompt_hash = '{prompt_hash}'")
        connection.execute(f"UPDATE approvals SET tool_hash = '{tool_hash}'")
        connection.execute("VACUUM")
    steps = [Call(f"read_{number % 10}", path="/a.txt") for number in range(20)]
    runner = AgentRunner(ScriptedModel(*steps, "Tidy."))
    async with wholesale(url, [till, *capabilities()], runner=runner, vault=vault_of()) as shop:
        large_site = Large(shop.here, prompt_hash)
        await large_site.prepare()
        with settled():
            yield large_site


@contextmanager
def settled() -> Generator[None]:
    """Set this process's garbage collector as that of a process that serves."""
    before = gc.get_threshold()
    tune_garbage_collection()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def took(client: httpx2.AsyncClient, path: str, form: Mapping[str, Any] | None = None) -> list[float]:
    """Return how many seconds each of some requests for a page took, fewest first; ``form`` is sent by ``POST``."""
    durations: list[float] = []
    for _ in range(TIMES):
        start = time.perf_counter()
        page = await client.request("GET" if form is None else "POST", path, data=form, follow_redirects=False)
        durations.append(time.perf_counter() - start)
        assert page.status_code in (200, 303), (path, page.text[:2_000])
    return sorted(durations)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """Give the URL of an empty database on each engine."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/x.db"
        return
    server: Server = request.getfixturevalue("postgres")
    yield server.empty("pages_scale")
    server.run("DROP DATABASE pages_scale WITH (FORCE)")


@pytest.mark.spec("N16", "N17", "N34")
async def test_no_page_takes_long_with_much_in_the_database(url: str) -> None:
    slow: dict[str, float] = {}
    max_seconds = SECONDS * (1 if sizes() is FULL else 20)
    async with large(url) as large_site:
        requests = {"chief": [*((path, None) for path in large_site.paths()), *large_site.previews()]}
        requests["operator"] = [(path, None) for path in OPERATED]
        for user, pages in requests.items():
            async with reading(large_site.here, user) as client:
                for path, form in pages:
                    await took(client, path, form)
                    seconds = await took(client, path, form)
                    p95 = seconds[int(TIMES * 0.95) - 1]
                    print(f"{path[:70]:70} fastest {seconds[0] * 1000:6.1f} ms  p95 {p95 * 1000:6.1f} ms")
                    if p95 > max_seconds:
                        slow[f"{user} {path}"] = p95
    assert slow == {}


@pytest.mark.spec("N16")
async def test_a_part_of_the_chain_is_verified_at_once(tmp_path: Path) -> None:
    async with auditing(store=f"sqlite:///{tmp_path}/x.db") as shop:
        for number in range(4_500):
            shop.kernel.audit.append(entry(f"e{number}", org="acme", act=None, time=NOW))
        await called(shop, "one")
        async with reading(shop) as client:
            start = time.perf_counter()
            page = await client.post("/audit/verify")
            print(f"a part of the chain: {(time.perf_counter() - start) * 1000:.1f} ms")
            assert ">Continue</button>" in page.text

"""What a principal owns, with its mark, and the paths that read it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

import pytest

from capset.stores.base import AuditQuery
from capset_server.console.app import PAGE_ROUTES
from capset_server.console.page import PageRoute
from tests.helpers.server.approving import till
from tests.helpers.server.support import Site, call, site

MARK: Final = "zanzibar"
"""Stands in all that the one organisation has, and in nothing else."""
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
READS: Final = [route for route in PAGE_ROUTES if route.method == "GET"]


@dataclass
class Owned:
    """What one organisation has: the values of the parameters in paths, by the noun at the beginning of the path."""

    site: Site
    agent: str
    session: str
    approval: str
    record: str
    hash: str
    key: str

    def path_of(self, route: PageRoute) -> str:
        """Return the path of a route to what the organisation has."""
        noun = route.path.split("/")[1]
        first = {
            "agents": self.agent,
            "approvals": self.approval,
            "audit": self.record,
            "capabilities": "session_file_system",
            "fingerprints": self.hash,
            "keys": self.key,
            "sessions": self.session,
        }
        named = {"approval": self.approval, "agent": self.agent, "path": f"{MARK}.txt", "hash": self.hash}
        named |= {"seq": "1", "turn": MARK, "name": MARK, "ending": "yaml", "key": self.key, "before": self.hash}
        return _PARAMETER.sub(lambda match: named.get(match[1], first.get(noun, MARK)), route.path)


@pytest.fixture(scope="module")
async def owned() -> AsyncGenerator[Owned]:
    """Give a server where ``acme`` has one of everything, and ``other`` has nothing but an administrator."""
    async with site(till) as server:
        await server.key("caller", principal=MARK, scopes=["capset:call", "capset:write"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        async with server.client("caller") as client:
            entry = {"name": f"agent_{MARK}", "system_prompt": MARK, "capabilities": ["till", "session_file_system"]}
            agent = (await client.post("/v1/agents", json=entry)).json()["id"]
            session = (await client.post("/v1/sessions", json={"agent_id": agent})).json()["id"]
            path = f"/v1/sessions/{session}/files/{MARK}.txt"
            assert (await client.put(path, content=MARK.encode())).is_success
            approval = (await call(client, session, "pay", to=MARK)).json()["approval"]
            await call(client, session, "list_directory")
        record = (await server.kernel.audit.query(AuditQuery(org="acme", limit=1))).items[0]
        (key,) = [row for row in await server.kernel.store.keys.list() if row.name == "caller"]
        yield Owned(server, agent, session, approval, record.id, record.runtime_hash or "", key.id)

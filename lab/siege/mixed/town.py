"""Who makes the mixed load: tenants with sessions that come and go, and their sign-ins to the console."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import urlencode

from lab.siege.connection import request
from lab.siege.pace import Connections
from lab.siege.tenants import Tenant, expect, make_tenants, post

TENANTS, ORGS = 6, 3
SESSIONS = 8
"""Sessions of each tenant; a new one takes the place of the oldest, which is deleted a good while later."""
KEPT = 20
"""How many sessions of a tenant wait for their deletion, for calls under way in them to end."""
FILES = 16


@dataclass
class Household:
    """A tenant, the key of one who may approve what it asks for, its sign-in to the console, and its sessions."""

    tenant: Tenant
    approver: str
    cookie: str
    sessions: deque[str] = field(default_factory=deque[str])
    retired: deque[str] = field(default_factory=deque[str])


class Town:
    """The tenants of one server, and the connections over which they ask."""

    def __init__(self, connections: Connections, households: list[Household]) -> None:
        self.connections = connections
        self._turns = itertools.cycle(households)
        self._numbers = itertools.count()

    @classmethod
    async def of(cls, port: int, admin: str, approvers: Sequence[str]) -> Town:
        """Make the tenants and their sessions. ``approvers`` are keys of one approver of each organisation.

        Who has made the key of a tenant cannot approve what it asks for, with no other key that it has made either.
        """
        connections = Connections(port)
        tenants = await make_tenants(connections, admin, TENANTS, orgs=ORGS)
        households = [
            Household(tenant, approvers[number % ORGS], signed_in(port, tenant.key))
            for number, tenant in enumerate(tenants)
        ]
        town = cls(connections, households)
        for household in households:
            household.sessions.extend([await town.open_session(household) for _ in range(SESSIONS)])
        return town

    def next(self) -> tuple[Household, str, int]:
        """Return the next household in turn, one of its sessions, and a number that nobody else has."""
        household, number = next(self._turns), next(self._numbers)
        return household, household.sessions[number // TENANTS % len(household.sessions)], number

    async def open_session(self, household: Household) -> str:
        """Create a session."""
        http_request = post("/v1/sessions", household.tenant.key, {"agent_id": household.tenant.agent})
        return expect(await self.connections.ask(http_request), 201)["id"]

    async def delete_session(self, household: Household, session: str) -> None:
        """Delete a session with all that it has."""
        expect(await self.connections.ask(request("DELETE", f"/v1/sessions/{session}", household.tenant.key)), 204)


def signed_in(port: int, key: str) -> str:
    """Sign in to the console, and return the cookie."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        form = {"content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", urlencode({"key": key, "next": "/sessions"}), form)
        answer = connection.getresponse()
        answer.read()
        cookie = answer.getheader("set-cookie")
    finally:
        connection.close()
    if answer.status != 303 or cookie is None:
        raise RuntimeError(f"the console answered a sign-in with {answer.status}, not with 303 and a cookie")
    return cookie.partition(";")[0]

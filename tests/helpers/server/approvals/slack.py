"""Approvals that Slack tells of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.helpers.connect.notifications.receiving import Secrets, paying
from tests.helpers.connect.notifications.slack_town import (
    SECRETS,
    SlackTown,
    slack_town,
)
from tests.helpers.server.support import ALL_SCOPES, Site

ADMIN = (*ALL_SCOPES, "capset:admin")
BEA = {"team": "T1", "user": "U1", "principal": "bea"}


@asynccontextmanager
async def chatting(**options: Any) -> AsyncGenerator[tuple[SlackTown, Site, httpx2.AsyncClient, str]]:
    """Serve the till with a conversation in Slack in which bea may decide, and yield ada's client and session."""
    async with slack_town() as town:
        channel = town.channel(**options.pop("channel", {}))
        async with paying(channel, secrets=Secrets(**SECRETS), **options) as (server, client, session):
            await server.key("root", scopes=ADMIN, permissions=())
            async with server.client("root") as root:
                assert (await root.post("/v1/people", json=BEA)).status_code == 201
            yield town, server, client, session

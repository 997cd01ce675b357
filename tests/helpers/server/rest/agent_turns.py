"""Events of a turn, read up to one of them."""

from __future__ import annotations

import httpx2

from tests.helpers.server.rest.turns import events
from tests.helpers.server.sse import Event
from tests.waiting import until


async def read_until(client: httpx2.AsyncClient, session: str, *kinds: str) -> list[Event]:
    """Return the events of a session once its last one is of one of these types."""

    async def ended() -> list[Event]:
        so_far = await events(client, session)
        return so_far if so_far and so_far[-1].type in kinds else []

    return await until(ended, f"the last event to be {' or '.join(kinds)}")

"""MCP clients are shown the page where their user connects, and go on afterwards (spec 11, V20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from capset import Principal
from tests.helpers.connect.vault.calendars import secretary, vault_of
from tests.helpers.server.mcp.support import PREFIX
from tests.helpers.server.mcp.tasking import TASKS, Tasker, text_in
from tests.helpers.server.support import Site, site
from tests.waiting import moment, until

pytestmark = pytest.mark.spec("V20")
PUBLIC = "https://tools.example.com/capset"
PAGE = f"{PUBLIC}/connections/calendar"
ADA, KEY = Principal("ada", org="acme"), "the-key-of-ada"


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    async with site(agents=[secretary], vault=vault_of(), public_url=PUBLIC) as server:
        yield server


def caller(server: Site, capabilities: dict[str, Any]) -> Tasker:
    return Tasker(f"{server.url}/mcp/agents/secretary", server.keys["ada"], capabilities)


async def connect(server: Site) -> None:
    assert server.service.connections is not None
    await server.service.connections.enter_key(ADA, "calendar", KEY)


async def test_a_client_is_led_to_the_page_and_goes_on_when_its_user_has_connected(here: Site) -> None:
    ada = caller(here, {"elicitation": {"url": {}}})
    first = await ada.call("meetings", day="Monday")
    (request,) = first["inputRequests"].values()
    assert (request["params"]["mode"], request["params"]["url"]) == ("url", PAGE)
    more = {"inputResponses": {name: {"action": "accept"} for name in first["inputRequests"]}}
    waiting = asyncio.create_task(
        ada.call("meetings", more={**more, "requestState": first["requestState"]}, day="Monday")
    )
    await moment(0.05)
    assert not waiting.done()
    await connect(here)
    assert (await waiting)["content"][0]["text"] == f"Monday: {len(KEY)}"


async def test_a_client_without_pages_reads_where_to_connect(here: Site) -> None:
    ada = caller(here, {})
    refused = await ada.call("meetings", day="Monday")
    assert refused["isError"] is True
    assert f"It is connected at {PAGE}" in refused["content"][0]["text"]
    await connect(here)
    assert (await ada.call("meetings", day="Monday"))["content"][0]["text"] == f"Monday: {len(KEY)}"


async def test_a_task_waits_for_the_connection(here: Site) -> None:
    ada = caller(here, {"extensions": {TASKS: {}}})
    task = await ada.call("meetings", day="Monday")
    assert task["resultType"] == "task"
    assert f"It is connected at {PAGE}" in task["statusMessage"]
    assert task["_meta"][f"{PREFIX}approval_url"] == PAGE
    await connect(here)

    async def ended() -> bool:
        return (await ada.get(task["taskId"]))["status"] != "working"

    await until(ended, "the task to end")
    assert text_in(await ada.get(task["taskId"])) == f"Monday: {len(KEY)}"

"""Lists end after about a megabyte, whatever sizes their items have (spec 5, P36)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base import LinkRow, SessionRow
from capset.wire.pages import PAGE_BYTES
from capset_server.client import Client
from capset_testing.store_suite.support import approval_row
from tests.helpers.kernel.fixtures import store
from tests.helpers.server.support import Site, make_agent, make_session, site

__all__ = ["store"]

KIB = 1024
MARGIN = 64 * KIB
"""What a page's own members, and spaces between items, may add."""


@pytest.fixture
async def here(store: str) -> AsyncGenerator[Site]:
    """Give a server on this store."""
    async with site(store=store) as running_server:
        yield running_server


async def pages_of(client: httpx2.AsyncClient, path: str, **filters: Any) -> list[list[dict[str, Any]]]:
    """Return the items of every page of a list, each of which must be small."""
    pages: list[list[dict[str, Any]]] = []
    cursor: dict[str, str] = {}
    while True:
        response = await client.get(path, params={"limit": 200, **filters, **cursor})
        assert response.status_code == 200, response.text
        page = response.json()
        pages.append(page["items"])
        largest = max((len(json.dumps(entry).encode()) for entry in page["items"]), default=0)
        assert len(response.content) <= max(PAGE_BYTES, largest) + MARGIN
        if page["next"] is None:
            return pages
        assert page["items"], "a page with a next one has an item"
        cursor = {"cursor": page["next"]}


def link(number: int, session: str, size: int) -> LinkRow:
    hashes = ("a" * 64, "b" * 64, "c" * 64, None)
    metadata = json.dumps({"number": number, "text": "x" * size})
    at = "2026-01-01T00:00:00.000000Z"
    return LinkRow(f"0189{number:04}", "acme", session, "bot", "bot", *hashes, "jcs-1", (), metadata, at)


@pytest.mark.spec("P36", "T37")
async def test_a_page_of_links_ends_after_a_megabyte_and_the_next_ones_have_the_rest(here: Site) -> None:
    """As an earlier version stored them, which took metadata of any size."""
    sizes = [16 * KIB] * 200 + [600 * KIB, 3 * KIB * KIB, 10, 10]
    async with here.client() as ada:
        session = await make_session(ada, "kit")
        for number, size in enumerate(sizes):
            await here.kernel.store.lineage.record_turn(link(number, session, size))
        pages = await pages_of(ada, "/v1/links", session_id=session)
        numbers = [entry["metadata"]["number"] for page in pages for entry in page]
        assert numbers == list(reversed(range(len(sizes))))
        assert 5 <= len(pages) <= 8
        async with Client(here.url, key=here.keys["ada"]) as client:
            client_numbers = [entry.metadata["number"] async for entry in client.links.all(session_id=session)]
        assert client_numbers == numbers
        first = await ada.get("/v1/links", params={"session_id": session, "limit": 2})
        assert len(first.json()["items"]) == 2


@pytest.mark.nightly
@pytest.mark.spec("P36")
async def test_every_list_of_what_clients_sized_ends_after_a_megabyte(here: Site) -> None:
    async with here.client() as ada:
        agent = await make_agent(ada, "kit", system_prompt="p" * 150_000)
        for number in range(12):
            body = {"description": str(number), "static_context": {"text": "x" * 100_000}}
            changed = await ada.patch(f"/v1/agents/{agent['id']}", json=body)
            assert changed.status_code == 200, changed.text
        for _ in range(9):
            await make_agent(ada, "kit", system_prompt="p" * 190_000)
        row = await here.kernel.store.sessions.get(await make_session(ada, "kit"))
        assert row is not None
        for number in range(30):
            context = json.dumps({"text": "x" * 60 * KIB})
            definition = json.dumps({"name": "helper", "system_prompt": "p" * 100_000})
            session_row = replace(row, id=f"0189{number:04}", context=context, definition=definition)
            await here.kernel.store.sessions.create(session_row)
        for number in range(12):
            await here.kernel.store.approvals.open(request(number, row), max_pending=100)
        for path, count, at_least in (
            ("/v1/sessions", 31, 2),
            ("/v1/agents", 12, 2),
            (f"/v1/agents/{agent['id']}/versions", 13, 1),
            ("/v1/approvals", 12, 3),
        ):
            pages = await pages_of(ada, path)
            ids = [json.dumps(entry.get("id", entry.get("version"))) for page in pages for entry in page]
            assert len(set(ids)) == len(ids) == count, path
            assert len(pages) >= at_least, path


def request(number: int, session: SessionRow) -> ApprovalRow:
    arguments = json.dumps({"text": "x" * 300 * KIB})
    row = approval_row(f"0189{number:04}", f"{number:064}")
    return replace(row, arguments=arguments, session=session.id, expires_at="9999-01-01T00:00:00.000000Z")


@pytest.mark.spec("P36")
async def test_a_folder_is_listed_in_pages(here: Site) -> None:
    async with here.client() as ada:
        session = await make_session(ada)
        for folder in ("b", "a", "c"):
            for number in range(3):
                response = await ada.put(f"/v1/sessions/{session}/files/{folder}/{number}", content=b"x")
                assert response.status_code == 200, response.text
        await ada.put(f"/v1/sessions/{session}/files/0", content=b"x")
        for recursive in (False, True):
            path, params = f"/v1/sessions/{session}/files/", {"recursive": recursive}
            full_page = (await ada.get(path, params=params)).json()
            assert full_page["next"] is None
            pages = await pages_of(ada, path, **params, limit=2)
            assert [entry for page in pages for entry in page] == full_page["items"]
            assert {len(page) for page in pages} == {2, len(full_page["items"]) % 2 or 2}
        async with Client(here.url, key=here.keys["ada"]) as client:
            folder = await client.files.folder(session, recursive=True)
            assert [entry.path for entry in folder.items] == [entry["path"] for entry in full_page["items"]]


@pytest.mark.nightly
@pytest.mark.spec("P36")
async def test_of_transitions_the_last_megabyte_is_listed(here: Site) -> None:
    lineage = here.kernel.store.lineage
    async with here.client() as ada:
        session = await make_session(ada, "kit")
        for number in range(15):
            row = replace(link(number, session, 1), runtime_hash=f"{number:064}")
            await lineage.record_turn(row, reason=str(number) + "x" * 100 * KIB)
        response = await ada.get(f"/v1/sessions/{session}/transitions")
        assert len(response.content) <= PAGE_BYTES + MARGIN
        numbers = [int(transition["reason"].partition("x")[0]) for transition in response.json()["items"]]
        assert numbers == list(range(5, 15))

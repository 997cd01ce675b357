"""Masked arguments, and files that arguments name, which approvers are shown on request (spec 4, G51, G52)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Annotated, Any

import httpx2
import pytest
from pydantic import Field

from capset import Capability, Context, tool
from capset.definitions.secrets import MASK
from capset.errors import Conflict
from capset.ext import session_file
from capset_server.client import Client
from tests.helpers.server.approving import approved
from tests.helpers.server.support import Site, call, make_session, problem, site

HIDDEN = {"token": {"then": "rm -rf /srv"}}


@tool(effect="external", approval="ask", permissions={"session_files:read"})
async def send(
    ctx: Context, path: Annotated[str, Field(json_schema_extra=session_file())], options: dict[str, Any]
) -> str:
    """Send a file."""
    return (await ctx.files.read(path))[1].decode()


@pytest.fixture(scope="module")
async def office() -> AsyncGenerator[Site]:
    """Give a server where ``ada`` asks, ``boss`` of the same organisation decides, and ``spy`` is elsewhere."""
    async with site(Capability("office", tools=[send])) as server:
        await server.key("boss", scopes=["capset:approve", "capset:audit"], permissions=())
        await server.key("caller", scopes=["capset:call", "capset:write"])
        await server.key("spy", org="other", scopes=["capset:approve"])
        yield server


async def asked(client: httpx2.AsyncClient, options: dict[str, Any] | None = None) -> tuple[str, str]:
    """Ask for the sending of ``/report``; return the ids of the session and of the request."""
    session = await make_session(client, "office", "session_file_system")
    assert (await client.put(f"/v1/sessions/{session}/files/report", content=b"harmless")).is_success
    response = await call(client, session, "send", path="/report", options=options or {})
    assert response.status_code == 202, response.text
    return session, response.json()["approval"]


@pytest.mark.spec("G51", "T49")
async def test_masked_arguments_are_shown_to_those_who_decide_and_that_is_on_record(office: Site) -> None:
    async with office.client("caller") as caller, office.client("boss") as boss, office.client("spy") as spy:
        _, request = await asked(caller, HIDDEN)
        approval = (await boss.get(f"/v1/approvals/{request}")).json()
        assert (approval["masked"], approval["arguments"]["options"]) == (True, {"token": MASK})
        items = (await boss.get("/v1/approvals", params={"status": "pending"})).json()["items"]
        (pending,) = [item for item in items if item["id"] == request]
        assert (pending["masked"], pending["arguments"]) == (True, approval["arguments"])
        unmasked = (await boss.get(f"/v1/approvals/{request}/arguments")).json()
        assert unmasked["arguments"] == {"path": "/report", "options": HIDDEN}
        problem(await caller.get(f"/v1/approvals/{request}/arguments"), 403, "permission_denied")
        problem(await spy.get(f"/v1/approvals/{request}/arguments"), 404, "not_found")
        params = {"act": "approval.show"}
        (act,) = [
            act for act in (await boss.get("/v1/audit", params=params)).json()["items"] if act["approval"] == request
        ]
        assert (act["principal"], act["arguments"]["shown"]) == ("boss", "arguments")
        assert (await approved(boss, request)).json()["masked"] is False


@pytest.mark.spec("G52", "T50")
async def test_the_content_of_a_file_is_shown_as_long_as_it_is_what_the_approval_covers(office: Site) -> None:
    async with office.client("caller") as caller, office.client("boss") as boss, office.client("spy") as spy:
        session, request = await asked(caller)
        (file,) = (await boss.get(f"/v1/approvals/{request}")).json()["files"]
        digest = sha256(b"harmless").hexdigest()
        expected_file = {"argument": "path", "path": "/report", "name": "report", "size_bytes": 8, "sha256": digest}
        assert file == expected_file
        place = f"/v1/approvals/{request}/files"
        response = await boss.get(f"{place}/0")
        assert (response.content, response.headers["content-type"]) == (b"harmless", "application/octet-stream")
        assert response.headers["content-disposition"] == "attachment"
        problem(await boss.get(f"{place}/1"), 404, "not_found")
        problem(await boss.get(f"{place}/x"), 422, "invalid_arguments")
        problem(await caller.get(f"{place}/0"), 403, "permission_denied")
        problem(await spy.get(f"{place}/0"), 404, "not_found")
        await caller.put(f"/v1/sessions/{session}/files/report", content=b"the customer list")
        problem(await boss.get(f"{place}/0"), 409, "conflict")
        assert (await approved(boss, request)).is_success
        body = {"tool": "send", "arguments": {"path": "/report", "options": {}}}
        other = await caller.post(f"/v1/sessions/{session}/calls", json=body)
        assert other.status_code == 202, "the approval was for another content"
        assert other.json()["approval"] != request


@pytest.mark.spec("G51", "G52")
async def test_the_client_asks_for_both(office: Site) -> None:
    async with office.client("caller") as caller, Client(office.url, key=office.keys["boss"]) as boss:
        session, request = await asked(caller, HIDDEN)
        assert (await boss.approvals.arguments(request)).arguments["options"] == HIDDEN
        assert await boss.approvals.file(request, 0) == b"harmless"
        await caller.put(f"/v1/sessions/{session}/files/report", content=b"else")
        with pytest.raises(Conflict):
            await boss.approvals.file(request, 0)

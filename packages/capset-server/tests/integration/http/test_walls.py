"""Nobody reaches what belongs to others: every operation, with real ids, by keys that are not their owner's."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from tests.helpers.server.support import problem
from tests.helpers.server.town import SECRET, Town, a_town, elsewhere
from tests.helpers.server.walk import ADMINISTERED, Step, steps


@pytest.fixture
async def town(tmp_path: Path) -> AsyncGenerator[Town]:
    async with a_town(tmp_path) as new_town:
        await new_town.site.key("bob")
        await new_town.site.key("eve", org="evil")
        await new_town.site.key("namesake", principal="ada", org="evil")
        await new_town.site.key("nemo", org=None)
        await new_town.site.key("homeless ada", principal="ada", org=None)
        yield new_town


@pytest.mark.realtime
@pytest.mark.spec("P14", "T20")
async def test_the_owner_gets_through_everywhere(town: Town) -> None:
    async with town.site.client() as client:
        for step in steps(town.document, town.ada):
            response = await step.take(client)
            if step.name in ("cancel_turn", "resume_turn", "rewind_session"):  # the session is in no turn
                messages = ("is not in the turn", "runs no agents", "has no messages of a turn")
                assert any(message in response.text for message in messages), (step, response.text)
            elif step.name == "get_approval_file":
                assert "has no file 0" in problem(response, 404, "not_found")["detail"]
            elif step.name == "complete_authorization":
                assert "has ended or expired" in problem(response, 403, "permission_denied")["detail"]
            elif step.name == "authorize_connection":
                assert "public URL is not set" in problem(response, 409, "conflict")["detail"]
            elif step.name == "get_log_key":
                assert "has no checkpoint key" in problem(response, 404, "not_found")["detail"]
            elif step.name in ADMINISTERED:
                problem(response, 403, "permission_denied")
            elif not step.name.startswith("mcp"):
                assert response.status_code in (200, 201, 202, 204), (step, response.text)
            else:
                assert response.status_code == (200 if step.method == "POST" else 405), (step, response.text)


@pytest.mark.realtime
@pytest.mark.spec("P14")
@pytest.mark.parametrize("user", ["eve", "namesake", "nemo", "homeless ada"])
async def test_nothing_of_another_organisation_is_there(town: Town, user: str) -> None:
    before = await town.rows()
    async with town.site.client(user) as client:
        for step in steps(town.document, town.ada):
            response = await step.take(client)
            assert SECRET not in response.text, step
            if step.of:
                await assert_as_if_there_were_none(client, step, response, town)
            else:
                assert town.ada.agent not in response.text, step
                assert town.ada.session not in response.text, step
        for path in ("/v1/audit", "/v1/sessions", "/v1/approvals"):
            assert (await client.get(path)).json()["items"] == []
        total = (await client.get("/v1/agents")).json()["total"]
    assert total == 2, "the agent that is defined in code, and the one that the walk has made"
    after, made = await town.rows(), {"agents", "agent_capabilities", "agent_versions", "data_keys", "records"}
    assert before <= after, "nothing was changed or deleted"
    background_tables = {"payloads"}  # of the definitions that the walk has named
    assert {row[0] for row in after - before} - background_tables == made, "by the walk"


@pytest.mark.spec("P14", "P16")
async def test_a_session_is_its_principals_alone(town: Town) -> None:
    before = await town.rows()
    async with town.site.client("bob") as client:
        for step in steps(town.document, town.ada):
            if step.of == "session":
                await assert_as_if_there_were_none(client, step, await step.take(client), town)
        for params in ({}, {"agent_id": town.ada.agent}):
            assert (await client.get("/v1/sessions", params=params)).json()["items"] == []
        assert (await client.get(f"/v1/agents/{town.ada.agent}")).status_code == 200, "agents are the organisation's"
        records = (await client.get("/v1/audit")).json()["items"]
        assert records[-1]["id"] == town.ada.record, "and so are records, for whoever may audit"
    after = await town.rows()
    assert before <= after
    assert {row[0] for row in after - before} == {"records"}, "that of reading the log"


@pytest.mark.spec("P12", "P14", "P16")
async def test_which_version_ran_is_known_to_its_principal_and_to_auditors(town: Town) -> None:
    """A link is the session's, whose principal sees it; of others in the organisation, those who may audit."""
    await town.site.key("carol", scopes=["capset:read", "capset:call", "capset:write"])
    await town.site.key("only ada", principal="ada", scopes=["capset:call"])
    await town.site.key("auditor", scopes=["capset:audit"])
    of_lineage = [step for step in steps(town.document, town.ada) if step.of in ("link", "envelope", "transitions")]
    assert len(of_lineage) == 5
    before, params = await town.rows(), {"session_id": town.ada.session}
    async with town.site.client("carol") as client:
        for step in of_lineage:
            await assert_as_if_there_were_none(client, step, await step.take(client), town)
        problem(await client.get("/v1/links", params=params), 404, "not_found")
    for user in ("only ada", "auditor", "bob"):
        async with town.site.client(user) as client:
            for step in of_lineage:
                assert (await step.take(client)).status_code == 200, (user, step)
            links = (await client.get("/v1/links", params=params)).json()["items"]
            assert [link["id"] for link in links] == [town.ada.link], user
    refusals = {"carol": (404, "not_found"), "auditor": (403, "permission_denied"), "bob": (404, "not_found")}
    for user, refusal in refusals.items():
        async with town.site.client(user) as client:
            problem(await client.post("/v1/links", json=params), *refusal)
    new = {row[0] for row in await town.rows() - before}
    assert new <= {"api_keys"}, "nobody has recorded anything"


async def assert_as_if_there_were_none(
    client: httpx2.AsyncClient, step: Step, response: httpx2.Response, town: Town
) -> None:
    """Check that an answer says the same of what is somebody else's as of what never was."""
    assert SECRET not in response.text, step
    refused = (403, "permission_denied") if step.name in ADMINISTERED else (404, "not_found")
    refusal = problem(response, *refused)
    path, options = elsewhere(step.path, town.ada), dict(step.options)
    for part in ("json", "params"):
        if part in options:
            options[part] = json.loads(elsewhere(json.dumps(options[part]), town.ada))
    other = problem(await client.request(step.method, path, **options), *refused)
    assert elsewhere(refusal["detail"], town.ada) == other["detail"], step
    assert refusal.keys() == other.keys()


@pytest.mark.spec("P14", "P16")
async def test_an_mcp_session_id_opens_nothing_to_others(town: Town) -> None:
    first = next(step for step in steps(town.document, town.ada) if step.name == "mcp initialize")
    async with town.site.client() as ada, town.site.client("bob") as bob:
        ticket = (await first.take(ada)).headers["mcp-session-id"]
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        headers = {**first.options["headers"], "mcp-session-id": ticket}
        assert (await ada.post(first.path, json=body, headers=headers)).status_code == 200
        assert (await bob.post(first.path, json=body, headers=headers)).status_code == 404

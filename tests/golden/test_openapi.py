"""The OpenAPI document, and a stranger who reads it and tries everything (spec 5, P6–P15)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from capset_server.app import make_api
from tests.golden.regenerate import OPENAPI, openapi
from tests.helpers.server.approving import till
from tests.helpers.server.openapi import document, explore
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import ALL_SCOPES, FILES, make_session, site

__all__ = ["document"]

CONFIG = """
seed = 20260101
suppress-health-check = ["all"]

[generation]
max-examples = 4
database = "none"

[checks]
# A precondition is looked at before the body (RFC 9110, 13.2), and no schema can say which one holds.
positive_data_acceptance.expected-statuses = ["2xx", "304", "401", "403", "404", "409", "412"]
negative_data_rejection.expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "414", "415", "422"]

# That no capability stands there twice, once as an id and once as an entry, no schema can say either.
[[operations]]
include-name = "POST /v1/agents"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "422"]
# Making texts of every length, up to 200,000 letters, takes the coverage phase half a minute; fuzzing tries it.
phases.coverage.enabled = false

# A preview says so instead of refusing it.
[[operations]]
include-name = "POST /v1/agents/preview"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "422"]
checks.negative_data_rejection.expected-statuses = ["200", "4xx"]
phases.coverage.enabled = false

[[operations]]
include-name = "POST /v1/agents/{id}/preview"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
checks.negative_data_rejection.expected-statuses = ["200", "4xx"]
phases.coverage.enabled = false

# What is deleted is archived, and can be read: it is still what sessions and records speak of.
[[operations]]
include-operation-id = ["get_agent", "list_agent_versions", "get_agent_version", "diff_agent_versions"]
checks.use_after_free.enabled = false

# An answer that goes on for ever is no use to a stranger.
[[operations]]
include-name = "GET /v1/sessions/{id}/events"
parameters = { "query.follow" = false }

# Parameters that do not go together, such as a window of too many buckets, no schema can say.
[[operations]]
include-name = ["GET /v1/audit/summary", "GET /v1/usage", "GET /v1/usage/models", "GET /v1/runs", "GET /v1/sessions",
  "POST /v1/approvals/decisions"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "422"]

# Nor what cannot be hashed of an invocation, or kept of a context.
[[operations]]
include-name = "POST /v1/sessions"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422"]

# What cannot be kept of a context, such as what looks like a secret, no schema can say.
[[operations]]
include-name = "POST /v1/links"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422"]

[[operations]]
include-name = "PATCH /v1/agents/{id}"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "412", "422"]
phases.coverage.enabled = false
"""


@pytest.mark.spec("P7")
async def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"] == "capset"
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert schema["title"], name
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


async def test_every_reference_and_every_link_leads_somewhere(document: dict[str, Any]) -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                place = document
                for part in node["$ref"].removeprefix("#/").split("/"):
                    place = place[part]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)
    operations = {
        operation["operationId"]: operation for path in document["paths"].values() for operation in path.values()
    }
    links = [
        (name, link)
        for operation in operations.values()
        for response in operation["responses"].values()
        for name, link in response.get("links", {}).items()
    ]
    assert all(name == link["operationId"] for name, link in links)
    assert {name for name, _ in links} >= {"get_agent", "create_session", "call_tool"}
    assert {name for name, _ in links} <= operations.keys()


@pytest.mark.spec("P14")
async def test_it_says_which_problems_there_are_and_what_needs_a_key(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in ("/v1/healthz", "/v1/readyz"):
                assert operation["security"] == []
                assert operation["responses"].keys() >= {"200", "403", "422", "default"}
                continue
            assert operation["security"] == [{"HTTPBearer": []}]
            responses = operation["responses"]
            assert {"401", "403", "default"} <= responses.keys(), path
            for status, response in responses.items():
                if status[0] not in "23":
                    assert "application/problem+json" in response["content"], (path, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


@pytest.mark.spec("P31")
async def test_an_id_of_what_is_installed_is_a_text(document: dict[str, Any]) -> None:
    by_id, by_entry = document["components"]["schemas"]["AgentInput"]["properties"]["capabilities"]["items"]["oneOf"]
    assert by_id == {"type": "string"}
    assert by_entry == {"$ref": "#/components/schemas/CapabilityEntry"}
    entry_id = document["components"]["schemas"]["CapabilityEntry"]["properties"]["id"]
    assert (entry_id["type"], "enum" in entry_id) == ("string", False)
    async with site(till, agents=()) as other, other.client() as client:
        assert (await client.get("/openapi.json")).json() == document, "it is the same whatever is installed"


@pytest.mark.spec("P31")
async def test_what_is_sent_needs_no_member_that_has_a_default(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas["AgentInput"]["required"] == ["name"]
    for name in ("AgentInput", "AgentPatch", "ApproveInput", "LinkInput", "CallInput", "SessionInput"):
        assert [member for member, schema in schemas[name]["properties"].items() if "default" in schema] == [], name


@pytest.mark.spec("P31")
async def test_the_problem_of_a_refused_call_is_a_problem_with_the_members_of_a_call(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    refused, problem, call = (schemas[name] for name in ("CallProblem", "Problem", "CallShape"))
    assert refused["properties"].keys() == problem["properties"].keys() | call["properties"].keys() - {
        "data",
        "structured",
        "note",
    }
    assert refused["required"] == [*problem["required"], "success", "error", "refused", *call["required"][1:]]
    assert refused["additionalProperties"] is False
    assert "additionalProperties" not in problem, "what has more members is a problem still (RFC 9457 §3.2)"
    responses = document["paths"]["/v1/sessions/{id}/calls"]["post"]["responses"]
    either = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("CallProblem", "Problem")]}
    for status in ("401", "403", "404", "409", "422", "429", "503"):
        assert responses[status]["content"] == {"application/problem+json": {"schema": either}}
    assert list(responses["202"]["content"]) == ["application/json"]


@pytest.mark.spec("P31")
async def test_it_says_where_the_server_is_below_a_path_too(document: dict[str, Any]) -> None:
    assert document["servers"] == [{"url": "/"}]

    def below(app: ASGIApp) -> ASGIApp:
        return Starlette(routes=[Mount("/tools", app)])

    async with site(around=below) as server, server.client() as client:
        api_document = (await client.get("/tools/openapi.json")).json()
        assert api_document == document | {"servers": [{"url": "/tools"}]}
        assert (await client.get(f"{api_document['servers'][0]['url']}/v1/agents")).status_code == 200


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.spec("P6", "P7", "P8", "P9", "P14", "P15")
async def test_a_stranger_who_tries_everything_finds_what_was_described(tmp_path: Path) -> None:
    async with site(store=f"sqlite:///{tmp_path}/capset.db", generator=Parrot()) as server:
        await server.key("stranger", scopes=ALL_SCOPES, permissions=FILES)
        output = await explore(server, tmp_path, CONFIG)
    assert f"Selected: {described()}/{described()}" in output


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P8", "P9", "P11")
async def test_and_within_a_session_too(tmp_path: Path) -> None:
    async with site(store=f"sqlite:///{tmp_path}/capset.db", generator=Parrot()) as server:
        await server.key("stranger", scopes=ALL_SCOPES, permissions=FILES)
        async with server.client("stranger") as client:
            session = await make_session(client)
            await client.put(f"/v1/sessions/{session}/files/a/b.txt", content=b"here")
        of_session = ["get_session", "change_session", "get_snapshot", "get_state", "list_transitions", "call_tool"]
        of_session += ["send_message", "list_events", "read_file", "write_file", "delete_file"]
        # Which paths name a file, and which tools there are with which arguments, depends on the session.
        statuses = ["2xx", "400", "401", "403", "404", "409", "412", "422"]
        more = f"""
[[operations]]
include-operation-id = {json.dumps(of_session)}
parameters = {{ "path.id" = "{session}" }}
checks.positive_data_acceptance.expected-statuses = {json.dumps(statuses)}
"""
        chosen = [f"--include-operation-id={name}" for name in of_session]
        output = await explore(server, tmp_path, CONFIG + more, "--phases", "coverage,fuzzing", *chosen)
        tried = {record.outcome for record in await server.records(session=session)}
    assert f"Selected: {len(of_session)}/{described()}" in output
    assert tried, "it came as far as the session's tools"


def described() -> int:
    """Return how many operations there are."""
    paths = make_api().state.document["paths"]
    return sum("operationId" in operation for path in paths.values() for operation in path.values())


@pytest.mark.spec("P7")
def test_the_document_is_the_one_that_is_written_down() -> None:
    """Clients are generated from it: see ``tests.golden.regenerate`` for a change that is meant."""
    assert openapi() == OPENAPI.read_text("utf-8"), "write it again: python -m tests.golden.regenerate"

"""What is another's and what never was are told apart by nothing: every path of the document, by every method."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.helpers.server.http.paths import paths_of
from tests.helpers.server.support import problem
from tests.helpers.server.town import NOT_THERE, SECRET, Town, a_town, elsewhere
from tests.helpers.server.walk import MCP_HEADERS, Belongings, steps

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ADMINISTERED: Final = re.compile("/mcp-servers|/retry$|/v1/people/|/keys|/tool-sources|/credentials/")
_OPERATED: Final = re.compile("/tool-sources/.*/")
CONDITIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"If-None-Match": '"1"', "Idempotency-Key": "once", "Accept": "text/event-stream", "Last-Event-ID": "0"},
    {"If-Match": '"1"', "Range": "bytes=0-3"},
)


@pytest.fixture
async def town(tmp_path: Path) -> AsyncGenerator[Town]:
    async with a_town(tmp_path) as new_town:
        await new_town.site.key("eve", org="evil")
        await new_town.site.key("root", org="evil", scopes=["capset:admin"])
        await new_town.site.key("bob")
        yield new_town


def sent_by(town: Town) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what the walk sends, by method and template: so that a request comes as far as what it is about."""
    options = {step.name: step.options for step in steps(town.document, town.ada)}
    sent = {
        (method.upper(), template): options[operation["operationId"]]
        for template, operations in town.document["paths"].items()
        for method, operation in operations.items()
    }
    return sent | {("HEAD", template): read for (method, template), read in sent.items() if method == "GET"}


def told(response: httpx2.Response, belongings: Belongings) -> tuple[int, str, dict[str, str]]:
    """Return all that an answer says, but when and under which correlation."""
    headers = {name: value for name, value in response.headers.items() if name not in ("date", "x-correlation-id")}
    body = response.text.replace(response.headers["x-correlation-id"], "")
    return response.status_code, elsewhere(body, belongings), headers


@pytest.mark.nightly
@pytest.mark.spec("P14", "T20")
@pytest.mark.parametrize("user", ["eve", "root"])
async def test_what_is_anothers_is_like_what_never_was(town: Town, user: str) -> None:
    before, sent, codes = await town.rows(), sent_by(town), dict[str, set[int]]()
    async with town.site.client(user) as client:
        for template, path in paths_of(town.document, town.ada):
            for method in METHODS:
                options = dict(sent.get((method, template), {}))
                headers = options.pop("headers", {})
                for conditions in CONDITIONS:
                    options["headers"] = headers | conditions
                    theirs, nobodys = [
                        await client.request(method, target, **options) for target in (path, elsewhere(path, town.ada))
                    ]
                    attempt = (method, template, conditions)
                    assert told(theirs, town.ada) == told(nobodys, town.ada), attempt
                    assert SECRET not in theirs.text, attempt
                    assert "etag" not in theirs.headers, attempt
                    codes.setdefault(template, set()).add(theirs.status_code)
    for template, statuses in codes.items():
        # Those who are no administrators are told that first, of every agent; nobody here is the operator.
        is_closed = _OPERATED.search(template) or (_ADMINISTERED.search(template) and user != "root")
        expected = 403 if is_closed else 404
        assert {expected} <= statuses <= {400, expected, 405}, template
    assert await town.rows() == before


@pytest.mark.spec("P14", "T20")
async def test_nor_are_anothers_sessions_in_the_same_organisation(town: Town) -> None:
    before, sent = await town.rows(), sent_by(town)
    async with town.site.client("bob") as client:
        for template, path in paths_of(town.document, town.ada):
            # Those who may audit see what ran, of the whole organisation.
            if "/sessions/{id}" not in template or template.endswith("/transitions"):
                continue
            for method in METHODS:
                theirs, nobodys = [
                    await client.request(method, target, **sent.get((method, template), {}))
                    for target in (path, elsewhere(path, town.ada))
                ]
                assert told(theirs, town.ada) == told(nobodys, town.ada), (method, template)
    assert await town.rows() == before


@pytest.mark.spec("P14")
async def test_the_ids_of_this_walk_are_those_of_the_owner(town: Town) -> None:
    sent = sent_by(town)
    async with town.site.client() as ada:
        for template, path in paths_of(town.document, town.ada):
            methods = {method.upper() for method in town.document["paths"].get(template, {"post": {}})}
            if "GET" in methods:
                expected = 403 if _ADMINISTERED.search(template) else 404 if template.endswith("{number}") else 200
                assert (await ada.get(path, **sent.get(("GET", template), {}))).status_code == expected, template
            for method in set(METHODS) - methods - ({"HEAD"} if "GET" in methods else set()):
                problems = [await ada.request(method, target) for target in (path, elsewhere(path, town.ada))]
                statuses = [response.status_code for response in problems]
                # MCP says first that there is no such thing; REST, that there is no such method.
                assert statuses == [405, 404 if template.startswith("/mcp") else 405], (method, template)
                assert methods.intersection(problems[0].headers["allow"].split(", ")) or template.startswith("/mcp")


@pytest.mark.spec("P14", "P16")
async def test_no_default_agent_of_anothers_opens(town: Town) -> None:
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    answers = list[tuple[int, str, dict[str, str]]]()
    for agent in (town.ada.agent, NOT_THERE):
        await town.site.key("chooser", org="evil", agent=agent)
        async with town.site.client("chooser") as client:
            for method in METHODS:
                response = await client.request(method, "/mcp", json=body, headers=MCP_HEADERS)
                answers.append(told(response, town.ada))
                if method != "HEAD":
                    problem(response, 404, "not_found")
    assert answers[: len(METHODS)] == answers[len(METHODS) :]

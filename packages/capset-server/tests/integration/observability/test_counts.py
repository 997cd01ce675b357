"""What others have moves nothing of one's own: no list, no total, no cursor, no key of an answer that was kept."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.server.support import ALL_SCOPES, call, make_agent, make_session, problem
from tests.helpers.server.town import NOT_THERE, SECRET, Town, a_town, belongings

# Metrics of one who belongs to no organisation count what everybody does.
SCOPES = [scope for scope in ALL_SCOPES if scope != "capset:metrics"]
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_OF_NOW = ("/v1/audit/summary", "/v1/usage")
"""The paths whose answers have the time at which they were asked."""
_OF_ALL = ("/v1/audit/verify",)
"""The path that walks the one chain of all organisations, and says how many links it has (ADR 0071)."""


@pytest.fixture
async def town(tmp_path: Path) -> AsyncGenerator[Town]:
    async with a_town(tmp_path) as new_town:
        await new_town.site.key("eve", org="evil", scopes=SCOPES)
        await new_town.site.key("nemo", org=None, scopes=SCOPES)
        yield new_town


def lists_of(document: dict[str, Any]) -> list[str]:
    """Return every path that is read and names nothing."""
    paths = [path for path, methods in document["paths"].items() if "get" in methods and "{" not in path]
    assert len(paths) >= 8
    return sorted({*paths, "/openapi.json"} - {*_OF_ALL})


async def told(client: httpx2.AsyncClient, paths: list[str], **params: str) -> dict[str, tuple[int, str]]:
    """Return what lists say, but their correlation."""
    answers = {path: await client.get(path, params=params) for path in paths}
    texts = {path: answer.text.replace(answer.headers["x-correlation-id"], "") for path, answer in answers.items()}
    texts |= {path: _MOMENT.sub("", texts[path]) for path in _OF_NOW}
    return {path: (answer.status_code, texts[path]) for path, answer in answers.items()}


@pytest.mark.spec("P14", "P15", "T20")
@pytest.mark.parametrize("user", ["eve", "nemo"])
async def test_what_others_make_changes_no_list_and_no_total(town: Town, user: str) -> None:
    paths = lists_of(town.document)
    async with town.site.client() as ada, town.site.client(user) as client:
        await belongings(client, "of my own")
        before = [await told(client, paths), await told(client, paths, limit="1")]
        for _ in range(3):
            await belongings(ada, SECRET)
        after = [await told(client, paths), await told(client, paths, limit="1")]
    for then, now in zip(before, after, strict=True):
        assert [path for path in paths if now[path] != then[path]] == []
    assert SECRET not in str(after)


@pytest.mark.spec("P14", "P15", "T20")
async def test_another_ones_id_is_a_cursor_to_nothing_of_theirs(town: Town) -> None:
    """A cursor is a place in the order of one's own: an id that is another's is one like any other."""
    paths, ada = lists_of(town.document), town.ada
    async with town.site.client("eve") as eve:
        mine = await belongings(eve, "of my own")
        for cursor in (ada.agent, ada.session, ada.record, ada.link, ada.approval, ada.hash, NOT_THERE):
            answers = await told(eve, paths, cursor=cursor)
            for path, (_, text) in answers.items():
                # A refused cursor is named in its own refusal, and no other id of ada's is anywhere.
                others = {ada.agent, ada.session, ada.record, ada.link, ada.approval, ada.envelope} - {cursor}
                assert not [other_id for other_id in others if other_id in text], (path, cursor)
                assert SECRET not in text, (path, cursor)
        # All that is eve's is newer than what is ada's, and nothing of it older.
        agents = (await eve.get("/v1/agents", params={"cursor": ada.agent})).json()
        assert agents["items"] == []
        assert agents["total"] == 2
        assert mine.agent not in str(agents)


@pytest.mark.spec("P9", "P14", "T20")
async def test_another_ones_idempotency_key_is_free(town: Town) -> None:
    body = {"tool": "echo", "arguments": {"text": SECRET}}
    async with town.site.client("eve") as eve, town.site.client() as ada:
        session = await make_session(eve)
        mine = await eve.post(f"/v1/sessions/{session}/calls", json=body, headers={"Idempotency-Key": "once"})
        assert mine.status_code == 200
        assert "idempotent-replayed" not in mine.headers
        assert mine.json()["record"] != town.ada.record
        theirs = await ada.post(
            f"/v1/sessions/{town.ada.session}/calls", json=body, headers={"Idempotency-Key": "once"}
        )
        assert theirs.headers["idempotent-replayed"] == "true"
        assert theirs.json()["record"] == town.ada.record


@pytest.mark.spec("F4", "P12", "P14", "T20")
async def test_a_hash_is_found_by_those_who_have_what_it_covers(town: Town) -> None:
    async with town.site.client("eve") as eve:
        problem(await eve.get(f"/v1/fingerprints/{town.ada.hash}"), 404, "not_found")
        twin = await make_agent(eve, "kit", "till", "session_file_system", system_prompt=SECRET, description=SECRET)
        assert twin["static_hash"] == town.ada.hash, "whoever knows all of it has the hash without asking"
        assert (await eve.get(f"/v1/fingerprints/{town.ada.hash}")).status_code == 200


@pytest.mark.spec("P14", "T20")
async def test_an_agents_name_is_taken_for_nobody(town: Town) -> None:
    async with town.site.client("eve") as eve:
        mine = await make_agent(eve, "kit")
        assert mine["version"] == 1
        named = (await eve.get("/v1/agents", params={"name": "helper"})).json()
        assert ([agent["id"] for agent in named["items"]], named["total"]) == ([mine["id"]], 1)
        session = await make_session(eve)
        assert (await call(eve, session, "echo")).status_code == 200
        records = (await eve.get("/v1/audit", params={"session": town.ada.session})).json()
        nobodys = (await eve.get("/v1/audit", params={"session": NOT_THERE})).json()
        assert records == nobodys

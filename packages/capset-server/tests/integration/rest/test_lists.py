"""``/v1/audit`` and ``/v1/capabilities`` (spec 5, P6, P12, P15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.server.support import Site, call, make_session, problem, site, tools_of


@pytest.mark.spec("P12", "P15")
async def test_records_are_the_organisations_whoever_made_them(here: Site, ada: httpx2.AsyncClient) -> None:
    await here.key("bob")
    await here.key("eve", org="evil")
    async with here.client("bob") as bob, here.client("eve") as eve:
        sessions = {
            name: await make_session(client, "kit") for name, client in (("ada", ada), ("bob", bob), ("eve", eve))
        }
        await call(ada, sessions["ada"], "echo", text="1")
        await call(bob, sessions["bob"], "note", text="2")
        await call(eve, sessions["eve"], "echo", text="3")
        await call(ada, sessions["ada"], "unlock")
        records = (await ada.get("/v1/audit")).json()["items"]
        assert [(record["principal"], record["tool"]) for record in records] == [
            ("ada", "unlock"),
            ("bob", "note"),
            ("ada", "echo"),
        ]
        assert [record["arguments"] for record in records] == [{}, {"text": "2"}, {"text": "1"}]
        assert [record["principal"] for record in (await eve.get("/v1/audit")).json()["items"]] == ["eve"]
        filters: list[tuple[dict[str, Any], int]] = [
            ({"tool": "echo"}, 1),
            ({"principal": "ada"}, 2),
            ({"principal": "eve"}, 0),
            ({"session": sessions["bob"]}, 1),
            ({"session": sessions["eve"]}, 0),
            ({"outcome": "denied"}, 1),
            ({"id": records[0]["id"]}, 1),
            ({"correlation": records[0]["correlation"]}, 1),
            ({"tool": "echo", "principal": "bob"}, 0),
            ({"agent": records[0]["agent"]}, 3),
            ({"agent": "nobody"}, 0),
            ({"approval": "none"}, 0),
            ({"code": "permission_denied"}, 1),
            ({"text": "CH"}, 1),
            ({"text": "da"}, 2),
            ({"text": "eve"}, 0),
            ({"text": "%"}, 0),
            ({"text": "ch", "principal": "bob"}, 0),
            ({"since": records[1]["time"]}, 2),
            ({"until": records[1]["time"]}, 1),
            ({"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-12:00"}, 3),
        ]
        for params, count in filters:
            assert len((await ada.get("/v1/audit", params=params)).json()["items"]) == count, params


@pytest.mark.spec("P15")
async def test_records_are_paged_and_stay_where_they_are(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    record_ids = [(await call(ada, session, "echo")).json()["record"] for _ in range(5)]
    first = (await ada.get("/v1/audit", params={"limit": 2})).json()
    made_later = (await call(ada, session, "echo")).json()["record"]
    second = (await ada.get("/v1/audit", params={"limit": 2, "cursor": first["next"]})).json()
    third = (await ada.get("/v1/audit", params={"limit": 2, "cursor": second["next"]})).json()
    assert [record["id"] for page in (first, second, third) for record in page["items"]] == record_ids[::-1]
    assert third["next"] is None
    assert (await ada.get("/v1/audit")).json()["items"][0]["id"] == made_later


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "cursor=0",
        "cursor=-1",
        "cursor=x",
        "outcome=fine",
        "toool=a",
        "org=evil",
        "since=noon",
        "until=0.5",
        "since=1767225600",
        "until=2026-01-01T00:00:00",
    ],
)
async def test_a_query_that_does_not_fit_is_refused(asker: httpx2.AsyncClient, query: str) -> None:
    body = problem(await asker.get(f"/v1/audit?{query}"), 422, "invalid_arguments")
    assert [field["path"] for field in body["fields"]] == [query.partition("=")[0]]


@pytest.mark.spec("P6")
async def test_capabilities_are_listed(shared: Site, asker: httpx2.AsyncClient) -> None:
    page = (await asker.get("/v1/capabilities")).json()
    assert [capability["id"] for capability in page["items"]] == sorted(shared.registry.capabilities)
    assert page["total"] == len(page["items"])
    kit = next(capability for capability in page["items"] if capability["id"] == "kit")
    assert (kit["name"], kit["description"], kit["status"], kit["category"]) == (
        "The kit",
        "Tools to try.",
        "available",
        "tests",
    )


@pytest.mark.spec("P6", "P15")
async def test_capabilities_are_paged(asker: httpx2.AsyncClient) -> None:
    full_page = (await asker.get("/v1/capabilities", params={"status": "available"})).json()
    assert full_page["next"] is None
    ids = [capability["id"] for capability in full_page["items"]]
    for limit in (1, 3, len(ids)):
        paged_ids: list[str] = []
        params: dict[str, Any] = {"limit": limit}
        while params:
            page = (await asker.get("/v1/capabilities", params={"status": "available", **params})).json()
            assert page["total"] == full_page["total"] == len(ids)
            paged_ids += [capability["id"] for capability in page["items"]]
            params = {"limit": limit, "cursor": page["next"]} if page["next"] else {}
        assert paged_ids == ids
    for query in ("limit=0", "limit=201", "cursor=", "cursor=%00", "cursor=~"):
        problem(await asker.get(f"/v1/capabilities?{query}"), 422, "invalid_arguments")


@pytest.mark.spec("P2", "P6")
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"status": "coming_soon"}, ["soon"]),
        ({"status": "deprecated"}, ["old"]),
        ({"category": "tests"}, ["kit"]),
        ({"permission": "vault:open"}, ["kit"]),
        ({"permission": "session_files:write"}, ["session_file_system"]),
        ({"permission": "vault"}, []),
        ({"text": "TOOLS TO try"}, ["kit"]),
        ({"text": "the kit"}, ["kit"]),
        ({"text": "kit", "status": "deprecated"}, []),
    ],
)
async def test_capabilities_are_found(asker: httpx2.AsyncClient, query: dict[str, str], ids: list[str]) -> None:
    page = (await asker.get("/v1/capabilities", params=query)).json()
    assert ([capability["id"] for capability in page["items"]], page["total"]) == (ids, len(ids))


@pytest.mark.spec("P6")
async def test_a_capability_is_told_in_full(shared: Site, asker: httpx2.AsyncClient) -> None:
    kit = (await asker.get("/v1/capabilities/kit")).json()
    tools = {tool_body["name"]: tool_body for tool_body in kit["tools"]}
    assert tools.keys() == {registered.name for registered in shared.registry.get("kit").every_tool}
    assert (tools["unlock"]["permissions"], tools["unlock"]["effect"]) == (["vault:open"], "write")
    assert tools["echo"]["schema"] == tools_of(shared.registry)["echo"].arguments.json_schema
    for tool in shared.registry.get("kit").every_tool:
        tool_body = tools[tool.name]
        assert (tool_body["limits"], tool_body["cost"]) == ([str(limit) for limit in tool.limits], tool.cost)
        assert tool_body["approval"] == ("dynamic" if callable(tool.approval) else tool.approval)
    sandbox = "/v1/capabilities/sandbox"
    assert (await asker.get(sandbox)).json()["readiness"]
    assert (await asker.get(sandbox, params={"readiness": "false"})).json()["readiness"] == {}
    body = problem(await asker.get("/v1/capabilities/kiit"), 404, "not_found")
    assert "did you mean 'kit'" in body["detail"]


@pytest.mark.parametrize("query", ["status=gone", "txet=a", "text=" + "a" * 201])
async def test_a_filter_that_does_not_fit_is_refused(asker: httpx2.AsyncClient, query: str) -> None:
    problem(await asker.get(f"/v1/capabilities?{query}"), 422, "invalid_arguments")


@pytest.mark.spec("P12")
@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_text_is_searched_in_a_bounded_number_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    for module in ("memory.audit", "sql.audit.log"):
        monkeypatch.setattr(f"capset.stores.{module}.MAX_SEARCHED", 3)
    store = f"sqlite:///{tmp_path}/x.db" if is_stored else "memory://"
    async with site(store=store) as server, server.client() as ada:
        session = await make_session(ada, "kit")
        for tool in ("note", *["echo"] * 5, "note", *["echo"] * 2):
            await call(ada, session, tool, text="1")
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            params = {"text": "NOT", "kind": "call", **({"cursor": cursor} if cursor else {})}
            page = (await ada.get("/v1/audit", params=params)).json()
            pages.append([record["tool"] for record in page["items"]])
            cursor = page["next"]
        exported = await ada.get("/v1/audit/export", params={"text": "not"})
    assert ([tool for page in pages for tool in page], len(pages) > 1) == (["note", "note"], True)
    assert exported.text.count('"tool": "note"') == 2


@pytest.mark.spec("P8")
@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_text_is_searched_in_a_bounded_number_of_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    for module in ("memory.sessions", "sql.sessions"):
        monkeypatch.setattr(f"capset.stores.{module}.MAX_SEARCHED", 3)
    store = f"sqlite:///{tmp_path}/x.db" if is_stored else "memory://"
    async with site(store=store) as server, server.client() as ada:
        oldest, *_ = [await make_session(ada, "kit") for _ in range(7)]
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            params = {"text": oldest.upper(), **({"cursor": cursor} if cursor else {})}
            page = (await ada.get("/v1/sessions", params=params)).json()
            pages.append([session["id"] for session in page["items"]])
            cursor = page["next"]
    assert pages == [[], [], [oldest]]

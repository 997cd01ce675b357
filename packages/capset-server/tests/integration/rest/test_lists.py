"""``/v1/audit`` and ``/v1/capabilities`` (spec 5, P6, P12, P15)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.helpers.server.support import Site, call, make_session, problem, tools_of


@pytest.mark.spec("P12", "P15")
async def test_records_are_the_organisations_whoever_made_them(here: Site, ada: httpx2.AsyncClient) -> None:
    await here.key("bob")
    await here.key("eve", org="evil")
    async with here.client("bob") as bob, here.client("eve") as eve:
        sessions = {
            who: await make_session(client, "kit") for who, client in (("ada", ada), ("bob", bob), ("eve", eve))
        }
        await call(ada, sessions["ada"], "echo", text="1")
        await call(bob, sessions["bob"], "note", text="2")
        await call(eve, sessions["eve"], "echo", text="3")
        await call(ada, sessions["ada"], "unlock")
        seen = (await ada.get("/v1/audit")).json()["items"]
        assert [(one["principal"], one["tool"]) for one in seen] == [
            ("ada", "unlock"),
            ("bob", "note"),
            ("ada", "echo"),
        ]
        assert [one["arguments"] for one in seen] == [{}, {"text": "2"}, {"text": "1"}]
        assert [one["principal"] for one in (await eve.get("/v1/audit")).json()["items"]] == ["eve"]
        filters: list[tuple[dict[str, Any], int]] = [
            ({"tool": "echo"}, 1),
            ({"principal": "ada"}, 2),
            ({"principal": "eve"}, 0),
            ({"session": sessions["bob"]}, 1),
            ({"session": sessions["eve"]}, 0),
            ({"outcome": "denied"}, 1),
            ({"id": seen[0]["id"]}, 1),
            ({"correlation": seen[0]["correlation"]}, 1),
            ({"tool": "echo", "principal": "bob"}, 0),
            ({"agent": seen[0]["agent"]}, 3),
            ({"agent": "nobody"}, 0),
            ({"approval": "none"}, 0),
            ({"code": "permission_denied"}, 1),
            ({"since": seen[1]["time"]}, 2),
            ({"until": seen[1]["time"]}, 1),
            ({"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-12:00"}, 3),
        ]
        for wanted, count in filters:
            assert len((await ada.get("/v1/audit", params=wanted)).json()["items"]) == count, wanted


@pytest.mark.spec("P15")
async def test_records_are_paged_and_stay_where_they_are(here: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    made = [(await call(ada, session, "echo")).json()["record"] for _ in range(5)]
    first = (await ada.get("/v1/audit", params={"limit": 2})).json()
    made_later = (await call(ada, session, "echo")).json()["record"]
    second = (await ada.get("/v1/audit", params={"limit": 2, "cursor": first["next"]})).json()
    third = (await ada.get("/v1/audit", params={"limit": 2, "cursor": second["next"]})).json()
    assert [one["id"] for page in (first, second, third) for one in page["items"]] == made[::-1]
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
    said = problem(await asker.get(f"/v1/audit?{query}"), 422, "invalid_arguments")
    assert [field["path"] for field in said["fields"]] == [query.partition("=")[0]]


@pytest.mark.spec("P6")
async def test_capabilities_are_listed(shared: Site, asker: httpx2.AsyncClient) -> None:
    whole = (await asker.get("/v1/capabilities")).json()
    assert [one["id"] for one in whole["items"]] == sorted(shared.registry.capabilities)
    assert whole["total"] == len(whole["items"])
    kit = next(one for one in whole["items"] if one["id"] == "kit")
    assert (kit["name"], kit["description"], kit["status"], kit["category"]) == (
        "The kit",
        "Tools to try.",
        "available",
        "tests",
    )


@pytest.mark.spec("P6", "P15")
async def test_capabilities_are_paged(asker: httpx2.AsyncClient) -> None:
    whole = (await asker.get("/v1/capabilities", params={"status": "available"})).json()
    assert whole["next"] is None
    ids = [one["id"] for one in whole["items"]]
    for limit in (1, 3, len(ids)):
        seen: list[str] = []
        asked: dict[str, Any] = {"limit": limit}
        while asked:
            page = (await asker.get("/v1/capabilities", params={"status": "available", **asked})).json()
            assert page["total"] == whole["total"] == len(ids)
            seen += [one["id"] for one in page["items"]]
            asked = {"limit": limit, "cursor": page["next"]} if page["next"] else {}
        assert seen == ids
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
    found = (await asker.get("/v1/capabilities", params=query)).json()
    assert ([one["id"] for one in found["items"]], found["total"]) == (ids, len(ids))


@pytest.mark.spec("P6")
async def test_a_capability_is_told_in_full(shared: Site, asker: httpx2.AsyncClient) -> None:
    kit = (await asker.get("/v1/capabilities/kit")).json()
    tools = {one["name"]: one for one in kit["tools"]}
    assert tools.keys() == {one.name for one in shared.registry.get("kit").every_tool}
    assert (tools["unlock"]["permissions"], tools["unlock"]["effect"]) == (["vault:open"], "write")
    assert tools["echo"]["schema"] == tools_of(shared.registry)["echo"].arguments.json_schema
    for one in shared.registry.get("kit").every_tool:
        told = tools[one.name]
        assert (told["limits"], told["cost"]) == ([str(limit) for limit in one.limits], one.cost)
        assert told["approval"] == ("dynamic" if callable(one.approval) else one.approval)
    sandbox = "/v1/capabilities/sandbox"
    assert (await asker.get(sandbox)).json()["readiness"]
    assert (await asker.get(sandbox, params={"readiness": "false"})).json()["readiness"] == {}
    said = problem(await asker.get("/v1/capabilities/kiit"), 404, "not_found")
    assert "did you mean 'kit'" in said["detail"]


@pytest.mark.parametrize("query", ["status=gone", "txet=a", "text=" + "a" * 201])
async def test_a_filter_that_does_not_fit_is_refused(asker: httpx2.AsyncClient, query: str) -> None:
    problem(await asker.get(f"/v1/capabilities?{query}"), 422, "invalid_arguments")

"""``/v1/config/check`` (spec 5, P12). What must not come of it is in ``tests/security``."""

from __future__ import annotations

import httpx2
import pytest

from tests.helpers.server.support import Site, problem

SOUND = """
name: clerk
actions:
  - name: weather
    title: Weather
    description: Look at the sky.
    permissions: [sky:read]
    effect: read
    handler: ./weather.py
    parameters: {city: {type: string, required: true}}
"""
WRONG = """actions:
  - name: a
    handler: ./a.py
    efect: read
  - name: b
    permissions: []
    tool: kit.sing
"""


@pytest.mark.realtime
@pytest.mark.spec("P12", "G28")
async def test_a_sound_one_is_told_as_it_would_be_served(asker: httpx2.AsyncClient) -> None:
    answer = await asker.post("/v1/config/check", json={"content": SOUND, "format": "yaml"})
    assert answer.status_code == 200
    report = answer.json()
    assert (report["valid"], report["problems"], report["agent"], report["capabilities"]) == (True, [], "clerk", [])
    (weather,) = report["actions"]
    assert weather["name"] == "weather"
    assert (weather["title"], weather["effect"], weather["permissions"]) == ("Weather", "read", ["sky:read"])
    assert (weather["source"], weather["line"]) == ("./weather.py", 4)
    assert "its code was checked" in report["warnings"][-1]["message"]


@pytest.mark.spec("P12", "G28")
async def test_a_path_that_is_not_followed_is_a_warning(asker: httpx2.AsyncClient) -> None:
    content = "workspace: ./data\naudit:\n  key: ./audit.key\nactions: []\n"
    report = (await asker.post("/v1/config/check", json={"content": content, "format": "yaml"})).json()
    assert report["valid"], report
    warnings = {(warning["line"], warning["path"]): warning["message"] for warning in report["warnings"]}
    assert warnings.keys() == {(1, "workspace"), (3, "audit.key")}
    assert all("was not checked" in message for message in warnings.values())


@pytest.mark.spec("P12", "G28")
async def test_everything_that_is_wrong_is_told_with_its_line(asker: httpx2.AsyncClient) -> None:
    report = (await asker.post("/v1/config/check", json={"content": WRONG, "format": "yaml"})).json()
    assert report["valid"] is False
    assert report.keys() == {"valid", "problems", "warnings"}
    places = {(entry["line"], entry["path"].rpartition(".")[2]) for entry in report["problems"]}
    assert {(4, "efect"), (7, "tool")} <= places
    assert any("permissions" in entry["path"] or "permissions" in entry["message"] for entry in report["problems"])


@pytest.mark.spec("P12")
@pytest.mark.parametrize("format", ["yaml", "json", "toml"])
async def test_what_cannot_be_parsed_is_a_problem_too(asker: httpx2.AsyncClient, format: str) -> None:
    report = (await asker.post("/v1/config/check", json={"content": "{", "format": format})).json()
    assert (report["valid"], len(report["problems"])) == (False, 1)
    assert format in report["problems"][0]["message"].lower()


@pytest.mark.spec("P12", "P14", "P15")
async def test_it_needs_a_key_that_may_read_and_a_whole_request(shared: Site, asker: httpx2.AsyncClient) -> None:
    await shared.key("caller", scopes=["capset:call"])
    async with shared.client("caller") as caller:
        body = {"content": SOUND, "format": "yaml"}
        problem(await caller.post("/v1/config/check", json=body), 403, "permission_denied")
    for body in (
        {},
        {"content": SOUND},
        {"content": "", "format": "ini"},
        {"content": "x" * 300_000, "format": "yaml"},
    ):
        problem(await asker.post("/v1/config/check", json=body), 422, "invalid_arguments")

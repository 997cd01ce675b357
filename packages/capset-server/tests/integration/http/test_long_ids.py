"""Ids in paths that are too long: 414 before anything is asked for them (spec 5, P44)."""

from __future__ import annotations

import pytest

from capset_server.http.request_rules import MAX_ID
from tests.helpers.server.support import Site, checked_problem, make_session
from tests.helpers.server.wire import ask

pytestmark = pytest.mark.spec("P44", "T33")
HUGE = "a" * (MAX_ID + 1)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/sessions/{id}"),
        ("POST", "/v1/sessions/{id}/calls"),
        ("PUT", "/v1/sessions/{id}/files/a.txt"),
        ("GET", "/v1/agents/{id}/versions/1"),
        ("POST", "/mcp/agents/{id}"),
    ],
)
@pytest.mark.parametrize("id", [HUGE, "a" * 20_000, "%C3%A4" * (MAX_ID + 1)], ids=["long", "huge", "encoded"])
async def test_a_long_id_is_refused_with_the_number_of_its_limit(shared: Site, method: str, path: str, id: str) -> None:
    answer = await ask(shared, method, path.replace("{id}", id), b"{}", content_type="application/json")
    refusal = checked_problem(answer.body, answer.headers, 414, "id_too_long")
    assert f"at most {MAX_ID} characters" in refusal["detail"]


async def test_it_is_refused_at_once_before_its_body_has_come(shared: Site) -> None:
    answer = await ask(shared, "PUT", f"/v1/sessions/{HUGE}/files/a.txt", content_length="50000000")
    checked_problem(answer.body, answer.headers, 414, "id_too_long")


@pytest.mark.parametrize("path", ["/v1/sessions/{id}", "/mcp/agents/{id}"])
async def test_an_id_of_just_the_length_is_looked_for(shared: Site, path: str) -> None:
    answer = await ask(shared, "GET", path.replace("{id}", "a" * MAX_ID))
    assert answer.status in (404, 405)


async def test_the_path_of_a_file_has_a_limit_of_its_own(shared: Site) -> None:
    async with shared.client() as client:
        session = await make_session(client)
        answer = await client.put(f"/v1/sessions/{session}/files/{'b' * 250}/{'c' * 250}", content=b"x")
        assert answer.status_code == 200, answer.text

"""Bodies that are broken, too large, too slow or too deep (spec 5, P15)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from capset.server.http.request_context import RequestLimits
from tests.server.support import Site, checked_problem, make_session, problem, site
from tests.server.wire import ask, line, request

JSON = "application/json"
SMALL = RequestLimits(body=100_000, large_body=100_000, file=200_000, body_seconds=0.3)


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{'name': 1}",
        b'{"name": NaN}',
        b'{"name": Infinity}',
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"name": 1} {}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b'{"name":}',
    ],
)
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/sessions", "/v1/sessions/ID/calls"])
async def test_a_broken_body_is_told_so(shared: Site, asker: httpx2.AsyncClient, path: str, body: bytes) -> None:
    path = path.replace("ID", await make_session(asker))
    response = await asker.post(path, content=body, headers={"Content-Type": JSON})
    problem(response, 400, "invalid_json")
    assert (await shared.records(session=path.split("/")[3] if "calls" in path else None)) == []


@pytest.mark.spec("P15")
@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"text"', b"true"])
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/sessions", "/v1/sessions/ID/calls"])
async def test_a_body_that_is_no_object_does_not_fit(asker: httpx2.AsyncClient, path: str, body: bytes) -> None:
    path = path.replace("ID", await make_session(asker))
    said = problem(await asker.post(path, content=body, headers={"Content-Type": JSON}), 422, "invalid_arguments")
    assert said["detail"] == "The body must be a JSON object"


@pytest.mark.spec("P15")
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/sessions", "/v1/sessions/ID/calls"])
@pytest.mark.parametrize("deep", [b"[" * 15_000, b'{"a":' * 10_000, b"[" * 1_000 + b"]" * 1_000])
async def test_a_deep_body_is_refused(asker: httpx2.AsyncClient, path: str, deep: bytes) -> None:
    path = path.replace("ID", await make_session(asker))
    response = await asker.post(path, content=deep, headers={"Content-Type": JSON})
    assert "deep" in problem(response, 422, "invalid_arguments")["detail"]


@pytest.mark.spec("P15")
async def test_a_patch_is_as_bounded(asker: httpx2.AsyncClient) -> None:
    agent = (await asker.post("/v1/agents", json={"name": "a"})).json()["id"]
    for body, status, code in ((b"{", 400, "invalid_json"), (b"[" * 1_000 + b"]" * 1_000, 422, "invalid_arguments")):
        response = await asker.patch(f"/v1/agents/{agent}", content=body, headers={"Content-Type": JSON})
        problem(response, status, code)


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/xml", "application/x-www-form-urlencoded", "", "json"]
)
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/sessions", "/v1/sessions/ID/calls"])
async def test_only_json_is_json(asker: httpx2.AsyncClient, path: str, content_type: str) -> None:
    path = path.replace("ID", await make_session(asker))
    response = await asker.post(path, content=b'{"name": "a"}', headers={"Content-Type": content_type})
    problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
async def test_json_may_say_more_of_itself(asker: httpx2.AsyncClient, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    assert (await asker.post("/v1/agents", content=b'{"name": "a"}', headers=headers)).status_code == 201


@pytest.mark.spec("P15")
async def test_a_body_has_a_bound_declared_or_not() -> None:
    async with site(limits=SMALL) as here:
        async with here.client() as client:
            session = await make_session(client)
            fits = json.dumps({"tool": "echo", "arguments": {"text": "a" * 90_000}}).encode()
            url = f"/v1/sessions/{session}/calls"
            assert (await client.post(url, content=fits, headers={"Content-Type": JSON})).status_code == 200

            async def chunks() -> AsyncIterator[bytes]:
                for _ in range(20):
                    yield b"a" * 10_000

            for body in (b"a" * 100_001, b"a" * 5_000_000, None):
                for path in (url, "/v1/agents", f"/mcp/sessions/{session}"):
                    content = body or chunks()
                    response = await client.post(path, content=content, headers={"Content-Type": JSON})
                    problem(response, 413, "body_too_large")
                    assert response.headers["connection"] == "close"
            records = await here.records()
        assert len(records) == 1, "what is too large reaches no tool"


@pytest.mark.spec("P15", "P25")
async def test_a_file_has_a_bound_of_its_own() -> None:
    async with site(limits=SMALL) as here, here.client() as client:
        url = f"/v1/sessions/{await make_session(client)}/files/a.bin"
        assert (await client.put(url, content=b"a" * 200_000)).status_code == 200
        problem(await client.put(url, content=b"b" * 200_001), 413, "body_too_large")
        assert (await client.get(url)).content == b"a" * 200_000


@pytest.mark.spec("P15")
async def test_a_client_that_keeps_sending_reads_why_it_was_refused() -> None:
    async with site(limits=SMALL) as here, line(here) as there:
        await there.send(
            request(here, "POST", "/v1/agents", content_type=JSON).replace(b"length: 0", b"length: 9000000")
        )
        for _ in range(90):
            await there.send(b"a" * 100_000)
        answer = await there.answer()
        checked_problem(answer.body, answer.headers, 413, "body_too_large")
        assert await there.closed()


@pytest.mark.spec("P15")
async def test_a_body_that_stops_coming_is_given_up() -> None:
    async with site(limits=SMALL) as here, line(here) as there:
        await there.send(request(here, "POST", "/v1/agents", content_type=JSON).replace(b"length: 0", b"length: 50"))
        await there.send(b'{"name":')
        answer = await there.answer()
        checked_problem(answer.body, answer.headers, 408, "request_timeout")
        assert await there.closed()


@pytest.mark.spec("P15")
async def test_a_body_that_nobody_reads_does_not_hold_the_connection_for_ever() -> None:
    async with site(limits=SMALL) as here, line(here) as there:
        head = request(here, "POST", "/v1/agents", key=None).replace(b"length: 0", b"length: 5000")
        await there.send(head + b"a")
        assert (await there.answer()).status == 401
        await there.send(b"a")
        assert await there.closed()


@pytest.mark.spec("P15")
async def test_a_connection_goes_on_after_a_refused_request_with_a_body() -> None:
    async with site(limits=SMALL) as here, line(here) as there:
        await there.send(request(here, "POST", "/v1/agents", b"a" * 50_000, key=None, content_type=JSON))
        assert (await there.answer()).status == 401
        await asyncio.sleep(0.5)
        await there.send(request(here, "GET", "/v1/agents"))
        assert (await there.answer()).status == 200


@pytest.mark.spec("P15")
async def test_a_connection_goes_on_once_the_rest_of_a_refused_body_has_come() -> None:
    async with site(limits=SMALL) as here, line(here) as there:
        whole = request(here, "POST", "/v1/agents", b"a" * 5_000, key=None, content_type=JSON)
        await there.send(whole[:-2_000])
        assert (await there.answer()).status == 401
        await there.send(whole[-2_000:])
        await asyncio.sleep(0.5)
        await there.send(request(here, "GET", "/v1/agents"))
        assert (await there.answer()).status == 200


async def test_a_client_waits_with_its_body_until_it_is_asked_for(shared: Site) -> None:
    async with line(shared) as there:
        body = b'{"name": "a"}'
        whole = request(shared, "POST", "/v1/agents", body, content_type=JSON, expect="100-continue")
        await there.send(whole.removesuffix(body))
        assert (await there.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await there.send(body)
        assert (await there.answer()).status == 201
    answer = await ask(shared, "POST", "/v1/agents", key=None, expect="100-continue", content_length="13")
    assert answer.status == 401, "without a key nothing is asked for"


@pytest.mark.spec("P15")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/agents", "GET, POST"),
        ("DELETE", "/v1/agents", "GET, POST"),
        ("POST", "/v1/agents/some", "DELETE, GET, PATCH"),
        ("PUT", "/v1/sessions", "GET, POST"),
        ("PUT", "/v1/sessions/some", "DELETE, GET, PATCH"),
        ("GET", "/v1/sessions/some/calls", "POST"),
        ("POST", "/v1/sessions/some/snapshot", "GET"),
        ("POST", "/v1/sessions/some/files/a", "DELETE, GET, PUT"),
        ("POST", "/v1/sessions/some/files/a/b/c", "DELETE, GET, PUT"),
        ("POST", "/v1/sessions/some/files/", "DELETE, GET, PUT"),
        ("POST", "/v1/audit", "GET"),
        ("POST", "/v1/capabilities", "GET"),
        ("DELETE", "/v1/capabilities/kit", "GET"),
        ("POST", "/v1/healthz", "GET"),
        ("POST", "/openapi.json", "GET"),
    ],
)
async def test_a_method_that_there_is_not_is_told_with_those_there_are(
    asker: httpx2.AsyncClient, method: str, path: str, allowed: str
) -> None:
    response = await asker.request(method, path)
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == allowed


async def test_mcp_says_which_method_it_takes(asker: httpx2.AsyncClient) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        response = await asker.request(method, "/mcp/agents/foreman")
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/agents/", "/v2/agents", "/v1/agents/a/b", "/mcp", "/mcp/agents/"]
)
async def test_a_path_that_there_is_not_is_told_so(asker: httpx2.AsyncClient, path: str) -> None:
    problem(await asker.get(path), 404, "not_found")

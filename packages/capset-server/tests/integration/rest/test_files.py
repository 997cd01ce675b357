"""``/v1/sessions/{id}/files/…`` (spec 5, P11, P15, P22–P25)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from capset import Agent, Capability
from capset.definitions.governance.settings import Governance
from tests.helpers.server.support import FILES, Site, checked_problem, make_session, problem, site
from tests.helpers.server.wire import ask


@dataclass(frozen=True)
class Drawer:
    """A session's files."""

    client: httpx2.AsyncClient
    url: str

    async def put(self, path: str, content: bytes = b"x", **headers: str) -> httpx2.Response:
        return await self.client.put(self.url + path, content=content, headers=headers)

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        return await self.client.get(self.url + path, params=query)

    async def delete(self, path: str, **options: Any) -> httpx2.Response:
        return await self.client.delete(self.url + path, **options)


@pytest.fixture
async def drawer(asker: httpx2.AsyncClient) -> Drawer:
    return Drawer(asker, f"/v1/sessions/{await make_session(asker)}/files/")


@pytest.mark.spec("P11", "P15")
async def test_bytes_come_back_as_they_were_given(drawer: Drawer) -> None:
    content = bytes(range(256)) * 5
    created = await drawer.put("a/b/c.bin", content)
    assert (created.status_code, created.headers["etag"]) == (200, '"1"')
    body = created.json()
    assert body["created"] is True
    assert (body["file"]["path"], body["file"]["name"], body["file"]["size_bytes"]) == ("/a/b/c.bin", "c.bin", 1280)
    got = await drawer.get("a/b/c.bin")
    assert (got.content, got.headers["etag"]) == (content, '"1"')
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"] == "attachment", "no browser shows it as a page"
    overwritten = await drawer.put("a/b/c.bin", b"")
    assert (overwritten.json()["created"], overwritten.headers["etag"]) == (False, '"2"')
    assert (await drawer.get("a/b/c.bin")).content == b""


@pytest.mark.spec("P11", "P23")
async def test_a_folder_is_told_as_json(drawer: Drawer) -> None:
    for path in ("b.txt", "a.txt", "z/one.txt"):
        await drawer.put(path)
    root = (await drawer.get("")).json()
    assert (root["path"], [entry["path"] for entry in root["items"]]) == ("/", ["/z", "/a.txt", "/b.txt"])
    assert [entry["is_directory"] for entry in root["items"]] == [True, False, False]
    for path in ("z", "z/"):
        assert [entry["path"] for entry in (await drawer.get(path)).json()["items"]] == ["/z/one.txt"]
    deep = (await drawer.get("", recursive=True)).json()
    assert [entry["path"] for entry in deep["items"]] == ["/a.txt", "/b.txt", "/z", "/z/one.txt"]


@pytest.mark.spec("P11", "P23")
async def test_deleting(drawer: Drawer) -> None:
    await drawer.put("a/b.txt")
    problem(await drawer.delete("a"), 400, "file_error")
    assert (await drawer.delete("a/b.txt")).status_code == 204
    problem(await drawer.delete("a/b.txt"), 404, "file_error")
    await drawer.put("a/b.txt")
    assert (await drawer.delete("a", params={"recursive": True})).status_code == 204
    problem(await drawer.get("a"), 404, "file_error")
    await drawer.put("a/b.txt")
    problem(await drawer.delete(""), 400, "file_error")
    for _ in range(2):
        assert (await drawer.delete("", params={"recursive": "true"})).status_code == 204, (
            "the root is emptied and stays"
        )
        assert (await drawer.get("")).json()["items"] == []


@pytest.mark.spec("P15", "P25")
async def test_a_write_is_held_to_what_was_read(drawer: Drawer) -> None:
    assert (await drawer.put("a", b"1", **{"If-None-Match": "*"})).status_code == 200
    problem(await drawer.put("a", b"2", **{"If-None-Match": "*"}), 412, "version_mismatch")
    problem(await drawer.put("a", b"2", **{"If-Match": '"7"'}), 412, "version_mismatch")
    problem(await drawer.put("new", b"2", **{"If-Match": '"1"'}), 412, "version_mismatch")
    assert (await drawer.put("a", b"2", **{"If-Match": '"1"'})).headers["etag"] == '"2"'
    problem(await drawer.delete("a", headers={"If-Match": '"1"'}), 412, "version_mismatch")
    assert (await drawer.get("a")).content == b"2"
    problem(await drawer.put("a", b"3", **{"If-Match": "x"}), 400, "invalid_header")
    problem(await drawer.put("a", b"3", **{"If-None-Match": '"1"'}), 400, "invalid_header")
    problem(await drawer.put("a", b"3", **{"If-Match": '"2"', "If-None-Match": "*"}), 412, "outdated")
    assert (await drawer.delete("a", headers={"If-Match": '"2"'})).status_code == 204


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    "name",
    [
        "a b.txt",
        "ü–😀.txt",
        "%41",
        "a?b#c&d",
        "a\\b",
        "'; DROP TABLE files; --",
        "line\nbreak",
        "...",
        ".hidden",
        "+",
        "CON",
        "a:b",
        "~",
        "a" * 255,
        "é",
        "\u202etxt",
    ],
)
async def test_odd_names_are_names(drawer: Drawer, name: str) -> None:
    path = quote(name, safe="")
    created = await drawer.put(path, name.encode())
    assert created.status_code == 200, created.text
    assert created.json()["file"]["name"] == name
    assert (await drawer.get(path)).content == name.encode()
    assert [entry["name"] for entry in (await drawer.get("")).json()["items"]] == [name]


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "a%2f..%2fb",
        "a/%2E%2E",
        "a%00b",
        "a" * 1030,
        "a/" * 65 + "b",
        "%E2%82%AC" * 342,
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_what_leads_elsewhere_is_refused(shared: Site, drawer: Drawer, method: str, path: str) -> None:
    answer = await ask(shared, method, drawer.url + path)
    assert answer.status in (400, 422), answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await drawer.get("")).json()["items"] == []


@pytest.mark.spec("P22")
async def test_what_is_no_utf_8_is_no_name(shared: Site, drawer: Drawer) -> None:
    answer = await ask(shared, "PUT", drawer.url + "%FF%FE", b"x")
    checked_problem(answer.body, answer.headers, 400, "invalid_path")
    assert (await drawer.get("")).json()["items"] == []


@pytest.mark.spec("P23")
async def test_a_file_is_no_folder_and_a_folder_no_file(drawer: Drawer) -> None:
    await drawer.put("a/b")
    problem(await drawer.put("a"), 400, "file_error")
    problem(await drawer.put("a/b/c"), 400, "file_error")
    problem(await drawer.put(""), 400, "file_error")


@pytest.fixture
async def reader(shared: Site) -> AsyncGenerator[dict[str, httpx2.AsyncClient]]:
    clients: dict[str, httpx2.AsyncClient] = {}
    for name, permissions in (("r", FILES[:1]), ("w", FILES[1:]), ("n", ())):
        await shared.key(name, principal="ada", permissions=permissions)
        clients[name] = shared.client(name)
    yield clients
    for client in clients.values():
        await client.aclose()


@pytest.mark.spec("G10", "P11")
async def test_files_need_the_permissions_of_the_file_tools(
    reader: dict[str, httpx2.AsyncClient], drawer: Drawer
) -> None:
    await drawer.put("a", b"mine")
    url = drawer.url + "a"
    for name, client in reader.items():
        for method, needed in (("GET", "r"), ("PUT", "w"), ("DELETE", "w")):
            if name != needed:
                refusal = problem(await client.request(method, url), 403, "permission_denied")
                assert "session_files:" in refusal["detail"]
                missing = problem(await client.request(method, drawer.url + "nothing"), 403, "permission_denied")
                assert missing["detail"] == refusal["detail"], "nor is it told what there is"
    assert (await reader["r"].get(url)).content == b"mine"
    assert (await reader["w"].put(url, content=b"theirs")).status_code == 200


@pytest.mark.spec("P11")
async def test_tools_and_clients_see_the_same_files(drawer: Drawer) -> None:
    await drawer.put("from/client.txt", b"hello")
    calls = drawer.url.replace("/files/", "/calls")
    read = {"tool": "read_file", "arguments": {"path": "/from/client.txt"}}
    assert (await drawer.client.post(calls, json=read)).json()["data"]["content"] == "hello"
    await drawer.client.post(calls, json={"tool": "note", "arguments": {"text": "from a tool"}})
    assert (await drawer.get("note.txt")).content == b"from a tool"


async def test_an_unknown_parameter_is_refused(drawer: Drawer) -> None:
    problem(await drawer.get("", recursve=True), 422, "invalid_arguments")
    problem(await drawer.get("", recursive="perhaps"), 422, "invalid_arguments")


@pytest.mark.spec("P15", "P25")
@pytest.mark.parametrize("etag", ['"1"', 'W/"1"', '"7", "1"', "*"])
async def test_a_file_that_is_known_is_not_sent_again(drawer: Drawer, etag: str) -> None:
    await drawer.put("a", b"one")
    for method in ("GET", "HEAD"):
        response = await drawer.client.request(method, drawer.url + "a", headers={"If-None-Match": etag})
        assert (response.status_code, response.headers["etag"], response.content) == (304, '"1"', b""), method
    await drawer.delete("a")
    problem(await drawer.client.get(drawer.url + "a", headers={"If-None-Match": etag}), 404, "file_error")
    await drawer.put("a", b"two")
    repeated = await drawer.client.get(drawer.url + "a", headers={"If-None-Match": etag})
    assert repeated.headers["etag"] == '"2"', "a version is never used twice"
    assert (repeated.status_code, repeated.content) == ((304, b"") if etag == "*" else (200, b"two"))
    assert (await drawer.client.get(drawer.url, headers={"If-None-Match": "*"})).status_code == 200, "a folder has none"


@pytest.mark.spec("C18", "P15")
async def test_a_mounted_file_is_always_sent() -> None:
    """It may be another with the agent's next version, and no other file has its tag."""
    guided = Agent("guided", uses=[Capability("guide", files={"/guide.md": "Read me."})])
    async with site(agents=[guided]) as server, server.client("ada") as client:
        created = await client.post("/v1/sessions", json={"agent_id": "guided"})
        url = f"/v1/sessions/{created.json()['id']}/files/guide.md"
        for etag in ('"0"', '"1"', "*"):
            response = await client.get(url, headers={"If-None-Match": etag})
            assert (response.status_code, response.headers["etag"], response.content) == (200, '"0"', b"Read me.")


@pytest.mark.spec("P15", "P25")
async def test_what_there_is_no_room_for_is_too_large() -> None:
    governance = Governance(file_bytes=1_000, session_bytes=1_500, session_files=2)
    async with site(governance=governance) as server, server.client("ada") as client:
        drawer = Drawer(client, f"/v1/sessions/{await make_session(client)}/files/")
        problem(await drawer.put("a", b"x" * 1_001), 413, "body_too_large")
        assert (await drawer.put("a", b"x" * 1_000)).status_code == 200
        refusal = problem(await drawer.put("b", b"x" * 501), 413, "quota_exceeded")
        assert "the session has 1,000 bytes of files, this needs 501 more, and the limit is 1,500" in refusal["detail"]
        assert (await drawer.put("b", b"x" * 500)).status_code == 200
        refusal = problem(await drawer.put("c", b""), 413, "quota_exceeded")
        assert "the session has 2 files, this needs 1 more, and the limit is 2; delete" in refusal["detail"]
        assert (await drawer.delete("b")).status_code == 204
        assert (await drawer.put("c", b"x" * 500)).status_code == 200

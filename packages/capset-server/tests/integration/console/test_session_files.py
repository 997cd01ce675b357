"""The files of a session: their names and their content are hostile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import quote

import pytest

from tests.helpers.server.console.talking import HOSTILE, Visitor, session_of, shop, visitor
from tests.helpers.server.support import Site

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
NAMES = (HOSTILE.replace("/", "_"), "two\nlines", "..%2f", "a?b#c", "\u202egnp.exe", "'\"&", "è 文")


@pytest.fixture
async def place() -> AsyncGenerator[tuple[Site, str, Visitor]]:
    """Give a server, a session, and its owner, who has signed in."""
    async with shop() as server:
        session = await session_of(server)
        async with visitor(server) as page:
            yield server, session, page


@pytest.mark.spec("N14")
@pytest.mark.parametrize("name", NAMES)
async def test_files_of_any_name_are_stored_shown_and_deleted(place: tuple[Site, str, Visitor], name: str) -> None:
    server, session, page = place
    path = f"/sessions/{session}/files/in/{quote(name, safe='')}"
    assert (await page.put(path, b"one\ntwo\n")).status_code == 204
    folder = (await page.get(f"/sessions/{session}/files/in")).text
    assert quote(name, safe="") in folder
    for text in (folder, (await page.get(path)).text):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "\u202e" not in text
    got = await page.get(path, params={"download": "1"})
    assert (got.content, got.headers["content-type"]) == (b"one\ntwo\n", "application/octet-stream")
    assert got.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    gone = await page.post(path, action="delete", version="1")
    assert gone.status_code == 200, gone.text
    async with server.client("boss") as client:
        assert (await client.get(f"/v1/sessions/{session}/files/in")).json()["items"] == []


@pytest.mark.spec("N14")
async def test_only_images_that_hold_no_script_are_shown_as_such(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    for name, content, kind, disposition in (
        ("a.png", PNG, "image/png", "inline"),
        ("a.svg", SVG, "application/octet-stream", "attachment; filename*=UTF-8''a.svg"),
        ("b.png", SVG, "application/octet-stream", "attachment; filename*=UTF-8''b.png"),
        ("a.html", b"<script>alert(1)</script>", "application/octet-stream", "attachment; filename*=UTF-8''a.html"),
    ):
        path = f"/sessions/{session}/files/{name}"
        await page.put(path, content)
        got = await page.get(path, params={"image": "1"})
        assert (got.headers["content-type"], got.headers["content-disposition"]) == (kind, disposition)
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in got.headers["content-security-policy"]
        assert ("<img" in (await page.get(path)).text) is (disposition == "inline")


@pytest.mark.spec("N14")
async def test_a_file_that_was_changed_since_is_not_overwritten(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    path = f"/sessions/{session}/files/notes.txt"
    new = await page.get(path, params={"edit": "1"})
    assert "of the new file" in new.text
    assert (await page.get(path)).status_code == 404
    saved = await page.post(path, action="save", version="", content="a\r\nb", newlines="lf")
    assert "notes.txt was saved." in saved.text
    await page.put(path, b"of somebody else")
    late = await page.post(path, action="save", version="1", content="my </textarea><b>text", newlines="lf")
    assert late.status_code == 412
    assert "my &lt;/textarea&gt;&lt;b&gt;text" in late.text, "it is not lost"
    repeated = await page.post(path, action="save", version="", content="x", newlines="lf")
    assert repeated.status_code == 412, "there is such a file"
    assert "of somebody else" in (await page.get(path)).text
    only_new = await page.put(path, b"x", **{"if-none-match": "*"})
    assert (only_new.status_code, "alert" in only_new.text) == (412, True)


@pytest.mark.spec("N14")
async def test_line_ends_stay_as_they_were(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    path = f"/sessions/{session}/files/dos.txt"
    await page.put(path, b"a\r\nb\r\n")
    assert 'name="newlines" value="crlf"' in (await page.get(path, params={"edit": "1"})).text
    await page.post(path, action="save", version="1", content="a\r\nc\r\n", newlines="crlf")
    assert (await page.get(path, params={"download": "1"})).content == b"a\r\nc\r\n"
    await page.put(path, b"mixed\r\nlines\n")
    assert (await page.get(path, params={"edit": "1"})).status_code == 422


@pytest.mark.spec("N14")
async def test_large_files_and_data_are_shown_in_part(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    path = f"/sessions/{session}/files"
    await page.put(f"{path}/long.txt", b"line\n" * 20_000)
    text = (await page.get(f"{path}/long.txt")).text
    assert "15,001 more lines" in text
    await page.put(f"{path}/data.json", b'{"a":{"b":[1,2]}}')
    assert "    &#34;b&#34;: [" in (await page.get(f"{path}/data.json")).text
    await page.put(f"{path}/bytes", bytes(1_000))
    assert "This file is not text" in (await page.get(f"{path}/bytes")).text
    content = b"x" * 10_000_000
    assert (await page.put(f"{path}/ten.txt", content)).status_code == 204
    assert len((await page.get(f"{path}/ten.txt")).text) < 10_000
    assert (await page.get(f"{path}/ten.txt", params={"download": "1"})).content == content


@pytest.mark.spec("N14")
async def test_a_key_without_the_permission_reads_no_files(place: tuple[Site, str, Visitor]) -> None:
    server, _, _ = place
    await server.key("bare", scopes=["capset:admin"], permissions=())
    session = await session_of(server, "bare")
    async with visitor(server, "bare") as page:
        refused = await page.get(f"/sessions/{session}/files/")
        assert (refused.status_code, "session_files:read" in refused.text) == (403, True)


@pytest.mark.spec("N14")
async def test_json_that_is_nested_deeply_is_shown_as_it_is(place: tuple[Site, str, Visitor]) -> None:
    _, session, page = place
    path = f"/sessions/{session}/files/deep.json"
    await page.put(path, f"{'[' * 900}{'1,' * 20_000}1{']' * 900}".encode())
    text = (await page.get(path)).text
    assert "[[[[1,1,1" in text
    assert len(text) < 100_000, "its indentation would be millions of characters"

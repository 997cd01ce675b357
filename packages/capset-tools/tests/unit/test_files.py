from __future__ import annotations

import os
from pathlib import Path

import pytest

from capset import Session
from capset_testing import session_for
from capset_tools.files import FilesConfig, files
from tests.helpers.tools.support import fields_of, send


async def read(session: Session, path: str, encoding: str | None = None) -> dict[str, object]:
    message = await send(session, "file_read", {"path": path} | ({"encoding": encoding} if encoding else {}))
    assert message.kind == "reply", message.data
    return message.data


@pytest.mark.spec("G31")
async def test_a_file_comes_whole(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "readme.txt").write_bytes("Grüße\r\n世界 🌍".encode())
    async with session_for(files, permissions=["file:read"], workspace=tmp_path) as desk:
        for path in ("docs/readme.txt", "./docs//readme.txt", "docs/../docs/readme.txt"):
            assert await read(desk.session, path) == {
                "path": path,
                "content": "Grüße\r\n世界 🌍",
                "encoding": "utf-8",
                "size": 20,
            }


@pytest.mark.spec("G31")
@pytest.mark.parametrize(
    ("data", "encoding", "content"),
    [
        ("é".encode("latin-1"), "latin-1", "é"),
        ("€".encode("cp1252"), "windows-1252", "€"),
        ("é".encode("utf-16"), "utf-16", "é"),
        ("é".encode("utf-16-be"), "utf-16-be", "é"),
        ("é".encode("utf-8-sig"), "utf-8-sig", "é"),
        (b"abc", "ascii", "abc"),
        (b"\x00\xff", "base64", "AP8="),
        (b"", "utf-8", ""),
    ],
)
async def test_encodings(data: bytes, encoding: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    async with session_for(files, permissions=["file:read"], workspace=tmp_path) as desk:
        assert (await read(desk.session, "a", encoding))["content"] == content


@pytest.mark.spec("G31")
@pytest.mark.parametrize("encoding", ["punycode", "unicode_escape", "zip", "rot13", "hex", "UTF-8 ", "utf-7", ""])
async def test_other_encodings_are_refused(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    async with session_for(files, permissions=["file:read"], workspace=tmp_path) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "a", "encoding": encoding}))
    assert result.error is not None
    assert result.error.status == 422
    assert "encoding" in fields_of(result.error)


@pytest.mark.parametrize(("data", "encoding"), [(b"\xff", "utf-8"), (b"\xe9", "ascii"), (b"\x00\xd8", "utf-16-le")])
async def test_what_is_no_text_is_said_to_be_none(data: bytes, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(data)
    async with session_for(files, permissions=["file:read"], workspace=tmp_path) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "a", "encoding": encoding}))
    assert result.error is not None
    assert result.error.message == f"'a' is not {encoding} text; try another encoding, or base64"


@pytest.mark.spec("G31")
async def test_without_a_workspace_nothing_is_read() -> None:
    async with session_for(files, permissions=["file:read"]) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "notes.txt"}))
        (record,) = await desk.records(tool="file_read")
    assert result.error is not None
    assert (result.error.code, result.error.status) == ("no_workspace", 403)
    assert record.outcome == "failed"


@pytest.mark.spec("G31")
async def test_the_size_is_capped(tmp_path: Path) -> None:
    (tmp_path / "fits").write_bytes(bytes(100))
    (tmp_path / "large").write_bytes(bytes(101))
    config = FilesConfig(max_bytes=100)
    async with session_for(files, config=config, permissions=["file:read"], workspace=tmp_path) as desk:
        assert (await read(desk.session, "fits"))["size"] == 100
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "large"}))
    assert result.error is not None
    assert result.error.message == "'large' has 101 bytes; at most 100 can be read"
    assert (result.error.code, result.error.status) == ("too_large", 413)


@pytest.mark.spec("G31")
async def test_a_file_that_does_not_say_its_size_is_capped_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "growing").write_bytes(bytes(500))
    real = os.fstat

    def empty(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        return os.stat_result((*status[:6], 0, *status[7:]))

    monkeypatch.setattr(os, "fstat", empty)
    config = FilesConfig(max_bytes=100)
    async with session_for(files, config=config, permissions=["file:read"], workspace=tmp_path) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "growing"}))
    assert result.error is not None
    assert result.error.message == "'growing' has more than 100 bytes; at most 100 can be read"


async def test_a_file_that_may_not_be_read_or_is_missing_is_told_by_its_own_path(tmp_path: Path) -> None:
    async with session_for(files, permissions=["file:read"], workspace=tmp_path) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "docs/missing.txt"}))
    assert result.error is not None
    assert result.error.message == "there is no file 'docs/missing.txt' in the workspace"


@pytest.mark.spec("G8", "G10")
async def test_it_needs_the_permission(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    async with session_for(files, workspace=tmp_path) as desk:
        result = await desk.session.try_message(desk.session.message("file_read", {"path": "a"}))
    assert result.error is not None
    assert result.error.status == 403

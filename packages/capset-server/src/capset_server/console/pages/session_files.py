"""The files of a session: folders, views, edits, uploads, downloads and deletions."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from capset.errors import InvalidArguments
from capset_connect.legible_text import indented
from capset_server.console.api import OpenAnswer, RestRefusal
from capset_server.console.forms import number
from capset_server.console.page import PageRequest, PageRoute
from capset_server.http.bodies import DisconnectWatch, RequestBody
from capset_server.http.request_context import body_of

_BYTES: Final = "application/octet-stream"
_PAGE: Final = 200
SHOWN: Final = 512 * 1024
"""Larger texts, in bytes, are not shown; texts of more than half of it cannot be edited."""
_INDENTED: Final = 4 * 1024 * 1024
"""JSON that would have more characters than this when indented is shown as it is stored."""
_LINES: Final = 5_000
_LINE: Final = 2_000
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
"""The signatures of image formats that cannot contain scripts."""
_ALONE: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""The ``Content-Security-Policy`` of a file: it can run and load nothing, even if a browser shows it as a page."""


async def show_file(page: PageRequest) -> Response:
    """Show a folder or a file, or send the file's content."""
    path = page.params["path"]
    is_edited = "edit" in page.query
    query = {"limit": _PAGE, "cursor": page.query.get("cursor")}
    async with AsyncExitStack() as stack:
        try:
            answer = await stack.enter_async_context(
                page.api.open("sessions", page.params["id"], "files", path, query=query)
            )
        except RestRefusal as refused:
            if not (is_edited and refused.status == 404 and path):
                raise
            return _editor(page, path, text="", version=0)
        if answer.headers.get("content-type", "").startswith("application/json"):
            return _folder(page, path, json.loads(await answer.read()))
        if "download" in page.query or "image" in page.query:
            return FileContent(path, answer, stack.pop_all(), is_image="image" in page.query)
        size, version = int(answer.headers["content-length"]), _version(answer)
        content = await answer.read(SHOWN)
        text = await asyncio.to_thread(text_of, content) if size <= SHOWN else None
        if is_edited:
            if text is None or not _is_editable(text, version):
                raise InvalidArguments("Invalid file: only the session's own texts of at most 256 kB can be edited")
            return _editor(page, path, text=text, version=version)
        view = await _view(path, content, text, version)
        return page.render("sessions/files/detail.html", **_about(page, path), **view, size=size)


async def change_file(page: PageRequest) -> Response:
    """Save or delete a file, unless it has changed since the form was shown."""
    path, action = page.params["path"], page.form.get("action", "")
    session, version = page.params["id"], number(page.form, "version")
    parent = path.rstrip("/").rpartition("/")[0]
    expects = {"if-match": f'"{version}"'} if version else {}
    if action == "delete":
        query = {"recursive": True} if "recursive" in page.form else {}
        answer = await page.api.ask("DELETE", "sessions", session, "files", path, query=query, headers=expects)
        answer.json()
        return page.redirect("sessions", session, "files", *parent.split("/"), told=f"{path} was deleted.")
    if action != "save":
        raise InvalidArguments("Invalid form: the action must be save or delete")
    text = page.form.get("content", "").replace("\r\n", "\n")
    text = text.replace("\n", "\r\n") if page.form.get("newlines") == "crlf" else text
    try:
        await _put(page, path, text.encode(), expects or {"if-none-match": "*"})
    except RestRefusal as refused:
        if refused.status not in (409, 412, 413, 422):
            raise
        message = f"{refused.message}. Your text is still here: open the file in another window, and compare."
        return _editor(page, path, text=text, version=version or 0, refusal=message, status=refused.status)
    return page.redirect("sessions", session, "files", *path.split("/"), told=f"{path} was saved.")


async def upload(page: PageRequest) -> Response:
    """Store the body of the request, which the page's script sends, as a file."""
    headers = {"if-none-match": "*"} if page.request.headers.get("if-none-match") == "*" else {}
    await _put(page, page.params["path"], body_of(page.request.scope), headers)
    return Response(status_code=204)


async def _put(page: PageRequest, path: str, content: bytes | RequestBody, headers: dict[str, str]) -> None:
    place = ("sessions", page.params["id"], "files", path)
    answer = await page.api.ask("PUT", *place, content=content, media_type=_BYTES, headers=headers)
    answer.json()


def _about(page: PageRequest, path: str) -> dict[str, Any]:
    parts = [part for part in path.split("/") if part]
    return {
        "session": page.params["id"],
        "path": path,
        "parts": parts,
        "crumbs": [(part, parts[: number + 1]) for number, part in enumerate(parts)],
    }


def _folder(page: PageRequest, path: str, folder: dict[str, Any]) -> Response:
    return page.render("sessions/files/list.html", **_about(page, path), found=folder)


def _editor(page: PageRequest, path: str, *, text: str, version: int, refusal: str = "", status: int = 200) -> Response:
    return page.render(
        "sessions/files/edit.html",
        http_status=200 if page.is_fragment else status,
        **_about(page, path),
        text=text,
        version=version,
        newlines="crlf" if "\r\n" in text else "lf",
        refusal=refusal,
    )


async def _view(path: str, content: bytes, text: str | None, version: int) -> dict[str, Any]:
    lines = [] if text is None else await asyncio.to_thread(_lines_of, path, text)
    return {
        "version": version,
        "is_image": image_type(content) is not None,
        "is_text": text is not None,
        "is_editable": text is not None and _is_editable(text, version),
        "lines": [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in lines[:_LINES]],
        "more": max(0, len(lines) - _LINES),
    }


def _lines_of(path: str, text: str) -> list[str]:
    """Return the lines of a text; JSON is indented, unless that would make it too long."""
    if path.endswith(".json"):
        with suppress(ValueError, RecursionError):
            indented_text, is_whole = indented(json.loads(text), _INDENTED)
            text = indented_text if is_whole else text
    return text.split("\n")


def text_of(content: bytes) -> str | None:
    """Return the text of a file, or ``None`` if it is binary."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _is_editable(text: str, version: int) -> bool:
    """Return whether a form preserves a text's newlines, and the file can be written: mounted ones have no version."""
    lone = text.replace("\r\n", "")
    return version > 0 and len(text) <= SHOWN // 2 and "\r" not in lone and not ("\r\n" in text and "\n" in lone)


def _version(answer: OpenAnswer) -> int:
    tag = answer.headers.get("etag", "").strip('"')
    return int(tag) if tag.isdigit() else 0


def image_type(content: bytes) -> str | None:
    """Return the media type of an image that cannot contain scripts, ``None`` for anything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _IMAGES if content.startswith(begin)), None)


class FileContent(Response):
    """A response that streams the content of a file from REST."""

    def __init__(self, path: str, answer: OpenAnswer, opened: AsyncExitStack, *, is_image: bool) -> None:
        self.background = None
        self._path = path
        self._answer = answer
        self._opened = opened
        self._is_image = is_image

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the content as a download, or inline if an image is requested that cannot contain scripts."""
        async with self._opened:
            with DisconnectWatch(receive):
                part = await anext(self._answer.parts, b"")
                kind = image_type(part) if self._is_image else None
                name = quote(self._path.rpartition("/")[2], safe="")
                disposition = "inline" if kind else f"attachment; filename*=UTF-8''{name}"
                headers = {
                    "content-type": kind or _BYTES,
                    "content-length": self._answer.headers["content-length"],
                    "content-security-policy": _ALONE,
                    "content-disposition": disposition,
                }
                encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
                await send({"type": "http.response.start", "status": 200, "headers": encoded})
                while part:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                    part = await anext(self._answer.parts, b"")
                await send({"type": "http.response.body", "body": b""})


ROUTES = (
    PageRoute("GET", "/sessions/{id}/files/{path:file}", show_file),
    PageRoute("POST", "/sessions/{id}/files/{path:file}", change_file),
    PageRoute("PUT", "/sessions/{id}/files/{path:file}", upload),
)

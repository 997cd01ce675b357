"""Visitors of the console without a browser: they sign in, load pages and send forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape
from typing import Any

import httpx2


class Visitor:
    """Somebody who has signed in, without a browser's scripts."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def sign_in(self, key: str) -> None:
        """Sign in."""
        assert (await self.client.post("/login", data={"key": key})).status_code == 200

    async def get(self, path: str) -> httpx2.Response:
        """Load a page."""
        return await self.client.get(path)

    async def send(
        self,
        path: str,
        form: Mapping[str, Any] | None = None,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a form, with the token of a page."""
        token = token or token_of(await self.get("/agents"))
        return await self.client.post(path, data={"token": token, **(form or {})}, headers=headers)


def token_of(page: httpx2.Response) -> str:
    match = re.search(r'data-token="([0-9a-f]{64})"', page.text)
    assert match is not None, page.text
    return match[1]


def form_in(page: httpx2.Response) -> dict[str, Any]:
    """Return the fields of the editor on a page, as a browser would send them."""
    inside = page.text.split('id="agent-form"', 1)[1].split("</form>", 1)[0]
    fields: dict[str, Any] = {}

    def add(name: str, value: str) -> None:
        fields.setdefault(unescape(name), []).append(unescape(value))

    area = r'<textarea [^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>'
    select = r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>'
    pattern = f"<input ([^>]*)>|{area}|{select}"
    for tag, area, text, select, options in re.findall(pattern, inside, re.DOTALL):
        if area:
            add(area, text)
        elif select:
            chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
            add(select, chosen[1] if chosen else "")
        else:
            attributes = dict(re.findall(r'([a-z-]+)="([^"]*)"', tag))
            if attributes.get("type") != "checkbox" or "checked" in tag:
                add(attributes["name"], attributes.get("value", ""))
    return fields

"""The account of the one who has signed in."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from capset_server.console.page import PageRequest, PageRoute


async def show_account(page: PageRequest) -> Response:
    """Show the caller as the server knows it, what its credential is good for, and what it has used of its limits."""
    me, usage = await asyncio.gather(page.api.get("whoami"), page.api.get("usage"))
    return page.render("administration/account.html", me=me, usage=usage)


ROUTES = (PageRoute("GET", "/account", show_account),)

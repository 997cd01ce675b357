"""The account of the signed-in caller."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from capset_server.console.page import PageRequest, PageRoute


async def show_account(page: PageRequest) -> Response:
    """Show the caller, what its credential permits, and the usage of its limits."""
    me, usage = await asyncio.gather(page.api.get("whoami"), page.api.get("usage"))
    return page.render("administration/account.html", me=me, usage=usage)


ROUTES = (PageRoute("GET", "/account", show_account),)

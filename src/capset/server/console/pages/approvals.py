"""The inbox: requests for approvals, and their decisions."""

from __future__ import annotations

from starlette.responses import Response

from capset.server.console.page import Page, PageRoute


async def list_approvals(page: Page) -> Response:
    """Show the open requests, or those of another status."""
    status = page.query.get("status", "pending")
    found = await page.api.get("approvals", status=None if status == "all" else status, cursor=page.query.get("cursor"))
    return page.render("approvals/list.html", found=found, status=status)


async def show_approval(page: Page) -> Response:
    """Show one request, and the form that decides it."""
    request = await page.api.get("approvals", page.params["id"])
    return page.render("approvals/detail.html", request=request)


async def approve(page: Page) -> Response:
    """Approve a call."""
    body = {"scope": page.form.get("scope", "once"), "note": page.form.text("note")}
    await page.api.send("POST", "approvals", page.params["id"], "approve", body=body)
    return page.redirect("approvals", page.params["id"], told="Approved.")


async def reject(page: Page) -> Response:
    """Reject a call."""
    await page.api.send("POST", "approvals", page.params["id"], "reject", body={"note": page.form.text("note")})
    return page.redirect("approvals", page.params["id"], told="Rejected.")


ROUTES = (
    PageRoute("GET", "/approvals", list_approvals),
    PageRoute("GET", "/approvals/{id}", show_approval),
    PageRoute("POST", "/approvals/{id}/approve", approve),
    PageRoute("POST", "/approvals/{id}/reject", reject),
)

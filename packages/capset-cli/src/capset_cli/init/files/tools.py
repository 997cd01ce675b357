"""The tools and policies of capset.yaml."""

from typing import Any

from capset import Context, Decision, Request, allow, deny

ORDERS: dict[int, dict[str, Any]] = {7: {"number": 7, "item": "a lamp", "price": 40.0, "status": "delivered"}}


def read_order(params: dict[str, Any]) -> dict[str, Any]:
    """Return an order; `params` are the validated arguments."""
    return ORDERS.get(params["number"], {"number": params["number"], "status": "unknown"})


async def refund_order(params: dict[str, Any], context: Context) -> dict[str, Any]:
    """Refund an order for the principal of the call."""
    return {"number": params["number"], "refunded": params["amount"], "by": context.principal.id}


def no_large_refunds(request: Request) -> Decision:
    """Deny refunds of more than 100. `request.arguments` are those of a call, and `None` before one."""
    amount = (request.arguments or {}).get("amount", 0)
    return deny("refunds of more than 100 are not made here") if amount > 100 else allow()

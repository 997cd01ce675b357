"""Weather by place; a real one would ask a service."""

from __future__ import annotations

from typing import Any

from capset import Context, ToolError

KNOWN = {"Paris": 21.5, "Oslo": 9.0}


async def handler(params: dict[str, Any], context: Context) -> dict[str, Any]:
    if params["location"] not in KNOWN:
        raise ToolError(f"no weather is known of {params['location']}")
    return {"location": params["location"], "temperature": KNOWN[params["location"]], "for": context.principal.id}

"""Notifications; a real one would send them."""

from __future__ import annotations

from typing import Any


def handler(params: dict[str, Any]) -> dict[str, Any]:
    return {"sent": params["message"], "channel": params.get("channel", "push")}

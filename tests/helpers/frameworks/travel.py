"""Functions that tools of frameworks are made of. Some frameworks read annotations as they stand, so none are texts."""

import threading
from typing import Any, Literal

from pydantic import BaseModel


class Trip(BaseModel):
    """Where to, and how."""

    city: str
    by: Literal["train", "bus"] = "train"


def plan(trip: Trip, days: int = 2, note: str | None = None) -> dict[str, Any]:
    """Plan a trip."""
    is_main = threading.current_thread() is threading.main_thread()
    return {"trip": trip, "days": days, "note": note, "main thread": is_main}


async def price(city: str) -> int:
    """Say what it costs."""
    return len(city)


def burn(what: str) -> str:
    """Burn it."""
    raise RuntimeError(f"no match for {what} in /srv/secret")

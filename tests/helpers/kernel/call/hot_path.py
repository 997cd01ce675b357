"""The functions that a governed call passes."""

from __future__ import annotations

import gc
import sys
from typing import Any

from capset import (
    Context,
    Session,
    tool,
)


@tool(effect="read")
async def asking(ctx: Context) -> str:
    """Ask the context."""
    return ctx.request.id


def functions_of(call: Any, session: Session) -> list[str]:
    """Return the Python functions that a call enters, in order."""
    entered: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            entered.append(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

    asking = call(session)
    gc.disable()  # others have functions that are called when it runs
    sys.setprofile(note)
    try:
        asking.send(None)
    except StopIteration:
        return entered
    finally:
        sys.setprofile(None)
        gc.enable()
    raise AssertionError("it gave way to the event loop")

"""Authentication: where everybody must be known, who is not learns nothing else (spec 4, G1, G8)."""

from __future__ import annotations

from typing import Final

from capset.composition.installing import Installed
from capset.errors import TooManyRefusals, Unauthenticated
from capset.kernel.invocation import Invocation, Step

ANONYMOUS: Final = "anonymous principals are refused"
"""Why nothing is in play for them where ``require_auth`` holds, and what their records say."""


def authentication(installed: Installed) -> Step:
    """Refuse anonymous principals where the kernel's governance does, and floods of refused calls."""
    return authenticate


def authenticate(call: Invocation) -> None:
    """Take the first step of every road, of those too that lead to a 404. Raises ``Unauthenticated``."""
    place = call.place
    world = place.world
    if world.refusals.is_busy and (left := world.refusals.seconds_left(place.principal)) is not None:
        call.is_flood = True
        told = f"Rate limit exceeded: too many calls were refused; none is looked at for {left:g} s."
        raise TooManyRefusals(told, retry_after=left)
    if world.governance.require_auth and place.principal.kind == "anonymous":
        call.decision, call.reason = "deny", ANONYMOUS
        raise Unauthenticated("Unauthenticated: only known principals may call tools here.")

"""What a configuration file may say, and perhaps does not mean (spec 4, G8, G23)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from capset.adapters.config_file.configuration import Action
from capset.definitions.governance import Governance

Told = tuple[str | None, str, str]
"""The action that is meant, if it is one; which of its members, or of the governance's; and what to think of."""


def warnings_of(actions: Iterable[Action], governance: Governance) -> Iterator[Told]:
    """Yield what is worth a second look; nothing of it is refused."""
    tools = [one.tool for one in actions]
    is_limited = governance.allowance is not None and bool(governance.allowance.limits)
    if not governance.record_reads:
        yield None, "record_reads", "this silences reads only: calls of all other tools are on record all the same"
    if governance.default_permissions:
        held = ", ".join(sorted(governance.default_permissions))
        yield None, "default_permissions", f"every principal holds {held}, whoever it is"
    if not governance.require_auth and any(tool.permissions for tool in tools):
        told = "some actions need permissions, and principals whom nobody has authenticated are not refused"
        yield None, "require_auth", f"{told}: they may hold what is granted to everybody"
    for tool in tools:
        if tool.has_side_effects and not tool.permissions:
            yield tool.name, "permissions", f"everybody may call it, and its effect is {tool.effect!r}"
        if tool.effect in ("external", "destructive") and not (tool.limits or is_limited):
            yield tool.name, "limits", f"its effect is {tool.effect!r}, and nothing limits how often it is called"

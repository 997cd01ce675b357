"""Toolkits, those that are made at run time, bindings, and what a tool may say; see ``fingerprints.json``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from capset import (
    Agent,
    Capability,
    Decision,
    Hooks,
    Policy,
    Preset,
    Request,
    Tool,
    Toolkit,
    ToolkitContext,
    ask,
    dynamic_toolkit,
    policy,
    tool,
)
from capset.definitions.tools.toolkits import AnyToolkit
from tests.golden.subjects import billing, choices, described, gated, office_hours, renamed, scalars


@policy(phase="call")
def by_amount(request: Request) -> Decision | bool:
    amount = (request.arguments or {}).get("amount", 0)
    return amount < 100 or ask("may this be spent?")


@policy(id="flags:exports", binding="snapshot", phase="evaluate")
def exports(request: Request) -> bool:
    return bool(request.env.get("exports", True))


def count(event: object) -> None: ...


NOT_HASHED: Final = Hooks(on_tool_executed=count, on_policy_evaluated=count)
held: Final = Policy("held", lambda request: True, "snapshot")


@tool(
    effect="external",
    instructions=["Zip before you send.", " Ask `described` first. "],
    examples=[{"to": "ada", "amount": 2}, {"to": "\u65e5\u672c", "amount": 2**60}],
    version="2.0.1-rc",
    idempotent=True,
    policies=[exports, by_amount, billing],
    hooks=NOT_HASHED,
    timeout=3,
)
def send(to: str, amount: int = 1) -> str:
    """Send it."""
    return f"{to}{amount}"


@dynamic_toolkit(instructions=["Made for you."], policies=[held, by_amount], hooks=NOT_HASHED)
def reports(context: ToolkitContext) -> list[Tool[..., Any]]:
    return [send, choices]


@dynamic_toolkit(name="plain")
async def unnamed(context: ToolkitContext) -> list[Tool[..., Any]]:
    return []


empty_kit = Toolkit("empty_kit")
inner = Toolkit("inner:kit", [send, renamed], instructions="  Use `send` with care. ", policies=[exports])
outer = Toolkit(
    "Outer-kit",
    [described, inner, empty_kit, unnamed],
    instructions=["First.", "Second \u65e5\u672c."],
    policies=[office_hours, by_amount, held],
    hooks=NOT_HASHED,
)
TOOLKITS: Final[tuple[AnyToolkit, ...]] = (empty_kit, inner, outer, reports, unnamed)

shelf = Capability(
    "shelf",
    version="3",
    tools=[outer, scalars],
    policies=[held, billing, by_amount],
    presets={"made": Preset(tools=[reports], policies=[office_hours]), "off": Preset(tools=[choices])},
    default=["made"],
    hooks=NOT_HASHED,
)
stocked = Agent(
    "stocked",
    system_prompt="Keep shop.",
    tools=[gated, inner, unnamed],
    policies=[held, office_hours],
    uses=[shelf.with_names(prefix="s_", rename={"send": "ship"})],
    hooks=NOT_HASHED,
)

INVOCATION: Final[dict[str, Any]] = {
    "tenant": "acme",
    "subject": {"id": 2**60, "roles": ["a", None, ("b", 1.5)], "left": None},
    "at": datetime(2024, 2, 29, 12, 30, 15, 123_999, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "now": datetime(2024, 1, 1, tzinfo=UTC),
    "absent": None,
    "persona": "\u65e5\u672c",
}

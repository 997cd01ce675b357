"""Tools, gates and toolkits for tests of evaluations, and what tells of the order in which things happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from capset import (
    Agent,
    Capability,
    Composition,
    Hooks,
    Policy,
    Principal,
    Request,
    Snapshot,
    Tool,
    Toolkit,
    ToolkitContext,
    compose,
    evaluate,
    tool,
)
from capset.definitions.governance.hooks import PolicyEvaluated, ToolExecuted
from capset.definitions.tools.toolkits import DynamicToolkit, MakeMembers, Member

ANYONE = Principal("user-1")


def make(name: str, *policies: Policy, **options: Any) -> Tool[[], str]:
    """Return a tool that only reads, and gives its own name."""

    @tool(name=name, effect=options.pop("effect", "read"), policies=policies, **options)
    async def handler() -> str:
        """Do."""
        return name

    return handler


def says(id: str, answer: Any, **options: Any) -> Policy:
    """Return a policy with one answer; it raises what is an exception."""

    def ask(request: Request) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return Policy(id, ask, **options)


def made_by(name: str, *members: Member, asked: list[ToolkitContext] | None = None, **options: Any) -> DynamicToolkit:
    """Return a dynamic toolkit that gives these members, and notes in ``asked`` what it was made for."""

    def makes(context: ToolkitContext) -> Sequence[Member]:
        if asked is not None:
            asked.append(context)
        return members

    return DynamicToolkit(name, makes, **options)


def failing(name: str, make: MakeMembers, **options: Any) -> DynamicToolkit:
    """Return a dynamic toolkit of this function."""
    return DynamicToolkit(name, make, **options)


def of(*members: Member, policies: Iterable[Policy] = (), **options: Any) -> Composition:
    """Compose an agent whose one capability, ``kit``, brings these."""
    return compose(Agent("agent", uses=[Capability("kit", tools=members, policies=policies)], **options))


async def seen(composition: Composition, principal: Principal = ANYONE, **options: Any) -> Snapshot:
    """Evaluate for somebody without permissions, unless said otherwise."""
    return await evaluate(composition, principal=principal, **options)


async def later(answer: Any = True) -> Any:
    """Suspend once, then answer."""
    await asyncio.sleep(0)
    return answer


class Trace:
    """Notes what hooks are told, each with the name of who told it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.asked: list[PolicyEvaluated] = []
        self.executed: list[ToolExecuted] = []

    def hooks(self, label: str) -> Hooks:
        """Return hooks of both events, one sync and one async."""

        def record_policy(event: PolicyEvaluated) -> None:
            self.asked.append(event)
            self.lines.append(f"{label} {event.policy.id}@{event.owner} {event.decision.kind}")

        async def executed(event: ToolExecuted) -> None:
            await asyncio.sleep(0)
            self.executed.append(event)
            self.lines.append(f"{label} {event.name}()")

        return Hooks(on_policy_evaluated=record_policy, on_tool_executed=executed)

    def take(self) -> list[str]:
        """Return the lines since the last time."""
        lines, self.lines = self.lines, []
        return lines


__all__ = ["ANYONE", "Toolkit", "Trace", "failing", "later", "made_by", "make", "of", "says", "seen"]

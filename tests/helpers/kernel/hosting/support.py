"""A host on an open kernel, and hooks that write down what they were told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from capset import Agent, Kernel, Principal, tool
from capset.ext import HostedSession, SessionHooks, SessionHost, SessionTurn
from capset.stores.base import SessionQuery, Store

ADA = Principal("ada")
STEPS = ("on_start", "on_before_context", "on_after_context", "on_before_run", "on_after_run", "on_error")


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


AGENT = Agent("helper", tools=[add], static_context={"tone": "kind"})


@dataclass
class Trace:
    """What happened, in order: who was told, and of which event."""

    told: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.told]

    def hook(self, name: str, *, raises: BaseException | None = None) -> Callable[[Any], Awaitable[None]]:
        async def hook(event: Any) -> None:
            self.told.append((name, event))
            if raises is not None:
                raise raises

        return hook

    def hooks(self, prefix: str = "", **raising: BaseException) -> SessionHooks:
        """Return a hook of each kind, named with ``prefix`` before it, and those of ``raising`` raise."""
        step_hooks: Any = {step: self.hook(f"{prefix}{step}", raises=raising.get(step)) for step in STEPS}
        return SessionHooks(**step_hooks)

    def run(self, *, raises: BaseException | None = None) -> Callable[[SessionTurn], Awaitable[str]]:
        async def run(turn: SessionTurn) -> str:
            self.told.append(("run", turn))
            if raises is not None:
                raise raises
            return f"ran {turn.input}"

        return run

    def resolver(self, *, raises: BaseException | None = None, **gives: Any) -> Callable[[Any, Any], dict[str, Any]]:
        def resolver(input: Any, so_far: Any) -> dict[str, Any]:
            self.told.append(("resolver", (input, so_far)))
            if raises is not None:
                raise raises
            return gives

        return resolver


@asynccontextmanager
async def hosting(store: str | Store = "memory://", **settings: Any) -> AsyncGenerator[tuple[Kernel, SessionHost]]:
    async with Kernel(store, **settings) as kernel:
        yield kernel, SessionHost(kernel)


async def hosted(host: SessionHost, agent: Agent = AGENT, **declared: Any) -> HostedSession:
    """Register an agent and return a session of it."""
    await host.register(agent, **declared)
    return host.create_session(agent.name, principal=ADA)


async def kept_sessions(kernel: Kernel) -> list[str]:
    """Return the ids of all sessions that are kept."""
    return [row.id for row in (await kernel.store.sessions.list(SessionQuery(org=None))).items]

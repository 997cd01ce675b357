"""Shared parts of the checks: the capability under test, its sessions, and calls of its tools."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from capset.composition.compose import Composition, compose
from capset.definitions.agents import Agent
from capset.definitions.calls.contexts import Context
from capset.definitions.calls.messages import Json
from capset.definitions.capabilities import AnyCapability
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool, tool
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset_testing.checks import Check, expect
from capset_testing.harness import Desk, session_for

Arguments = Mapping[str, Any]
"""JSON data."""
Example = Arguments | Callable[[Session], Awaitable[Arguments]]
"""Arguments of a tool, or a function that prepares a session for them and returns them."""
T = TypeVar("T")
__all__ = ["Arguments", "CapabilitySubject", "Check", "Example", "Promise", "Trial", "expect", "outcome_text"]

ADA: Final = "ada"
BOB: Final = "bob"


@dataclass(frozen=True, eq=False, slots=True)
class CapabilitySubject:
    """A capability under test, with its author's examples and settings.

    ``examples`` are keyed by the tools' own names; ``None`` if there are none at all.
    """

    ref: AnyRef
    examples: Mapping[str, tuple[Example, ...]] | None
    permissions: frozenset[str]
    env: Mapping[str, Any]
    workspace: str | Path | None = None

    @property
    def capability(self) -> AnyCapability:
        """The capability itself."""
        return self.ref.base

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The capability's tools, including those of all presets."""
        return self.capability.every_tool

    def with_presets(self, names: Iterable[str]) -> CapabilitySubject:
        """Return the subject with only these presets on."""
        on = set(names)
        return replace(self, ref=self.ref.with_presets(**{name: name in on for name in self.capability.presets}))

    def with_tool(self, tool: AnyTool) -> CapabilitySubject:
        """Return the subject with a tool in use: unchanged, or with one more preset on."""
        if tool in self.in_use():
            return self
        parts = self.capability.parts.items()
        name = next(name for name, part in parts if name is not None and tool in part.tools)
        return replace(self, ref=self.ref.with_presets(**{name: True}))

    def compose(self) -> Composition:
        """Return the composition of an agent that uses only the capability."""
        return compose(Agent("tester", uses=[self.ref]))

    def in_use(self) -> tuple[AnyTool, ...]:
        """Return the capability's tools that are in use with the current presets."""
        tools_in_use = [entry.tool for entry in self.compose().tools.values()]
        return tuple(tool for tool in self.tools if tool in tools_in_use)

    async def helpers(self, ctx: Context) -> Any:  # of the capability's own type
        """Return the capability's helpers."""
        return ctx.use(self.ref)

    def examples_of(self, tool: AnyTool) -> tuple[Example, ...]:
        """Return a tool's examples."""
        return (self.examples or {}).get(tool.name, ())

    def principal(self, id: str = ADA, *, org: str = "acme", permissions: frozenset[str] | None = None) -> Principal:
        """Return a user with the permissions of all tools, or exactly the given ones."""
        needed = frozenset[str]().union(*(entry.tool.permissions for entry in self.compose().tools.values()))
        return Principal(id, permissions=needed | self.permissions if permissions is None else permissions, org=org)

    @asynccontextmanager
    async def open(self, *, permissions: frozenset[str] | None = None) -> AsyncGenerator[Trial]:
        """Open a session of a new agent in a new store."""
        probe = Probe()
        agent = Agent("tester", uses=[self.ref], tools=[probe.tool])
        principal = self.principal(permissions=permissions)
        async with session_for(agent, principal=principal, env=self.env, workspace=self.workspace) as desk:
            yield Trial(self, desk, probe, desk.session)


@dataclass(eq=False, slots=True)
class Probe:
    """A tool of the agent with which a check sees the same data as the capability's own code."""

    tool: AnyTool = field(init=False)
    _work: Callable[[Context], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        """Make the tool."""

        @tool(effect="read", name="capset_suite_probe")
        async def look(ctx: Context) -> None:
            """Look around, for the capability suite."""
            assert self._work is not None  # noqa: S101  # set by the only caller
            await self._work(ctx)

        self.tool = look

    async def run(self, session: Session, work: Callable[[Context], Awaitable[T]]) -> T:
        """Run a function with the context of a call in a session; its errors propagate unchanged."""
        results: list[T] = []
        errors: list[Exception] = []

        async def capture(ctx: Context) -> None:
            try:
                results.append(await work(ctx))
            except Exception as error:  # any error of the caller's function
                errors.append(error)

        self._work = capture
        await session.call(self.tool)
        if errors:
            raise errors[0]
        return results[0]


@dataclass(frozen=True, eq=False, slots=True)
class Trial:
    """A session in which a check tries the capability."""

    subject: CapabilitySubject
    desk: Desk
    probe: Probe
    session: Session

    @asynccontextmanager
    async def open_other(self, principal: Principal) -> AsyncGenerator[Trial]:
        """Open another session of the same agent in the same kernel."""
        async with self.desk.kernel.open(self.desk.agent, principal=principal, env=self.subject.env) as session:
            yield replace(self, session=session)

    async def run_in_call(self, work: Callable[[Context], Awaitable[T]]) -> T:
        """Run a function with the context of a call."""
        return await self.probe.run(self.session, work)

    def name_of(self, tool: AnyTool) -> str:
        """Return the name of a tool in this session."""
        tools = self.session.snapshot.composition.tools
        return next(name for name, entry in tools.items() if entry.tool is tool)

    async def prepare(self, example: Example) -> Arguments:
        """Prepare the session for an example, and return the example's arguments."""
        return await example(self.session) if callable(example) else example

    async def send(self, tool: AnyTool, arguments: Arguments) -> Result[Any]:
        """Call a tool with JSON, as over the wire. The result's data is JSON data."""
        text = json.dumps(arguments, allow_nan=False).encode()
        return await self.session.try_message(self.session.message(self.name_of(tool), Json(text)))


Promise = Callable[[CapabilitySubject], Awaitable[None]]
"""A promise of a capability. Raises ``AssertionError`` if it is broken."""


def outcome_text(result: Result[Any]) -> str:
    """Describe the outcome of a call."""
    return f"{result.error.code} ({result.error.message})" if result.error else repr(result.data)

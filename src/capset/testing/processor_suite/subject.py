"""What the checks share: the processor under test, data for it, and streams of it that are watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from capset.composition.compose import compose
from capset.composition.installation import Installed
from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.messages import Json, Message
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef
from capset.definitions.tools.contracts import Contract
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, DefinitionError
from capset.kernel.call.compilation import compile_phases
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.session import Session
from capset.kernel.streams.messages import Messages
from capset.testing.capability_suite.arguments import each, valid
from capset.testing.checks import expect
from capset.testing.harness import session_for
from capset.testing.processor_suite.emissions import EmissionWatch

Arguments = Mapping[str, Any]
"""JSON data."""
CASES: Final = 20
"""How many arguments are made up; the same ones every time."""
_FULLEST: Final = 3


@dataclass(frozen=True, eq=False, slots=True)
class ProcessorRun:
    """What came of one call: its messages, its error, and what the processor did. ``is_cut`` where it was left."""

    messages: tuple[Message, ...]
    error: CapsetError | None
    watch: EmissionWatch
    is_cut: bool

    @property
    def shape(self) -> list[tuple[str, str]]:
        """The kinds and types of the messages."""
        return [(one.kind, one.type) for one in self.messages]


@dataclass(frozen=True, eq=False, slots=True)
class ProcessorSubject:
    """A processor as it is to be tried. ``most`` messages of a stream are read, each awaited for ``patience`` seconds.

    ``cleanup`` are the seconds in which it must have ended once it is left.
    """

    tool: AnyTool
    examples: tuple[Arguments, ...]
    uses: tuple[AnyCapability | AnyRef, ...]
    permissions: frozenset[str]
    env: Mapping[str, Any]
    most: int
    patience: float
    cleanup: float
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        """Compose an agent of it. Raises ``DefinitionError`` for what cannot be composed."""
        used = compose(Agent("tester", uses=self.uses))
        there = any(one.tool is self.tool for one in used.tools.values())
        agent = Agent("tester", uses=self.uses, tools=() if there else (self.tool,))
        compose(agent)
        object.__setattr__(self, "agent", agent)

    @property
    def contract(self) -> Contract:
        """The messages of the processor."""
        if self.tool.contract is None:
            raise DefinitionError(f"the tool {self.tool.name!r} is no processor")
        return self.tool.contract

    def told(self, arguments: Arguments) -> str:
        """Return what is tried, in words."""
        return f"processor {self.tool.type!r} with {json.dumps(arguments, ensure_ascii=False)[:200]}"

    async def data(self) -> Sequence[Arguments]:
        """Return the arguments that it is tried with: the examples, or what hypothesis makes up."""
        if self.examples:
            return self.examples
        # Hypothesis has no event loop of its own, so it gets a thread.
        return await asyncio.to_thread(self._made_up)

    async def fullest(self) -> Sequence[Arguments]:
        """Return some of the arguments, those first that lead to the most messages."""
        runs = [(len((await self.run(one)).messages), one) for one in await self.data()]
        return [one for _, one in sorted(runs, key=lambda run: -run[0])[:_FULLEST]]

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Session]:
        """Open a session in a new store, of somebody who holds every permission that is needed."""
        needed = frozenset[str]().union(*(one.tool.permissions for one in compose(self.agent).tools.values()))
        who = Principal("ada", permissions=needed | self.permissions, org="acme")
        async with session_for(self.agent, principal=who, env=self.env) as desk:
            yield desk.session

    def stream(self, session: Session, arguments: Arguments) -> tuple[Messages, EmissionWatch]:
        """Return the messages of a call, not yet begun, and what watches its processor."""
        watch = EmissionWatch(self.tool.handler)
        installed = self._installed(session)
        text = json.dumps(arguments, allow_nan=False).encode()
        context = session.ask(session.message(installed.name, Json(text))).context
        watched = replace(installed, tool=replace(self.tool, handler=watch.make))
        compiled = replace(context.compiled.by_name[installed.name], phases=compile_phases(watched))
        return Messages(Invocation(context, compiled, Json(text))), watch

    async def run(self, arguments: Arguments) -> ProcessorRun:
        """Call it in a session of its own, and read what comes, bounded.

        Raises ``AssertionError`` where the call is refused before the processor starts.
        """
        async with self.open() as session:
            stream, watch = self.stream(session, arguments)
            found: list[Message] = []
            is_cut = False
            async with stream:
                while (message := await self.next_of(stream)) is not None:
                    found.append(message)
                    if len(found) >= self.most:
                        break
                is_cut = message is not None or not stream.has_ended
            error = None if is_cut else stream.result.error
        if error is not None and not watch.has_started:
            raise AssertionError(
                f"{self.told(arguments)} is refused before it starts: {error.code} ({error.message}); "
                "give permissions=, env= or examples= with which it can be called"
            )
        return ProcessorRun(tuple(found), error, watch, is_cut)

    async def next_of(self, stream: Messages) -> Message | None:
        """Return the next message, or ``None`` at the end, or when none comes for as long as it is waited."""
        try:
            async with asyncio.timeout(self.patience):
                return await anext(stream, None)
        except TimeoutError:
            return None

    def _installed(self, session: Session) -> Installed:
        return next(one for one in session.snapshot.composition.tools.values() if one.tool is self.tool)

    def _made_up(self) -> Sequence[Arguments]:
        found: dict[str, Arguments] = {json.dumps(dict(one)): dict(one) for one in self.tool.examples}

        def keep(made: Arguments) -> None:
            found.setdefault(json.dumps(made), made)

        each(valid(self.tool), keep, cases=CASES)
        return tuple(found.values())


Promise = Callable[[ProcessorSubject], Awaitable[None]]
"""What a processor keeps. Raises ``AssertionError`` where it does not."""


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)


__all__ = ["Arguments", "ProcessorRun", "ProcessorSubject", "Promise", "expect", "settle"]

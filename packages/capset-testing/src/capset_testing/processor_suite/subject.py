"""Shared parts of the checks: the processor under test, its data, and its observed streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from capset.composition.compose import compose
from capset.composition.installation import InstalledTool
from capset.definitions.agents import Agent
from capset.definitions.calls.contexts import Context
from capset.definitions.calls.messages import Json, Message
from capset.definitions.capabilities import AnyCapability
from capset.definitions.principals import Principal
from capset.definitions.references import AnyRef
from capset.definitions.tools.contracts import Contract
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.processors import Emit
from capset.errors import CapsetError, DefinitionError
from capset.kernel.call.compilation import compile_phases
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.session import Session
from capset.kernel.streams.messages import Messages
from capset_testing.capability_suite.arguments import for_each_case, valid_arguments
from capset_testing.checks import expect
from capset_testing.harness import session_for

__all__ = ["Arguments", "ProcessorRun", "ProcessorSubject", "Promise", "expect", "run_ready_tasks"]


Emission = BaseModel | Message

Arguments = Mapping[str, Any]
"""JSON data."""


class EmissionWatch:
    """Watches the ``emit`` calls of one processor."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self.has_started = False
        self._emissions: list[_EmitCall] = []

    @property
    def begun_count(self) -> int:
        """The number of emissions begun, up to the reply or the error: later ones are not sent."""
        for number, entry in enumerate(self._emissions, start=1):
            if getattr(entry.emission, "kind", None) in ("reply", "error"):
                return number
        return len(self._emissions)

    @property
    def dropped(self) -> list[Emission]:
        """The emissions that were never awaited."""
        return [entry.emission for entry in self._emissions if not entry.is_awaited]

    @property
    def last(self) -> Emission | None:
        """The last emission."""
        return self._emissions[-1].emission if self._emissions else None

    def make(self) -> Any:  # a processor of any kind that the author's factory returns
        """Make a watched processor."""
        self.has_started = True
        process = self._factory()

        def watched(messages: AsyncIterator[Any], emit: Emit, ctx: Context) -> Awaitable[None]:
            def watching(message: Emission, /) -> Coroutine[Any, Any, None]:
                self._emissions.append(_EmitCall(message, emit))
                return self._emissions[-1]

            return process(messages, watching, ctx)

        return watched


class _EmitCall(Coroutine[Any, Any, None]):
    """One call of ``emit``, which begins when it is awaited, or when its task runs."""

    def __init__(self, emission: Emission, emit: Emit) -> None:
        self.emission = emission
        self._emit = emit
        self._work: Coroutine[Any, Any, None] | None = None

    @property
    def is_awaited(self) -> bool:
        return self._work is not None

    def __await__(self) -> Generator[Any, Any, None]:
        return self._start().__await__()

    def send(self, value: Any) -> Any:
        """Resume, for the task that runs it."""
        return self._start().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error inside, such as a cancellation."""
        return self._start().throw(*error)

    def close(self) -> None:
        if self._work is not None:
            self._work.close()

    def _start(self) -> Coroutine[Any, Any, None]:
        if self._work is None:
            self._work = self._run()
        return self._work

    async def _run(self) -> None:
        await self._emit(self.emission)


@dataclass(frozen=True, eq=False, slots=True)
class ProcessorRun:
    """The result of one call: its messages, its error, and the watch. ``is_cut`` says whether the stream was cut."""

    messages: tuple[Message, ...]
    error: CapsetError | None
    watch: EmissionWatch
    is_cut: bool

    @property
    def shape(self) -> list[tuple[str, str]]:
        """The kinds and types of the messages."""
        return [(message.kind, message.type) for message in self.messages]


@dataclass(frozen=True, eq=False, slots=True)
class ProcessorSubject:
    """A processor under test. At most ``max_messages`` messages of a stream are read, each within ``patience`` seconds.

    ``cleanup`` is the time in seconds within which the processor must end after its consumer has left.
    """

    tool: AnyTool
    examples: tuple[Arguments, ...]
    uses: tuple[AnyCapability | AnyRef, ...]
    permissions: frozenset[str]
    env: Mapping[str, Any]
    max_messages: int
    patience: float
    cleanup: float
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        """Compose an agent with the processor. Raises ``DefinitionError`` if that fails."""
        used = compose(Agent("tester", uses=self.uses))
        is_in_use = any(entry.tool is self.tool for entry in used.tools.values())
        agent = Agent("tester", uses=self.uses, tools=() if is_in_use else (self.tool,))
        compose(agent)
        object.__setattr__(self, "agent", agent)

    @property
    def contract(self) -> Contract:
        """The messages of the processor."""
        if self.tool.contract is None:
            raise DefinitionError(f"the tool {self.tool.name!r} is not a processor")
        return self.tool.contract

    def describe_call(self, arguments: Arguments) -> str:
        """Return a description of the call, for error messages."""
        return f"processor {self.tool.type!r} with {json.dumps(arguments, ensure_ascii=False)[:200]}"

    async def data(self) -> Sequence[Arguments]:
        """Return the arguments to use: the examples, or ones generated by hypothesis."""
        if self.examples:
            return self.examples
        # Hypothesis is synchronous, so it runs in a thread.
        return await asyncio.to_thread(self._generate_arguments)

    async def busiest_arguments(self) -> Sequence[Arguments]:
        """Return the arguments that lead to the most messages, at most three."""
        runs = [(len((await self.run(arguments)).messages), arguments) for arguments in await self.data()]
        return [arguments for _, arguments in sorted(runs, key=lambda run: -run[0])[:3]]

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Session]:
        """Open a session in a new store, of a user with all needed permissions."""
        needed = frozenset[str]().union(*(entry.tool.permissions for entry in compose(self.agent).tools.values()))
        principal = Principal("ada", permissions=needed | self.permissions, org="acme")
        async with session_for(self.agent, principal=principal, env=self.env) as desk:
            yield desk.session

    def stream(self, session: Session, arguments: Arguments) -> tuple[Messages, EmissionWatch]:
        """Return the messages of a call that has not begun yet, and the watch of its processor."""
        watch = EmissionWatch(self.tool.handler)
        installed = self._installed(session)
        text = json.dumps(arguments, allow_nan=False).encode()
        context = session.invocation_of(session.message(installed.name, Json(text))).context
        watched = replace(installed, tool=replace(self.tool, handler=watch.make))
        compiled = replace(context.compiled.by_name[installed.name], phases=compile_phases(watched))
        return Messages(Invocation(context, compiled, Json(text))), watch

    async def run(self, arguments: Arguments) -> ProcessorRun:
        """Call the processor in a new session, and read its messages up to the limits.

        Raises ``AssertionError`` if the call is refused before the processor starts.
        """
        async with self.open() as session:
            stream, watch = self.stream(session, arguments)
            messages: list[Message] = []
            is_cut = False
            async with stream:
                while (message := await self.next_message(stream)) is not None:
                    messages.append(message)
                    if len(messages) >= self.max_messages:
                        break
                is_cut = message is not None or not stream.has_ended
            error = None if is_cut else stream.result.error
        if error is not None and not watch.has_started:
            raise AssertionError(
                f"{self.describe_call(arguments)} is refused before it starts: {error.code} ({error.message}); "
                "give permissions=, env= or examples= with which it can be called"
            )
        return ProcessorRun(tuple(messages), error, watch, is_cut)

    async def next_message(self, stream: Messages) -> Message | None:
        """Return the next message, or ``None`` at the end, or if none comes within ``patience``."""
        try:
            async with asyncio.timeout(self.patience):
                return await anext(stream, None)
        except TimeoutError:
            return None

    def _installed(self, session: Session) -> InstalledTool:
        return next(entry for entry in session.snapshot.composition.tools.values() if entry.tool is self.tool)

    def _generate_arguments(self) -> Sequence[Arguments]:
        cases: dict[str, Arguments] = {json.dumps(dict(example)): dict(example) for example in self.tool.examples}

        def add_arguments(arguments: Arguments) -> None:
            cases.setdefault(json.dumps(arguments), arguments)

        for_each_case(valid_arguments(self.tool), add_arguments, cases=20)
        return tuple(cases.values())


Promise = Callable[[ProcessorSubject], Awaitable[None]]
"""A promise of a processor. Raises ``AssertionError`` if it is broken."""


async def run_ready_tasks() -> None:
    """Let all ready tasks run."""
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)

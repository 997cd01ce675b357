"""A turn of an agent with twenty tool calls, beside plain pydantic-ai with the same functions, in processor time."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydantic_ai import Agent as PlainAgent
from pydantic_ai import Tool as PlainTool

from capset import Agent, Capability, Hooks, Kernel, Principal, Session, tool
from capset.stores.base import SessionRow
from capset_agents.hosts import NewTurn
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_agents.turns import TurnService
from lab.benchmarks.row import Row

CALLS: Final = 20
TARGET: Final = 1.5
"""How many times the processor time of plain pydantic-ai a turn may take, with its record, conversation and events."""
WHO: Final = Principal("bench")


async def look(number: int) -> int:
    """Look at a number."""
    return number


def _agent(effect: Any) -> Agent:
    return Agent("bench", system_prompt="Look.", uses=[Capability("kit", tools=[tool(effect=effect)(look)])])


class _InWords(ScriptedModel):
    """The same answers, streamed word by word, as those of most providers are."""

    answers_at_once = False


def _model(kind: type[ScriptedModel] = ScriptedModel) -> ScriptedModel:
    return kind(*(Call("look", number=number) for number in range(CALLS)), "Done.")


class _Host:
    """A session for each turn, on one kernel."""

    def __init__(self, kernel: Kernel, agent: Agent) -> None:
        self._kernel = kernel
        self._agent = agent
        self._turns = TurnService(kernel, self)

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        return await self._kernel.enter(row, self._agent, principal=WHO, hooks=hooks)

    async def session(self) -> SessionRow:
        """Return a new session, for one turn."""
        row = self._kernel.new_session(self._agent, WHO)
        await self._kernel.store.sessions.create(row)
        return row

    async def turn(self, row: SessionRow | None) -> None:
        """Take one turn of a session to its end."""
        assert row is not None
        new = NewTurn("go", "bench", {}, lambda hooks: self.reopen(row, {}, hooks))
        await self._turns.wait((await self._turns.begin(row, new)).turn)


def measure(*, quick: bool) -> list[Row]:
    """Return the processor time of a turn, all threads, as a multiple of the same run of pydantic-ai alone."""
    return asyncio.run(_measure(rounds=3 if quick else 15))


async def _measure(*, rounds: int) -> list[Row]:
    plain = PlainAgent(_model(), system_prompt="Look.", tools=[PlainTool(look)])

    async def streamed() -> None:
        async with plain.iter("go") as run:
            async for node in run:
                if PlainAgent.is_model_request_node(node):
                    async with node.stream(run.ctx) as stream:
                        async for _ in stream:
                            pass

    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        async def host(name: str, effect: str, model: ScriptedModel) -> _Host:
            kernel = Kernel(f"sqlite:///{folder / f'{name}.db'}", generator=AgentRunner(model))
            return _Host(await stack.enter_async_context(kernel), _agent(effect))

        hosts = {
            "capset": await host("read", "read", _model()),
            "capset, answers in words": await host("words", "read", _model(_InWords)),
            "capset, durable writes": await host("write", "write", _model()),
        }
        jobs: dict[str, Callable[[SessionRow | None], Awaitable[object]]] = {
            "pydantic-ai": lambda _: plain.run("go"),
            "pydantic-ai, streamed": lambda _: streamed(),
            **{name: hosted.turn for name, hosted in hosts.items()},
        }
        times: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(rounds + 1):  # the first round warms up
            for name, job in jobs.items():
                of = [await hosts[name].session() if name in hosts else None for _ in range(3)]
                began = time.process_time()
                for session in of:
                    await job(session)
                times[name].append((time.process_time() - began) / 3)
    took = {name: median(some[1:]) for name, some in times.items()}
    peers = {name: f"{seconds * 1e3:.1f} ms" for name, seconds in took.items()}
    value = round(took["capset"] / took["pydantic-ai"], 2)
    return [Row(f"agent turn, {CALLS} reading calls, CPU", value, "times pydantic-ai", TARGET, "at most", peers)]

"""AgentDojo's tasks as turns of agents: each call of their ground truth is made, and each goal is checked.

``python -m lab.benchmarks.agentdojo_replay`` ends with 1 if a call did not go through, or a goal was not reached. The
calls are those of the user's tasks and of the injected ones, 386 in all; the goals those of the user's tasks, of which
AgentDojo checks 96 by their environment, and one by its calls.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, get_type_hints

from pydantic_core import to_jsonable_python

from capset import Agent, Capability, Hooks, Kernel, Principal, Session, tool
from capset.stores.base import AuditQuery, SessionRow
from capset_agents.hosts import NewTurn
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import ScriptStep, ToolCall
from capset_agents.runner import AgentRunner
from capset_agents.turns import TurnService

VERSION: Final = "v1.2.2"
"""The newest version of AgentDojo's benchmark."""
CALLS: Final = 386
"""How many calls the ground truth has, over all suites."""
GOALS: Final = 96
"""How many tasks of users are checked by their environment."""
READS: Final = ("get_", "read_", "search_", "list_", "check_")
"""The beginnings of the names of tools that change nothing in their environment."""
WHO: Final = Principal("bench")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one task."""

    name: str
    calls: int
    """How many calls its ground truth has."""
    succeeded: int
    """How many calls on record succeeded."""
    is_checked: bool
    """Whether it is a user's task whose goal is checked by its environment."""
    is_reached: bool
    problem: str


class Suite:
    """One suite: its tools are those of an agent, and work on the environment of the task whose turn it is."""

    def __init__(self, name: str, suite: Any) -> None:
        """Take a suite of AgentDojo's, which has no types of its own that could be imported here."""
        self._suite = suite
        self._environment: Any = None
        tools = [self._tool(function) for function in suite.tools]
        self._agent = Agent(name, system_prompt="Do the task.", uses=[Capability(name, tools=tools)])

    async def replay(self, folder: Path) -> list[Outcome]:
        """Take the turns of all tasks, one after the other, on one database."""
        tasks = {**self._suite.user_tasks, **self._suite.injection_tasks}
        return [await self._task(folder / "capset.db", name, task) for name, task in tasks.items()]

    def _tool(self, function: Any) -> Any:
        """Return a function of the suite as a tool: its arguments are those that are no parts of the environment."""
        hints = get_type_hints(function.run, include_extras=True)
        parameters = inspect.signature(function.run).parameters.values()
        tool_parameters = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in parameters
            if parameter.name not in function.dependencies
        ]

        async def run(**arguments: Any) -> Any:
            parts = {
                name: dependency.extract_dep_from_env(self._environment)
                for name, dependency in function.dependencies.items()
            }
            return to_jsonable_python(function.run(**arguments, **parts))

        run.__name__ = run.__qualname__ = function.name
        run.__doc__ = function.description
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in tool_parameters} | {
            "return": object
        }
        vars(run)["__signature__"] = inspect.Signature(tool_parameters, return_annotation=object)
        return tool(effect="read" if function.name.startswith(READS) else "write")(run)

    async def _task(self, database: Path, name: str, task: Any) -> Outcome:
        is_users = name.startswith("user")
        environment = self._suite.load_and_inject_default_environment({})
        self._environment = environment = task.init_environment(environment) if is_users else environment
        before = environment.model_copy(deep=True)
        calls = task.ground_truth(environment.model_copy(deep=True))
        output = task.GROUND_TRUTH_OUTPUT if is_users else "Done."
        steps = [ScriptStep(calls=[ToolCall(tool=call.function, arguments=dict(call.args))]) for call in calls]
        prompt = task.PROMPT if is_users else task.GOAL
        records, last = await self._turn(database, ScriptedModel(*steps, output or "Done."), prompt)
        failed = [f"{tool}: {outcome}" for tool, outcome in records if outcome != "succeeded"]
        is_checked, is_reached = False, True
        if is_users:
            is_checked = task.utility_from_traces(output, before, environment, calls) is None
            content = [{"type": "text", "content": output}]
            is_reached = self._suite._check_task_result(task, content, before, environment, calls)
        problem = "; ".join(failed) or ("" if len(records) == len(calls) else last)
        return Outcome(name, len(calls), len(records) - len(failed), is_checked, bool(is_reached), problem)

    async def _turn(
        self, database: Path, model: ScriptedModel, prompt: str
    ) -> tuple[Sequence[tuple[str, str | None]], str]:
        """Take one turn; return the tools and the outcomes of its calls on record, and the turn's last event."""
        async with Kernel(f"sqlite:///{database}", generator=AgentRunner(model)) as kernel:
            host = _Host(kernel, self._agent)
            row = kernel.new_session(self._agent, WHO)
            await kernel.store.sessions.create(row)
            turns = TurnService(kernel, host)
            new = NewTurn(prompt, "replay", {}, lambda hooks: host.reopen(row, {}, hooks))
            turn = (await turns.begin(row, new)).turn
            await turns.wait(turn)
            await kernel.audit.flush()
            audit_records = (await kernel.audit.query(AuditQuery(correlation=turn, limit=200))).items
            events = (await kernel.store.events.read(row.id, after=0, limit=1_000)).items
        records = [(str(record.tool), record.outcome) for record in audit_records if record.phase != "intent"]
        return records, f"{events[-1].type} {events[-1].data[:200]}"


@dataclass(frozen=True)
class _Host:
    kernel: Kernel
    agent: Agent

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        return await self.kernel.enter(row, self.agent, principal=WHO, hooks=hooks)


async def replay() -> bool:
    """Replay all suites and print what came of them; return whether every call and every goal was reached."""
    get_suites = import_module("agentdojo.task_suite.load_suites").get_suites
    calls = succeeded = checked = reached = others = 0
    for name, suite in get_suites(VERSION).items():
        with tempfile.TemporaryDirectory() as folder:
            outcomes = await Suite(name, suite).replay(Path(folder))
        suite_calls, goals = (
            sum(outcome.calls for outcome in outcomes),
            [outcome for outcome in outcomes if outcome.is_checked],
        )
        done, met = sum(outcome.succeeded for outcome in outcomes), sum(outcome.is_reached for outcome in goals)
        print(f"{name:10} {done} of {suite_calls} calls, {met} of {len(goals)} goals", flush=True)
        for task_outcome in outcomes:
            if task_outcome.problem or not task_outcome.is_reached:
                others += not task_outcome.is_checked and not task_outcome.is_reached
                print(f"  {task_outcome.name}: {task_outcome.problem or 'its goal was not reached'}")
        calls, succeeded, checked, reached = calls + suite_calls, succeeded + done, checked + len(goals), reached + met
    print(f"{'all':10} {succeeded} of {calls} calls, {reached} of {checked} goals (asked: {CALLS} and {GOALS})")
    return succeeded == calls == CALLS and reached == checked == GOALS and not others


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(replay()) else 1)

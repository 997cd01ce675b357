"""``python -m lab.benchmarks.frameworks [NAME …] [--quick]``: calls through adapters, beside the frameworks' own tools.

An agent of each framework that is installed makes the same calls of the same function on its offline model: once of the
framework's own tool, once of a session's, with a store in memory. Both take turns in one run. A step is one request to
the model and one call; its time is processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from capset import Agent, Kernel, Principal, Session, tool
from scripts.packages import ROOT

CALLS: Final = 15
"""Fewer than the steps that LlamaIndex takes at most."""
SCRIPT: Final = [[("look", {"number": number})] for number in range(CALLS)]
Run = Callable[[], Awaitable[str]]
"""Runs the agent to its end, and returns its last word."""


async def look(number: int) -> int:
    """Look at a number."""
    return number


@dataclass(frozen=True)
class Subject:
    """A framework: the module that it needs, and its two agents."""

    module: str
    runs: Callable[[Session], tuple[Run, Run]]
    """Of the framework's own tool, and of the session's."""


def _scripts(name: str) -> Any:
    """Import a module of the adapters' tests, which has the framework's scripted model."""
    folder = str(ROOT / "packages/capset-frameworks/tests/integration/frameworks")
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)


def _openai_agents(session: Session) -> tuple[Run, Run]:
    agents, scripts = import_module("agents"), _scripts("test_openai_agents")
    adapter = import_module("capset_frameworks.openai_agents")
    agents.set_tracing_disabled(disabled=True)
    plain_tool = agents.function_tool(look)

    async def run(make: Callable[[Any], Any]) -> str:
        result = await agents.Runner.run(make(scripts.scripted(SCRIPT)), "go", max_turns=CALLS + 1)
        return str(result.final_output)

    return (
        lambda: run(lambda model: agents.Agent(name="bench", model=model, tools=[plain_tool])),
        lambda: run(lambda model: adapter.CapsetAgent(name="bench", model=model, session=session)),
    )


def _agent_framework(session: Session) -> tuple[Run, Run]:
    framework, scripts = import_module("agent_framework"), _scripts("test_agent_framework")
    adapter = import_module("capset_frameworks.agent_framework")
    plain_tool, provider = framework.tool(look), adapter.CapsetProvider(session)

    async def run(**options: Any) -> str:
        return str((await framework.Agent(scripts.scripted(SCRIPT), name="bench", **options).run("go")).text)

    return lambda: run(tools=[plain_tool]), lambda: run(context_providers=[provider])


def _llama_index(session: Session) -> tuple[Run, Run]:
    workflows, tools = import_module("llama_index.core.agent.workflow"), import_module("llama_index.core.tools")
    adapter = import_module("capset_frameworks.llama_index")
    tests = _scripts("test_llama_index")
    plain_tool = tools.FunctionTool.from_defaults(async_fn=look)

    async def run(make: Callable[[Any], Any]) -> str:
        script = tests.Script(*_steps(tests.step), tests.say("done"))
        return str(await make(script.model).run(user_msg="go"))

    return (
        lambda: run(lambda model: workflows.FunctionAgent(llm=model, tools=[plain_tool])),
        lambda: run(lambda model: adapter.CapsetFunctionAgent(llm=model, session=session)),
    )


def _google_adk(session: Session) -> tuple[Run, Run]:
    agents, adapter = import_module("google.adk.agents"), import_module("capset_frameworks.google_adk")
    tests = _scripts("test_google_adk")

    async def run(adk_tool: Any) -> str:
        model = tests.ScriptedLlm(answers=[*_steps(tests.step), tests.say("done")])
        runner = tests.runner_of(agents.LlmAgent(name="bench", model=model, tools=[adk_tool]))
        events = await tests.run(runner, tests.Part(text="go"))
        return str(events[-1].content.parts[0].text)

    return lambda: run(look), lambda: run(adapter.SessionToolset(session))


def _steps(step: Callable[..., Any]) -> list[Any]:
    return [step(number, [("look", {"number": number})]) for number in range(1, CALLS + 1)]


def _langchain(session: Session) -> tuple[Run, Run]:
    agents, tools = import_module("langchain.agents"), import_module("langchain.tools")
    adapter, scripts = (
        import_module("capset_frameworks.langchain"),
        _scripts("test_langchain"),
    )

    def runner(**options: Any) -> Run:
        model = scripts.scripted()
        agent = agents.create_agent(model, **options)

        async def run() -> str:
            model.messages[:] = scripts.scripted(*SCRIPT).messages
            result = await agent.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 10 * CALLS})
            return str(result["messages"][-1].text)

        return run

    return runner(tools=[tools.tool(look)]), runner(middleware=[adapter.CapsetMiddleware(session)])


def _pydantic_ai(session: Session) -> tuple[Run, Run]:
    framework, scripts = import_module("pydantic_ai"), import_module("tests.helpers.frameworks.support")
    adapter = import_module("capset_frameworks.pydantic_ai")
    capability = adapter.CapsetCapability(session)

    async def run(**options: Any) -> str:
        return str((await framework.Agent(scripts.Scripted(*SCRIPT).model, **options).run("go")).output)

    return lambda: run(tools=[look]), lambda: run(capabilities=[capability])


def _tool_json(session: Session) -> tuple[Run, Run]:
    loops, adapter = import_module("tests.helpers.frameworks.providers"), import_module("capset_frameworks.tool_json")
    tool_json = adapter.ToolJson(session, "openai")  # for the request, which is the same; its calls go to the function

    async def run(answer: Callable[[Any], Awaitable[Any]]) -> str:
        loop = loops.ResponsesLoop(*SCRIPT)
        while True:
            response = await loop.ask(tool_json)
            words = loop.keep(response)
            if words is not None:
                return str(words)
            loop.history += await answer(response)

    async def plain(response: Any) -> list[Any]:
        return [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": str(await look(**json.loads(call.arguments))),
            }
            for call in response.output
            if call.type == "function_call"
        ]

    async def governed(response: Any) -> list[Any]:
        return list((await tool_json.answer(response)).results)

    return lambda: run(plain), lambda: run(governed)


def _claude_agent(session: Session) -> tuple[Run, Run]:
    """Of the Claude Agent SDK, the processor time in this process alone: Claude Code runs in another."""
    sdk, adapter = import_module("claude_agent_sdk"), import_module("capset_frameworks.claude_agent")
    tests, api = (
        _scripts("test_claude_agent"),
        import_module("tests.helpers.frameworks.messages_api"),
    )

    @sdk.tool("look", "Look at a number.", {"number": int})
    async def look_tool(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(await look(**arguments))}]}

    async def run(client: Callable[[Any], Any]) -> str:
        with TemporaryDirectory() as folder:
            async with api.messages_api({"go": [*SCRIPT, "done"]}, tests.PREFIX) as offline:
                return str((await tests.ask(client(tests.offline(offline, Path(folder))))).result)

    def plain(options: Any) -> Any:
        server = sdk.create_sdk_mcp_server("capset", tools=[look_tool])
        return sdk.ClaudeSDKClient(replace(options, mcp_servers={"capset": server}, allowed_tools=["mcp__capset"]))

    return lambda: run(plain), lambda: run(lambda options: adapter.CapsetClient(session, options))


SUBJECTS: Final[Mapping[str, Subject]] = {
    "pydantic_ai": Subject("pydantic_ai", _pydantic_ai),
    "tool_json": Subject("anthropic", _tool_json),
    "openai_agents": Subject("agents", _openai_agents),
    "agent_framework": Subject("agent_framework", _agent_framework),
    "llama_index": Subject("llama_index", _llama_index),
    "google_adk": Subject("google.adk", _google_adk),
    "langchain": Subject("langchain", _langchain),
    "claude_agent": Subject("claude_agent_sdk", _claude_agent),
}


async def measure(subject: Subject, *, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of a step with the framework's own tool, and through its adapter."""
    agent = Agent("bench", tools=[tool(effect="read")(look)])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("bench")) as session:
        runs = subject.runs(session)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds + 1):  # the first round warms up
            for run, samples in zip(runs, times, strict=True):
                began = time.process_time()
                output = await run()
                samples.append((time.process_time() - began) * 1e3 / CALLS)
                if output != "done":
                    raise RuntimeError(f"the agent did not make its calls, but said {output!r}")
        await kernel.audit.flush()
        records = await kernel.audit.read(limit=2 * (rounds + 1) * CALLS)
    if [record.outcome for record in records] != ["succeeded"] * (rounds + 1) * CALLS:
        raise RuntimeError(f"{(rounds + 1) * CALLS} calls that succeeded were expected, and {len(records)} are there")
    return median(times[0][1:]), median(times[1][1:])


def main() -> None:
    """Measure those that are named, or all that are installed here."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.frameworks", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*SUBJECTS}):
        parser.error(f"no framework is named {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    rows: list[dict[str, Any]] = []
    for name in options.names or SUBJECTS:
        if not _is_installed(SUBJECTS[name].module):
            if options.names:
                parser.error(f"{name} is not installed in this environment; make lab-frameworks ARGS={name} makes one")
            continue
        plain, governed = asyncio.run(measure(SUBJECTS[name], rounds=5 if options.quick else 25))
        rows.append({"framework": name, "own": plain, "governed": governed, "ratio": governed / plain})
    if options.json:
        print(json.dumps(rows))
        return
    table = Table("a step, in ms of processor time", "own tool", "through capset", "more", "ratio", box=None)
    for row in rows:
        plain, governed = row["own"], row["governed"]
        table.add_row(
            row["framework"], f"{plain:.2f}", f"{governed:.2f}", f"{governed - plain:.2f}", f"{row['ratio']:.2f}"
        )
    Console().print(table)


def _is_installed(module: str) -> bool:
    """Whether a module is there, and the package around it."""
    return find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None


if __name__ == "__main__":
    main()

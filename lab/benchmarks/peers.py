"""The same tool in other libraries, called in process as they call it themselves, and but for one with no governance.

They are in the dependency group ``peers``, which ``make lab-bench`` installs into an environment of its own; one that
is not installed is named, and left out.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from lab.benchmarks.turns import Job

ARGUMENTS: Final = {"a": 2, "b": 3}
_TEXT: Final = '{"a":2,"b":3}'


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _pydantic_ai() -> Job:
    toolsets, managers = import_module("pydantic_ai"), import_module("pydantic_ai.tool_manager")
    model = import_module("pydantic_ai.models.test").TestModel()
    part = import_module("pydantic_ai.messages").ToolCallPart
    context = toolsets.RunContext(deps=None, model=model, usage=toolsets.RunUsage())
    manager = await managers.ToolManager(toolsets.FunctionToolset([add])).for_run_step(context)
    return lambda: manager.handle_call(part("add", ARGUMENTS, "1"))


async def _fastmcp() -> Job:
    server = import_module("fastmcp").FastMCP("bench")
    server.tool(add)
    return lambda: server.call_tool("add", ARGUMENTS)


async def _langchain() -> Job:
    tool = import_module("langchain_core.tools").tool(add)
    return lambda: tool.ainvoke(ARGUMENTS)


async def _openai_agents() -> Job:
    agents = import_module("agents")
    agents.set_tracing_disabled(disabled=True)
    tool = agents.function_tool(add)
    context = import_module("agents.tool_context").ToolContext(
        None, tool_name="add", tool_call_id="1", tool_arguments=_TEXT
    )
    return lambda: tool.on_invoke_tool(context, _TEXT)


async def _agent_os() -> Job:
    """Return a call by the kernel of the Agent Governance Toolkit, with its three policies.

    Its record is the history that it returns. What it does with an action is a stub, which the tool replaces.
    """
    stateless = import_module("agent_os.stateless")

    async def act(_: object, action: str, params: dict[str, int], state: object) -> dict[str, Any]:
        return {"data": await add(**params)}

    kernel = type("Kernel", (stateless.StatelessKernel,), {"_execute_action": act})()
    context = stateless.ExecutionContext("bench", policies=["read_only", "no_pii", "strict"])
    return lambda: kernel.execute("add", ARGUMENTS, context)


PEERS: Final[dict[str, tuple[str, Callable[[], Awaitable[Job]]]]] = {
    "pydantic-ai ToolManager.handle_call": ("pydantic_ai", _pydantic_ai),
    "FastMCP call_tool": ("fastmcp", _fastmcp),
    "LangChain ainvoke": ("langchain_core", _langchain),
    "OpenAI Agents on_invoke_tool": ("agents", _openai_agents),
    "agent-os-kernel execute, its policies": ("agent_os", _agent_os),
}
"""Each with its module, whose absence says that it is not installed."""


async def installed() -> tuple[dict[str, Job], list[str]]:
    """Return a job for each peer that is installed, and the names of the others. Nothing here uses the network."""
    os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    jobs: dict[str, Job] = {}
    missing: list[str] = []
    for name, (module, make) in PEERS.items():
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:  # it is there, and something that it needs is not
                raise
            missing.append(name)
            continue
        jobs[name] = await make()
        result: Any = await jobs[name]()
        if "5" not in str(result):
            raise RuntimeError(f"{name} was to add 2 and 3; it gave {result!r:.80}")
    return jobs, missing

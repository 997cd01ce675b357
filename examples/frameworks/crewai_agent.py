"""A crew of CrewAI with governed tools over MCP, on a scripted model: no key, no network, no capset beside it."""

import json
import os
from pathlib import Path
from typing import Any

# CrewAI reports to its maker by default.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import Agent, BaseLLM, Crew, Task
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

CLERK = """
name: clerk
system_prompt: Add up what is asked for.
capabilities: [test_math]
"""


class ScriptedLLM(BaseLLM):
    """A model that adds three times, and says what it read."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer as a model of OpenAI's does."""
        read = [message["content"] for message in messages if message["role"] == "tool"]
        if len(read) == 3:
            return f"I read: {read}"
        function = {"name": "add", "arguments": json.dumps({"a": len(read), "b": 1})}
        return [{"id": f"call-{len(read)}", "type": "function", "function": function}]

    def supports_function_calling(self) -> bool:
        """Say that it calls tools."""
        return True


Path("clerk.yaml").write_text(CLERK, encoding="utf-8")
# The command stands on the PATH; it may have an environment of its own. Two calls an hour are allowed.
command = StdioServerParameters(
    command="capset",
    args=["mcp", "--agent", "clerk.yaml", "--principal", "ada", "--db", "capset.db", "--limit", "2/1h"],
    env={"PATH": os.environ["PATH"]},
)
with MCPServerAdapter(command) as tools:
    # A real model would be named instead: llm="gpt-5.4".
    llm = ScriptedLLM(model="scripted")
    clerk = Agent(role="clerk", goal="Add.", backstory="A clerk.", llm=llm, tools=tools, cache=False)
    task = Task(description="Add three times.", expected_output="The sums.", agent=clerk)
    crew: Any = Crew(agents=[clerk], tasks=[task], cache=False)  # CrewAI leaves types of ``kickoff`` open
    print(crew.kickoff())

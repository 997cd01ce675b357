"""Crews of CrewAI in a process without capset: a line of JSON for each run, and one for what became of it."""

from __future__ import annotations

import json
import sys
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai_tools import MCPServerAdapter
from pydantic import PrivateAttr


class ScriptedLLM(BaseLLM):
    """A model that makes the calls of one list a step, then says its last word; it keeps what it was sent."""

    steps: list[list[tuple[str, Any]]]
    last_word: str = "done"
    _sent: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The messages and tools of each request."""
        return self._sent

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Answer as a model of OpenAI's does: by calls, or by a text."""
        offered = [tool["function"] for tool in tools or []]
        self._sent.append({"messages": json.loads(json.dumps(messages)), "tools": offered})
        at = sum(message["role"] == "assistant" for message in messages)
        if at >= len(self.steps):
            return self.last_word
        return [
            {
                "id": f"call-{at + 1}-{place}",
                "type": "function",
                "function": {"name": name, "arguments": _text(arguments)},
            }
            for place, (name, arguments) in enumerate(self.steps[at], 1)
        ]

    def get_context_window_size(self) -> int:
        """Say how many tokens it takes: CrewAI keeps results from a model that takes few."""
        return 200_000

    def supports_function_calling(self) -> bool:
        """Say that it calls tools."""
        return True


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a crew of one agent, and return what its model was sent and read."""
    llm = ScriptedLLM(model="scripted", steps=request["steps"])
    with MCPServerAdapter({"url": request["url"], "transport": "streamable-http"}, connect_timeout=10) as tools:
        agent = Agent(role="clerk", goal="Pay.", backstory="A clerk.", llm=llm, tools=tools, cache=False)
        crew = Crew(agents=[agent], tasks=[Task(description="go", expected_output="a word", agent=agent)], cache=False)
        output = str(crew.kickoff())
    read = [message["content"] for message in llm.sent[-1]["messages"] if message["role"] == "tool"]
    return {"output": output, "sent": llm.sent, "read": read}


def main() -> None:
    """Run what is asked for on standard input, until it ends."""
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except Exception as error:  # the test that asked for it reads it
            answer = {"error": repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

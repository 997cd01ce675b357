"""A program whose agents use a model at once, `spending.py URL`: it says what they used for each plan that it reads."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.governance.allowances import Allowance
from capset.errors import BudgetExceeded
from capset_agents import meter
from capset_agents.runner import AgentRunner

TOKENS = 2_000
"""The most tokens of an answer."""
CALLS = 3
"""The most calls of an answer."""


class Spending:
    """The usage of the agents of one plan: the tokens of each answer, and the calls that were made."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.tokens: list[int] = []
        self.calls = 0
        self._hangs = bool(plan.get("hangs"))
        self._random = random.Random(plan["seed"])
        self._numbers = 0

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer with calls, after a moment."""
        if self._hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(self._random.uniform(0, 0.01))
        tokens = self._random.randint(1, TOKENS)
        self.tokens.append(tokens)
        parts = [ToolCallPart("look", {"text": self._number()}) for _ in range(self._random.randint(1, CALLS))]
        return ModelResponse(parts=parts, usage=RequestUsage(output_tokens=tokens))

    def agent(self) -> Agent:
        """Return the agent that they are."""

        @tool(effect="read")
        async def look(text: str) -> str:
            """Look at something.

            Args:
                text: At what.
            """
            self.calls += 1
            return text

        return Agent("spender", uses=[Capability("kit", tools=[look])], model_settings={"max_tokens": TOKENS})

    def _number(self) -> str:
        self._numbers += 1
        return str(self._numbers)


async def spend(url: str, plan: Mapping[str, Any]) -> Spending:
    """Have as many agents as planned work until each is refused."""
    spending = Spending(plan)
    agent = spending.agent()
    principal = Principal(plan["principal"], allowance=Allowance(usage=plan["limit"]))
    runner = AgentRunner(FunctionModel(spending.answer, model_name="gpt-4o"))

    async def work(kernel: Kernel) -> None:
        async with kernel.open(agent, principal=principal) as session:
            try:
                await session.run("go")
            except BudgetExceeded:
                return
        raise AssertionError("it was not refused")

    async with Kernel(store=url, generator=runner) as kernel:
        await asyncio.gather(*[work(kernel) for _ in range(plan["agents"])])
    return spending


async def main(url: str) -> None:
    print("ready", flush=True)
    with patch.object(meter, "POLL_SECONDS", 0.2):
        while line := await asyncio.to_thread(sys.stdin.readline):
            spending = await spend(url, json.loads(line))
            print(json.dumps({"tokens": spending.tokens, "calls": spending.calls}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

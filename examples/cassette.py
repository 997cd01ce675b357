"""The answers of a model, recorded and given again; a changed tool is named before anything is done with it."""

import asyncio
import tempfile
from pathlib import Path

from pydantic_ai.models import Model

from capset import Agent, Capability, Kernel, Principal, tool
from capset.errors import CapsetError
from capset_agents.runner import AgentRunner
from capset_testing import Call, CassetteModel, CassetteRecorder, ScriptedModel


def shop(description: str) -> Agent:
    """Return an agent with a tool of this description."""

    @tool(effect="read", description=description)
    def price(of: str) -> float:
        return 1.2

    return Agent("shop", system_prompt="You sell things.", uses=[Capability("prices", tools=[price])])


async def sell(model: Model, description: str = "Return a price.") -> None:
    """Ask the agent once, and print what comes of it."""
    async with (
        Kernel("memory://", generator=AgentRunner(model)) as kernel,
        kernel.open(shop(description), principal=Principal("ada")) as session,
    ):
        try:
            print(await session.run("what is milk?"))
        except CapsetError as error:
            print(f"{error.code}: {error.message}")


async def main() -> None:
    """Record a run, play it again, and once more after a change."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.jsonl"
        await sell(CassetteRecorder(ScriptedModel(Call("price", of="milk"), "Milk is 1.20."), file))  # or a real model
        await sell(CassetteModel(file))
        await sell(CassetteModel(file), "Return the price of something.")


asyncio.run(main())
# Milk is 1.20.
# Milk is 1.20.
# cassette_mismatch: The request to the model differs from exchange 1 of the cassette shop.jsonl: the tools changed
# (price changed). Record it again: capset run AGENT TASK --model script:script --record shop.jsonl

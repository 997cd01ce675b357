"""An agent with a model of a provider, chosen by the key in the environment; without one, it says which it needs."""

import asyncio
import os

from capset import Agent, Capability, Kernel, Principal, tool
from capset_agents.runner import AgentRunner

MODELS = {
    "OPENAI_API_KEY": "openai:gpt-5",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "GOOGLE_API_KEY": "google-gla:gemini-2.5-pro",
}


@tool(effect="read")
def price(of: str) -> float:
    """Return the price of something in a shop, in euros.

    Args:
        of: The thing, such as milk.
    """
    return {"milk": 1.2, "bread": 2.5}.get(of, 9.9)


shop = Agent("shop", system_prompt="You know what things cost.", uses=[Capability("prices", tools=[price])])


async def main() -> None:
    """Ask the agent something."""
    model = next((model for key, model in MODELS.items() if os.environ.get(key)), None)
    if model is None:
        print(f"This needs a key: set {', '.join(MODELS)}, and install the provider's package,")
        print("such as pip install 'pydantic-ai-slim[openai]' (or [anthropic], [google]).")
        return
    async with (
        Kernel(store="memory://", generator=AgentRunner(model)) as kernel,
        kernel.open(shop, principal=Principal("ada")) as session,
    ):
        print(await session.run("What do milk and two loaves of bread cost?"))


asyncio.run(main())

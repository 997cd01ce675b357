"""A bank with an agent, as OpenAI's client speaks with it."""

from __future__ import annotations

import openai

from tests.helpers.server.support import Site


class Bank:
    """A server whose agent is refused one call, and pays once it may; ``boss`` approves."""

    def __init__(self, server: Site, agent: str) -> None:
        self.here = server
        self.agent = agent

    def client(self, user: str = "ada") -> openai.AsyncOpenAI:
        """Return OpenAI's client of a principal, as a user of it would make it."""
        return openai.AsyncOpenAI(
            base_url=f"{self.here.url}/v1", api_key=self.here.keys[user], max_retries=0, timeout=20
        )

    async def decide(self, approval: str, answer: str = "approve") -> None:
        """Have the boss decide a request over REST."""
        async with self.here.client("boss") as boss:
            (await boss.post(f"/v1/approvals/{approval}/{answer}", json={})).raise_for_status()

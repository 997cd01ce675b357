"""Steps at once: as much as each may use is reserved before it begins, for all who count it (spec 6, R14, R24)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from capset import Agent, Capability, tool
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.hooks import Hooks
from capset.definitions.governance.settings import Governance
from capset.flows import as_tool
from capset_agents.budgets import TurnBudget
from capset_agents.turn_model import IMAGE_TOKENS, max_usage
from tests.helpers.agents.support import Shelf, Site, site
from tests.waiting import moment, until

HELPERS = 24
"""How many agents the head asks at once; each takes two steps."""


@tool(effect="read")
def look(text: str) -> str:
    """Look at something.

    Args:
        text: At what.
    """
    return f"seen {text}"


def house(**settings: int) -> Agent:
    """Return an agent with a helper whose model has these settings."""
    kit = Capability("kit", tools=[look])
    helper = Agent("helper", description="Helps.", system_prompt="Help.", uses=[kit], model_settings=settings)
    staff = Capability("staff", tools=[as_tool(helper, effect="write")])
    return Agent("head", system_prompt="Have others work.", uses=[staff])


@dataclass
class Crowd:
    """The model of a head that asks all helpers at once, and of the helpers; what these have used."""

    usage: RequestUsage
    """That of each of the helpers' answers."""
    steps: int = 0
    """How many answers all of them have given."""
    helped: int = 0
    """How many of these are the helpers'."""
    under_way: int = 0
    most: int = 0
    """How many of the helpers' were under way at once."""

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer a helper: it looks, and is done."""
        self.steps, self.helped, self.under_way = self.steps + 1, self.helped + 1, self.under_way + 1
        self.most = max(self.most, self.under_way)
        await moment()
        self.under_way -= 1
        has_looked = any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        part = TextPart("done") if has_looked else ToolCallPart("look", {"text": "it"})
        return ModelResponse(parts=[part], usage=replace(self.usage))

    async def stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        """Answer the head."""
        self.steps += 1
        if any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts):
            yield "All is done."
        else:
            yield {
                number: DeltaToolCall("helper", f'{{"input": "{number}"}}', tool_call_id=f"call-{number}")
                for number in range(HELPERS)
            }

    def model(self) -> FunctionModel:
        """Return the model, at the price of one that is known."""
        return FunctionModel(self.answer, stream_function=self.stream, model_name="gpt-4o")


async def ended(host: Site) -> dict[str, Any]:
    """Take a turn of the head, and return how it ends."""
    row = await host.session()
    await host.say(row, "go")
    return (await host.last(row))[1]


@pytest.mark.spec("R14", "R23", "T8")
async def test_agents_at_once_use_no_step_of_their_turn_too_many(url: str, shelf: Shelf) -> None:
    crowd = Crowd(RequestUsage(input_tokens=10, output_tokens=10))
    async with site(url, shelf, [], agent=house(), model=crowd.model(), budget=TurnBudget(steps=10)) as host:
        assert (await ended(host))["error"]["code"] == "budget_exceeded"
    assert crowd.steps == 10


@pytest.mark.spec("R23", "R24", "T8")
@pytest.mark.parametrize("limit", ["steps=5/1h", "steps=5/1h per org", "steps=5 per session", "steps=5/1h per all"])
async def test_agents_at_once_use_no_step_of_a_limit_too_many(url: str, shelf: Shelf, limit: str) -> None:
    crowd = Crowd(RequestUsage(input_tokens=10, output_tokens=10))
    governance = Governance(allowance=Allowance(usage=limit))
    async with site(url, shelf, [], agent=house(), model=crowd.model(), governance=governance) as host:
        assert "may use 5 steps" in (await ended(host))["error"]["message"]
    assert crowd.steps == 5


@pytest.mark.spec("R14", "R24", "T8")
@pytest.mark.parametrize("where", ["turn", "limit"])
@pytest.mark.parametrize(("resource", "maximum", "step"), [("tokens", 20_000, 1_000), ("cost", 0.2, 0.01)])
async def test_tokens_and_money_are_exceeded_by_one_step_of_one_agent_at_most(
    url: str, shelf: Shelf, where: str, resource: str, maximum: float, step: float
) -> None:
    """Of the helpers' answers each has 1,000 tokens, at ten dollars a million."""
    crowd = Crowd(RequestUsage(output_tokens=1_000))
    options: dict[str, Any] = {"governance": Governance(allowance=Allowance(usage=f"{resource}={maximum}/1h"))}
    if where == "turn":
        options = {"budget": replace(TurnBudget(), **{resource: maximum})}
    async with site(url, shelf, [], agent=house(max_tokens=1_000), model=crowd.model(), **options) as host:
        assert (await ended(host))["error"]["code"] == "budget_exceeded"
    used = crowd.helped * step
    assert maximum * 0.8 <= used <= maximum + step, "the rest is the head's"


@pytest.mark.spec("R14", "R24")
async def test_what_others_may_use_is_waited_for(url: str, shelf: Shelf) -> None:
    """Each may use more than 16,000 tokens, and uses 20: all of them get their turn, some at a time."""
    crowd = Crowd(RequestUsage(input_tokens=10, output_tokens=10))
    budget = TurnBudget(steps=200, tokens=100_000)
    async with site(url, shelf, [], agent=house(), model=crowd.model(), budget=budget) as host:
        assert await ended(host) == {"output": "All is done."}
    assert crowd.steps == 2 + 2 * HELPERS
    assert 2 <= crowd.most <= 100_000 / 16_384 + 1


@pytest.mark.spec("R14")
async def test_steps_at_a_price_that_is_told_afterwards_go_one_by_one(url: str, shelf: Shelf) -> None:
    """They may cost all that is left; what they have cost is known by the name of the model in their answers."""

    class Alias(FunctionModel):
        @property
        def model_name(self) -> str:
            return "the house's own"

    crowd = Crowd(RequestUsage(input_tokens=10, output_tokens=10))
    model = Alias(crowd.answer, stream_function=crowd.stream, model_name="gpt-4o")
    budget = TurnBudget(steps=200, cost=5.0)
    async with site(url, shelf, [], agent=house(), model=model, budget=budget) as host:
        assert await ended(host) == {"output": "All is done."}
    assert (crowd.steps, crowd.most) == (2 + 2 * HELPERS, 1)


@pytest.mark.spec("R24", "T8")
async def test_a_cancelled_step_counts_as_far_as_it_came(url: str, shelf: Shelf) -> None:
    """Who reads an answer, and cancels it just before its end, pays for it."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for _ in range(100):
            yield "word " * 100
        shelf.done.append("told")
        await asyncio.Event().wait()

    governance = Governance(allowance=Allowance(usage="tokens=10000/1h"))
    model = FunctionModel(stream_function=stream)
    async with site(url, shelf, [], model=model, governance=governance) as host:
        row = await host.session()
        turn = await host.begin(row, "go")
        await until(lambda: bool(shelf.done))
        await host.turns.cancel(row, turn, by="user:ada")
        session = await host.reopen(row, {}, Hooks())

        async def used() -> float | None:
            usages = await session.consumption()
            return next(usage.used for usage in usages if usage.resource == "model_tokens")

        tokens = await until(used)
        assert tokens is not None
        assert 12_500 <= tokens < 14_000
        following = await host.session()
        await host.say(following, "go")
        assert (await host.last(following))[1]["error"]["code"] == "budget_exceeded"


def test_a_request_is_estimated_by_its_bytes_and_the_longest_answer() -> None:
    """Text of any kind has a token for each byte at most; an image has no more than any image."""
    image = BinaryContent(b"0" * 1_000_000, media_type="image/png")
    messages = [ModelRequest(parts=[UserPromptPart(["ö" * 500, image])], instructions="Be brief.")]
    model = FunctionModel(Crowd(RequestUsage()).answer, model_name="gpt-4o", settings={"max_tokens": 300})
    estimate = max_usage(model, messages, None, ModelRequestParameters(), needs_price=True)
    assert 1_309 + IMAGE_TOKENS <= estimate.tokens < 1_400 + IMAGE_TOKENS
    assert 0.003 < estimate.cost < 1.0
    larger = max_usage(model, messages, {"max_tokens": 1_300}, ModelRequestParameters(), needs_price=True)
    assert larger.tokens == estimate.tokens + 1_000

"""Prompts: tools that are offered as such, and the instructions of capabilities."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ImageContent, PromptReference, TextContent
from pydantic import Field

from capset import Agent, Capability, Context, Kernel, Principal, ToolError, tool
from capset.definitions.references import AnyRef
from capset.ext import Content, Image, McpPrompt, McpResource
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.server.mcp.support import PREFIX, Era, bench, echo

Tone = Literal["friendly", "formal", "FIRM"]


@tool(effect="read")
async def review(
    text: Annotated[str, Field(description="The text.", examples=["hello"])], tone: Tone = "formal"
) -> str:
    """Review a text."""
    return f"Review this, {tone}: {text}"


@tool(effect="read")
async def look() -> list[str | Content]:
    """Look at a picture."""
    return [Image(data=b"png", media_type="image/png"), "What is this?"]


@tool(effect="read", permissions={"plans:read"})
async def plan() -> dict[str, int]:
    """Give the plan."""
    return {"steps": 3}


@tool(effect="read")
async def broken(kind: str) -> str:
    """Fail."""
    if kind == "told":
        raise ToolError("not today", code="not_today", status=409)
    raise RuntimeError("the password is hunter2")


OFFERS = [McpPrompt(review, title="Review a text"), McpPrompt(look), McpPrompt(plan), McpPrompt(broken)]
KIT = (review, look, plan, broken, echo)


@pytest.mark.spec("M11")
async def test_prompts_are_those_whose_tools_are_in_play(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS, told="Be brief.") as workbench:
        prompt_list = await workbench.client.list_prompts()
        assert [prompt.name for prompt in prompt_list.prompts] == ["review", "look", "broken", "kit.instructions"]
        first, second, *_ = prompt_list.prompts
        assert (first.title, first.description) == ("Review a text", "Review a text.")
        assert second.title is None
        assert [(argument.name, argument.description, argument.required) for argument in first.arguments or []] == [
            ("text", "The text.", True),
            ("tone", None, False),
        ]
    async with bench(era, *KIT, offers=OFFERS, permissions={"plans:read"}) as workbench:
        names = [prompt.name for prompt in (await workbench.client.list_prompts()).prompts]
        assert names == ["review", "look", "plan", "broken"]
        with pytest.raises(MCPError, match="one page"):
            await workbench.client.list_prompts(cursor="x")


@pytest.mark.spec("M11")
async def test_getting_one_is_a_call_on_record(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS, permissions={"plans:read"}) as workbench:
        got = await workbench.client.get_prompt("review", {"text": "hi"})
        (message,) = got.messages
        assert (message.role, got.description) == ("user", "Review a text.")
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Review this, formal: hi"
        (record,) = await workbench.records(tool="review")
        assert (record.outcome, record.capability) == ("succeeded", "kit")
        assert got.meta is not None
        assert got.meta[f"{PREFIX}record"] == record.id
        image, text = (await workbench.client.get_prompt("look")).messages
        assert isinstance(image.content, ImageContent)
        assert isinstance(text.content, TextContent)
        (data,) = (await workbench.client.get_prompt("plan")).messages
        assert isinstance(data.content, TextContent)
        assert data.content.text == '{"steps": 3}'


@pytest.mark.spec("M11")
async def test_a_refusal_and_a_failure_are_errors_and_on_record(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS) as workbench:

        async def refused(name: str, **arguments: str) -> MCPError:
            with pytest.raises(MCPError) as caught:
                await workbench.client.get_prompt(name, arguments)
            return caught.value

        error = await refused("review", text="x", tone="rude")
        assert error.code == INVALID_PARAMS
        assert error.data[f"{PREFIX}error"]["code"] == "invalid_arguments"
        assert "not today" in (await refused("broken", kind="told")).message
        hidden = await refused("broken", kind="untold")
        assert "hunter2" not in f"{hidden.message} {hidden.data}"
        assert [record.outcome for record in await workbench.records()] == ["invalid", "failed", "failed"]
        assert "did you mean 'review'?" in (await refused("reviews")).message
        assert "unknown prompt 'echo'" in (await refused("echo", text="x")).message, "a tool that is not offered"
        assert "unknown prompt 'plan'" in (await refused("plan")).message, "it is not in play"
        assert len(await workbench.records()) == 3


@pytest.mark.spec("M11")
async def test_instructions_of_a_capability_are_a_prompt(era: Era) -> None:
    async with bench(era, told="Use `echo` with care.") as workbench:
        (message,) = (await workbench.client.get_prompt("kit.instructions")).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Use `echo` with care."
        with pytest.raises(MCPError, match="takes no arguments"):
            await workbench.client.get_prompt("kit.instructions", {"a": "b"})
        with pytest.raises(MCPError, match="unknown prompt"):
            await workbench.client.get_prompt("other.instructions")
    async with bench(era) as workbench:
        assert (await workbench.client.list_prompts()).prompts == []


@pytest.mark.spec("M11")
@pytest.mark.parametrize(
    ("argument", "typed", "values"),
    [("tone", "f", ["friendly", "formal", "FIRM"]), ("tone", "FO", ["formal"]), ("text", "", ["hello"])],
)
async def test_arguments_complete_to_choices_and_examples(
    argument: str, typed: str, values: list[str], era: Era
) -> None:
    async with bench(era, *KIT, offers=OFFERS) as workbench:
        ref = PromptReference(name="review")
        completion = (await workbench.client.complete(ref, {"name": argument, "value": typed})).completion
        assert (completion.values, completion.total, completion.has_more) == (values, len(values), False)


@pytest.mark.spec("M11")
async def test_there_is_nothing_to_complete_for_what_there_is_not(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS, told="Be brief.") as workbench:
        cases: list[tuple[str, str]] = [
            ("reviews", "text"),
            ("plan", "a"),
            ("review", "texts"),
            ("kit.instructions", "a"),
        ]
        for name, argument in cases:
            partial_argument: dict[str, Any] = {"name": argument, "value": ""}
            with pytest.raises(MCPError) as caught:
                await workbench.client.complete(PromptReference(name=name), partial_argument)
            assert caught.value.code == INVALID_PARAMS


@pytest.mark.spec("M11")
async def test_offers_follow_names_and_dynamic_uses(era: Era) -> None:
    kit = Capability("kit", tools=[review, look], mcp=[McpPrompt(review), McpResource("kit://look", look)])

    def inside(ctx: Context) -> list[AnyRef]:
        return [kit.with_names(prefix="k_")]

    agent = Agent("tester", uses=[inside])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        exchange = Exchange(session)
        async with Client(make_server(lambda: exchange), mode=era) as client:
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["k_review"]
            (message,) = (await client.get_prompt("k_review", {"text": "hi"})).messages
            assert isinstance(message.content, TextContent)
            assert message.content.text == "Review this, formal: hi"
            assert [resource.name for resource in (await client.list_resources()).resources] == ["k_look"]
            assert len((await client.read_resource("kit://look")).contents) == 2

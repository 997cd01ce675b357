"""Tools that ask the person behind their client, in several rounds."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)
from pydantic import BaseModel, Field

from capset import Context, Principal, tool
from capset.definitions.governance.limits import Limit
from capset.ext import Answer, McpPrompt, McpResource
from capset.stores.base import ApprovalQuery
from tests.helpers.server.mcp.person import Person, accept
from tests.helpers.server.mcp.support import PREFIX, bench, site, text_of
from tests.helpers.server.mcp.tasking import Tasker

started: list[str] = []


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    size: Size = Size.SMALL
    pieces: int = Field(ge=1, le=9, description="How many.")
    note: str | None = None


class Sure(BaseModel):
    sure: bool


@tool(effect="write")
async def order(ctx: Context, article: str) -> str:
    """Order something."""
    started.append(article)
    answer = await ctx.ask_client("order", f"How many of {article}?", Order)
    if answer.data is None:
        return answer.action
    if answer.data.pieces > 5:
        sure = await ctx.ask_client("sure", "That many?", Sure)
        if sure.data is None or not sure.data.sure:
            return "not that many"
    return f"{answer.data.pieces} {answer.data.size.value} {article}"


@tool(effect="read")
async def greeting(ctx: Context) -> str:
    """Greet."""
    return f"Hello: {(await ctx.ask_client('sure', 'Sure?', Sure)).action}"


@tool(effect="write", approval="ask")
async def pay(ctx: Context) -> str:
    """Pay."""
    await ctx.ask_client("sure", "Sure?", Sure)
    started.append("paid")
    return "paid"


@tool(effect="read", limits=[Limit(3, "1h")])
async def limited(ctx: Context) -> str:
    """Ask, a few times."""
    await ctx.ask_client("sure", "Sure?", Sure)
    return "done"


@tool(effect="read")
async def relay(ctx: Context, article: str) -> str:
    """Order by way of another tool."""
    return await ctx.call(order, article=article)


@tool(effect="read")
async def picky(ctx: Context) -> str:
    """Need something."""
    ctx.require_client("extensions.io.example/ui")
    return "done"


@pytest.fixture(autouse=True)
def nothing_has_started() -> None:
    started.clear()


@pytest.mark.spec("M12")
async def test_a_call_asks_and_is_made_again_with_the_answer() -> None:
    person = Person(accept(pieces=2, size="large"))
    async with bench("auto", order, elicitation_callback=person) as workbench:
        assert text_of(await workbench.client.call_tool("order", {"article": "tea"})) == "2 large tea"
        (question,) = person.asked
        assert question.message == "How many of tea?"
        assert question.requested_schema == {
            "type": "object",
            "properties": {
                "size": {"type": "string", "enum": ["small", "large"], "default": "small"},
                "pieces": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."},
                "note": {"type": "string"},
            },
            "required": ["pieces"],
        }
        assert started == ["tea", "tea"]
        first, second = await workbench.records()
        assert (first.outcome, first.code, first.decision) == ("denied", "input_required", "allow")
        assert second.outcome == "succeeded"
        intents = [record for record in await workbench.kernel.audit.read() if record.phase == "intent"]
        assert len(intents) == 2, "each round may have effects, as far as anybody can know"


HOW_MANY = "How many of tea?"
MISFITS: list[dict[str, Any]] = [{}, {"pieces": 99}, {"pieces": "2"}, {"pieces": 2, "more": "x"}, {"pieces": 2.5}]


@pytest.mark.parametrize(
    ("answers", "questions", "text"),
    [
        ([accept(pieces=8), accept(sure=True)], [HOW_MANY, "That many?"], "8 small tea"),
        ([ElicitResult(action="decline")], [HOW_MANY], "decline"),
        ([ElicitResult(action="cancel")], [HOW_MANY], "cancel"),
        *(([accept(**misfit), accept(pieces=1)], [HOW_MANY, HOW_MANY], "1 small tea") for misfit in MISFITS),
    ],
)
@pytest.mark.parametrize("tool", ["order", "relay"])
async def test_questions_follow_each_other_and_what_does_not_fit_is_asked_for_again(
    tool: str, answers: list[ElicitResult], questions: list[str], text: str
) -> None:
    person = Person(*answers)
    async with bench("auto", order, relay, elicitation_callback=person) as workbench:
        assert text_of(await workbench.client.call_tool(tool, {"article": "tea"})) == text
        assert [question.message for question in person.asked] == questions
        rounds = [record.outcome for record in await workbench.records(tool=tool)]
        assert rounds == ["denied"] * len(questions) + ["succeeded"]


@pytest.mark.spec("M12")
async def test_prompts_and_resources_ask_in_the_same_way() -> None:
    offers = [McpPrompt(greeting), McpResource("kit://greeting", greeting)]
    person = Person(accept(sure=True), accept(sure=False))
    async with bench("auto", greeting, offers=offers, elicitation_callback=person) as workbench:
        (message,) = (await workbench.client.get_prompt("greeting")).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Hello: accept"
        (read,) = (await workbench.client.read_resource("kit://greeting")).contents
        assert read.model_dump()["text"] == "Hello: accept"
        assert [record.outcome for record in await workbench.records()] == ["pending", "succeeded"] * 2


@pytest.mark.spec("M12")
async def test_an_approval_is_used_up_by_the_round_that_does_it() -> None:
    async with bench("auto", pay, elicitation_callback=Person(accept(sure=True))) as workbench:
        assert (await workbench.client.call_tool("pay")).is_error
        (request,) = (await workbench.kernel.approvals.list(ApprovalQuery(None))).items
        await workbench.kernel.approvals.decide(request.id, Answer(approved=True), by=Principal("boss"))
        assert text_of(await workbench.client.call_tool("pay")) == "paid"
        assert "code: approval_required" in text_of(await workbench.client.call_tool("pay"))
        assert started == ["paid"]
        assert [record.outcome for record in await workbench.records()] == [
            "pending",
            "pending",
            "succeeded",
            "pending",
        ]


@pytest.mark.spec("M12")
async def test_each_round_counts_in_limits() -> None:
    async with bench("auto", limited, elicitation_callback=Person(*[accept(sure=True)] * 3)) as workbench:
        assert text_of(await workbench.client.call_tool("limited")) == "done"
        assert "code: limit_exceeded" in text_of(await workbench.client.call_tool("limited"))


@pytest.mark.spec("M12")
async def test_a_client_without_forms_is_told_what_it_lacks() -> None:
    async with bench("auto", order, picky) as workbench:
        for name, arguments, lacks in (
            ("order", {"article": "tea"}, {"elicitation": {"form": {}}}),
            ("picky", {}, {"extensions": {"io.example/ui": {}}}),
        ):
            with pytest.raises(MCPError) as caught:
                await workbench.client.call_tool(name, arguments)
            assert caught.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
            assert caught.value.data == {"requiredCapabilities": lacks}
        outcomes = {(record.outcome, record.code) for record in await workbench.records()}
        assert outcomes == {("denied", "client_capability_missing")}


@pytest.mark.spec("M12")
async def test_an_older_client_cannot_be_asked() -> None:
    async with bench("legacy", order, elicitation_callback=Person()) as workbench:
        result = await workbench.client.call_tool("order", {"article": "tea"})
        assert result.is_error
        assert "code: client_capability_missing" in text_of(result)


@pytest.mark.spec("M12")
async def test_a_state_is_for_its_caller_path_tool_and_arguments() -> None:
    async with site(order, greeting) as server:

        def caller(token: str = "ada", path: str = "tester") -> Tasker:
            return Tasker(f"{server.url}/mcp/agents/{path}", token, {"elicitation": {}})

        first = await caller().call("order", article="tea")
        assert first["resultType"] == "input_required"
        answers = {"order": {"action": "accept", "content": {"pieces": 8}}}
        more = {"inputResponses": answers, "requestState": first["requestState"]}
        state = (await caller().call("order", more=more, article="tea"))["requestState"]
        assert state != first["requestState"]
        assert "pieces" not in state, "it is encrypted"
        started.clear()
        sure = {"sure": {"action": "accept", "content": {"sure": True}}}
        good = {"name": "order", "arguments": {"article": "tea"}, "inputResponses": sure, "requestState": state}
        flipped = state[:-2] + ("AA" if state[-2:] != "AA" else "BB")
        forged = (state + "x", flipped, '{"answers": {}}', "")
        for tasker, changed in (
            (caller("bob"), {}),
            (caller(path="other"), {}),
            (caller(), {"name": "greeting", "arguments": {}}),
            (caller(), {"arguments": {"article": "gold"}}),
            *((caller(), {"requestState": forged_state}) for forged_state in forged),
        ):
            assert await tasker.refused("tools/call", {**good, **changed}) == INVALID_PARAMS, changed
            assert started == [], "no handler has seen it"
        assert (await caller().ask("tools/call", good))["content"][0]["text"] == "8 small tea"


@pytest.mark.spec("M12")
async def test_a_missing_capability_is_400_by_http() -> None:
    async with site(order, picky) as server:
        picking = Tasker(f"{server.url}/mcp/agents/tester", "ada", {"elicitation": {}})
        response = await picking.post("tools/call", {"name": "picky", "arguments": {}})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == MISSING_REQUIRED_CLIENT_CAPABILITY


@pytest.mark.spec("M12")
async def test_answers_that_nobody_asked_for_change_nothing() -> None:
    async with bench("auto", order, elicitation_callback=Person()) as workbench:
        extra: Any = {"other": accept(pieces=3), "order": accept(pieces=2)}
        result = await workbench.client.session.call_tool("order", {"article": "tea"}, input_responses=extra)
        assert text_of(result) == "2 small tea"


@pytest.mark.spec("M12")
async def test_the_first_answer_to_a_question_stands() -> None:
    async with bench("auto", order, elicitation_callback=Person()) as workbench:
        call = workbench.client.session.call_tool
        eight: Any = {"order": accept(pieces=8)}
        question = await call("order", {"article": "tea"}, input_responses=eight, allow_input_required=True)
        assert isinstance(question, InputRequiredResult)
        assert list(question.input_requests or {}) == ["sure"]
        assert (question.meta or {})[f"{PREFIX}record"] == (await workbench.records())[0].id
        other: Any = {"order": accept(pieces=1), "sure": accept(sure=True)}
        state = question.request_state
        assert (
            text_of(await call("order", {"article": "tea"}, input_responses=other, request_state=state))
            == "8 small tea"
        )


@pytest.mark.spec("M12")
async def test_answers_that_grow_without_end_are_refused() -> None:
    class Essay(BaseModel):
        text: str

    @tool(effect="read")
    async def collect(ctx: Context) -> str:
        """Ask, and ask."""
        for number in range(3):
            await ctx.ask_client(f"part {number}", "More?", Essay)
        return "done"

    person = Person(*(accept(text="x" * 40_000) for _ in range(3)))
    async with bench("auto", collect, elicitation_callback=person) as workbench:
        with pytest.raises(MCPError, match="more than 65,536 characters"):
            await workbench.client.call_tool("collect")

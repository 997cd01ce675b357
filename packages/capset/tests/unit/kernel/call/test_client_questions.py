"""Handlers that ask the client of their call, whatever interface it came by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from capset import Agent, Context, Principal, Session, tool
from capset.errors import ApprovalRequired, ClientCapabilityMissing, ClientInputRequired, InternalError, LimitExceeded
from capset.ext import Answer, ClientAnswer, ClientQuestion, Governance, Limit
from capset.kernel.governance.redaction import MASK
from tests.helpers.kernel.support import Desk, desk, opened

pytestmark = pytest.mark.spec("M12")
reads = tool(effect="read", description="For a test.")
M = TypeVar("M", bound=BaseModel)


class Name(BaseModel):
    name: str


class Inner(BaseModel):
    inner: Name


@reads
async def greet(ctx: Context) -> str:
    answer = await ctx.ask_client("name", "Who are you?", Name)
    return f"Hello, {answer.data.name}" if answer.data else answer.action


@reads
async def relay(ctx: Context) -> str:
    return await ctx.call(greet)


@reads
async def need(ctx: Context, name: str) -> str:
    ctx.require_client(name)
    return "there"


class Person:
    def __init__(self, answer: Mapping[str, Any] | None, **capabilities: Any) -> None:
        self.answer = answer
        self.capabilities: Mapping[str, Any] = capabilities
        self.questions: list[str] = []

    async def ask(self, question: ClientQuestion[M]) -> ClientAnswer[M]:
        self.questions.append(question.message)
        if self.answer is None:
            raise ClientInputRequired(f"{question.message} Call again.")
        return ClientAnswer("accept", question.read(self.answer))


async def test_a_host_answers_in_process_and_nested_calls_ask_the_same() -> None:
    async with desk(greet, relay) as harness:
        session = harness.session.options(client=Person({"name": "Ada"}, elicitation={}))
        assert await session.call(greet) == "Hello, Ada"
        assert await session.call(relay) == "Hello, Ada"


async def test_who_cannot_be_asked_is_told_so() -> None:
    async with desk(greet, relay) as harness:
        with pytest.raises(ClientCapabilityMissing, match="cannot be asked here") as caught:
            await harness.session.call(greet)
        assert (caught.value.code, caught.value.status) == ("client_capability_missing", 400)
        for capabilities in ({}, {"elicitation": {"url": {}}}, {"elicitation": None}):
            with pytest.raises(ClientCapabilityMissing, match="shows no forms") as caught:
                await harness.session.options(client=Person({"name": "Ada"}, **capabilities)).call(relay)
            assert caught.value.required == {"elicitation": {"form": {}}}
        assert {record.outcome for record in await harness.records()} == {"denied"}


async def test_a_question_without_an_answer_ends_every_call_around_it() -> None:
    async with desk(greet, relay) as harness:
        with pytest.raises(ClientInputRequired, match="Call again") as caught:
            await harness.session.options(client=Person(None, elicitation={})).call(relay)
        assert caught.value.status == 409
        records = [(record.tool, record.outcome, record.code) for record in await harness.records()]
        assert records == [("greet", "pending", "input_required"), ("relay", "pending", "input_required")]


async def approved(harness: Desk, tool_name: str, **arguments: str) -> Session:
    """Call a tool that needs an approval, give it, and return the session that has it."""
    session = harness.session.options(approvals="defer")
    error = (await session.try_message(session.message(tool_name, arguments))).error
    assert isinstance(error, ApprovalRequired)
    await harness.kernel.approvals.decide(error.approval or "", Answer(approved=True), by=Principal("boss"))
    return session


@tool(effect="write", approval="ask", limits=[Limit(3, "1h")])
async def pay(ctx: Context) -> str:
    """Pay."""
    answer = await ctx.ask_client("name", "Whom?", Name)
    return f"{answer.data and answer.data.name} is paid"


@pytest.mark.spec("G16")
@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_an_approval_is_for_the_call_that_has_the_answer(scheme: str, tmp_path: Path) -> None:
    async with desk(pay, store="memory://" if scheme == "memory" else f"sqlite:///{tmp_path}/a.db") as harness:
        session = await approved(harness, "pay")
        silent = session.options(client=Person(None, elicitation={}))
        answering = session.options(client=Person({"name": "Bob"}, elicitation={}))
        for _ in range(2):
            with pytest.raises(ClientInputRequired):
                await silent.call(pay)
        assert await answering.call(pay) == "Bob is paid"
        codes = [record.code for record in await harness.records()]
        assert codes == ["approval_required", "input_required", "input_required", None]
        with pytest.raises(LimitExceeded):
            await answering.call(pay)


@pytest.mark.spec("G26")
async def test_a_question_has_masks_too() -> None:
    @reads
    async def confirm(ctx: Context, key: str) -> str:
        return (await ctx.ask_client("key", f"Use {key}?", Name)).action

    client = Person({"name": "Ada"}, elicitation={})
    agent = Agent("keeper", tools=[confirm])
    async with opened(agent, governance=Governance(redact=[r"sk-\d+"])) as harness:
        assert await harness.session.options(client=client).call(confirm, key="sk-123") == "accept"
    assert client.questions == [f"Use {MASK}?"]


@pytest.mark.spec("G16")
async def test_an_approval_is_kept_for_a_client_that_can_do_what_the_tool_needs() -> None:
    needing = replace(need, effect="write", approval="ask")
    async with desk(needing) as harness:
        session = await approved(harness, "need", name="pages")
        with pytest.raises(ClientCapabilityMissing):
            await session.options(client=Person(None)).call(needing, "pages")
        able = session.options(client=Person(None, pages={}))
        assert await able.call(needing, "pages") == "there"
        with pytest.raises(ApprovalRequired):
            await able.call(needing, "pages")


async def test_a_form_that_is_none_is_the_authors_mistake() -> None:
    @reads
    async def deep(ctx: Context) -> None:
        await ctx.ask_client("deep", "How deep?", Inner)

    async with desk(deep) as harness:
        with pytest.raises(InternalError):
            await harness.session.options(client=Person({}, elicitation={})).call(deep)


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("sampling", {"sampling": {}}),
        ("elicitation.url", {"elicitation": {"url": {}}}),
        ("extensions.io.example/ui", {"extensions": {"io.example/ui": {}}}),
        ("elicitation.form.deep", {"elicitation": {"form": {"deep": {}}}}),
    ],
)
async def test_a_tool_may_need_any_capability(name: str, lacks: dict[str, Any]) -> None:
    async with desk(need) as harness:
        for client in (None, Person(None, elicitation={"form": True}, extensions={"io.other": {}})):
            with pytest.raises(ClientCapabilityMissing) as caught:
                await harness.session.options(client=client).call(need, name=name)
            assert caught.value.required == lacks
            assert repr(name) in caught.value.message
        elicitation = {"url": {}, "form": {"deep": {}}}
        full = Person(None, sampling={}, elicitation=elicitation, extensions={"io.example/ui": {}})
        assert await harness.session.options(client=full).call(need, name=name) == "there"

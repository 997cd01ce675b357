"""Handlers that ask the client of their call, whatever interface it came by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, Principal, tool
from capset.errors import ApprovalRequired, ClientCapabilityMissing, ClientInputRequired, InternalError, LimitExceeded
from capset.ext import Answer, ClientAnswer, ClientQuestion, Governance, Limit
from capset.kernel.governance.redaction import MASK
from tests.helpers.kernel.support import desk, opened

M = TypeVar("M", bound=BaseModel)


class Name(BaseModel):
    name: str


class Inner(BaseModel):
    inner: Name


@tool(effect="read")
async def greet(ctx: Context) -> str:
    """Greet."""
    answer = await ctx.ask_client("name", "Who are you?", Name)
    return f"Hello, {answer.data.name}" if answer.data else answer.action


@tool(effect="read")
async def relay(ctx: Context) -> str:
    """Greet by way of another."""
    return await ctx.call(greet)


@tool(effect="read")
async def deep(ctx: Context) -> str:
    """Ask what no form can."""
    await ctx.ask_client("deep", "How deep?", Inner)
    return "done"


@tool(effect="read")
async def need(ctx: Context, name: str) -> str:
    """Need a capability."""
    ctx.require_client(name)
    return "there"


class Person:
    """A client in process."""

    def __init__(self, answer: Mapping[str, Any] | None, **capabilities: Any) -> None:
        self.answer = answer
        self.capabilities: Mapping[str, Any] = capabilities

    async def ask(self, question: ClientQuestion[M]) -> ClientAnswer[M]:
        if self.answer is None:
            raise ClientInputRequired(f"{question.message} Call again.")
        return ClientAnswer("accept", question.read(self.answer))


@pytest.mark.spec("M12")
async def test_a_host_answers_in_process_and_nested_calls_ask_the_same() -> None:
    async with desk(greet, relay) as harness:
        session = harness.session.options(client=Person({"name": "Ada"}, elicitation={}))
        assert await session.call(greet) == "Hello, Ada"
        assert await session.call(relay) == "Hello, Ada"


@pytest.mark.spec("M12")
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


@pytest.mark.spec("M12")
async def test_a_question_without_an_answer_ends_every_call_around_it() -> None:
    async with desk(greet, relay) as harness:
        with pytest.raises(ClientInputRequired, match="Call again") as caught:
            await harness.session.options(client=Person(None, elicitation={})).call(relay)
        assert caught.value.status == 409
        assert [(record.tool, record.outcome, record.code) for record in await harness.records()] == [
            ("greet", "denied", "input_required"),
            ("relay", "denied", "input_required"),
        ]


@tool(effect="write", approval="ask", limits=[Limit(3, "1h")])
async def pay(ctx: Context) -> str:
    """Pay."""
    answer = await ctx.ask_client("name", "Whom?", Name)
    return f"{answer.data and answer.data.name} is paid"


@pytest.mark.spec("M12", "G16")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_an_approval_is_for_the_call_that_has_the_answer(store: str, tmp_path: Path) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with opened(Agent("payer", uses=[Capability("kit", tools=[pay])]), store=url) as harness:
        session = harness.session.options(approvals="defer")
        with pytest.raises(ApprovalRequired) as caught:
            await session.call(pay)
        assert caught.value.approval is not None
        await harness.kernel.approvals.decide(caught.value.approval, Answer(approved=True), by=Principal("boss"))
        for _ in range(2):
            with pytest.raises(ClientInputRequired):
                await session.options(client=Person(None, elicitation={})).call(pay)
        assert await session.options(client=Person({"name": "Bob"}, elicitation={})).call(pay) == "Bob is paid"
        assert [(record.outcome, record.code) for record in await harness.records()] == [
            ("denied", "approval_required"),
            ("denied", "input_required"),
            ("denied", "input_required"),
            ("succeeded", None),
        ]
        with pytest.raises(LimitExceeded):
            await session.options(client=Person({"name": "Bob"}, elicitation={})).call(pay)


@tool(effect="read")
async def confirm(ctx: Context, key: str) -> str:
    """Ask whether to use a key."""
    return (await ctx.ask_client("key", f"Use {key}?", Name)).action


@pytest.mark.spec("M12", "G26")
async def test_a_question_has_masks_too() -> None:
    class Reader(Person):
        async def ask(self, question: ClientQuestion[M]) -> ClientAnswer[M]:
            read.append(question.message)
            return await super().ask(question)

    read: list[str] = []
    agent = Agent("keeper", uses=[Capability("kit", tools=[confirm])])
    async with opened(agent, governance=Governance(redact=[r"sk-\d+"])) as harness:
        session = harness.session.options(client=Reader({"name": "Ada"}, elicitation={}))
        assert await session.call(confirm, key="sk-123") == "accept"
    assert read == [f"Use {MASK}?"]


@pytest.mark.spec("M12", "G16")
async def test_an_approval_is_kept_for_a_client_that_can_do_what_the_tool_needs() -> None:
    @tool(effect="write", approval="ask")
    async def open_page(ctx: Context) -> str:
        """Open a page."""
        ctx.require_client("pages")
        return "open"

    async with desk(open_page) as harness:
        session = harness.session.options(approvals="defer")
        with pytest.raises(ApprovalRequired) as caught:
            await session.call(open_page)
        assert caught.value.approval is not None
        await harness.kernel.approvals.decide(caught.value.approval, Answer(approved=True), by=Principal("boss"))
        with pytest.raises(ClientCapabilityMissing):
            await session.options(client=Person(None)).call(open_page)
        assert await session.options(client=Person(None, pages={})).call(open_page) == "open"
        with pytest.raises(ApprovalRequired):
            await session.options(client=Person(None, pages={})).call(open_page)


@pytest.mark.spec("M12")
async def test_a_form_that_is_none_is_the_authors_mistake() -> None:
    async with desk(deep) as harness:
        with pytest.raises(InternalError):
            await harness.session.options(client=Person({}, elicitation={})).call(deep)


@pytest.mark.spec("M12")
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
        full = Person(
            None,
            sampling={},
            elicitation={"url": {}, "form": {"deep": {}}},
            extensions={"io.example/ui": {}},
        )
        assert await harness.session.options(client=full).call(need, name=name) == "there"

"""A page that loads again: its conversation, its open approval, and the answer under way (spec 5, P95)."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from capset_agents.playback.script_model import ScriptedModel
from capset_agents.runner import AgentRunner
from tests.helpers.server.approving import till
from tests.helpers.server.protocols.front_ends import PAYS, run, run_input, user
from tests.helpers.server.support import Site, make_agent, site
from tests.waiting import until

pytestmark = pytest.mark.spec("P95", "R19")

ASKED: dict[str, Any] = {
    "id": "t",
    "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "pay bob"}]}],
}


@dataclass
class Office:
    """A server with an agent; ``go`` has its model end an answer that it has begun."""

    here: Site
    agent: str
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def thread(self, client: httpx2.AsyncClient, thread: str = "t") -> list[dict[str, Any]]:
        """Return the messages of a chat of the AI SDK."""
        response = await client.get(f"/v1/agents/{self.agent}/ai-sdk/{thread}")
        assert response.status_code == 200, response.text
        assert response.json()["id"] == thread
        return response.json()["messages"]

    async def stream(self, client: httpx2.AsyncClient, thread: str = "t") -> httpx2.Response:
        """Return what the AI SDK is told that takes up the stream of a chat."""
        return await client.get(f"/v1/agents/{self.agent}/ai-sdk/{thread}/stream", timeout=120)


@asynccontextmanager
async def office_of(folder: Path, model: FunctionModel, go: asyncio.Event | None = None) -> AsyncGenerator[Office]:
    runner = AgentRunner(model)
    async with site(till, store=f"sqlite:///{folder / 'capset.db'}", generator=runner) as server:
        await server.key("boss", scopes=["capset:approve"])
        async with server.client() as ada:
            agent = (await make_agent(ada, "kit", "till"))["id"]
        yield Office(server, agent, go or asyncio.Event())


@pytest.fixture
async def office(tmp_path: Path) -> AsyncGenerator[Office]:
    """Give an office whose agent is refused one call, and pays once it may."""
    async with office_of(tmp_path, ScriptedModel(*PAYS, "Hello again.")) as new_office:
        yield new_office


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncGenerator[Office]:
    """Give an office whose agent ends its answer when it may."""
    go = asyncio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "One "
        await go.wait()
        yield "two."

    async with office_of(tmp_path, FunctionModel(stream_function=answer), go) as new_office:
        yield new_office


def kinds(message: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the kinds of a message's parts, each with its text or its state."""
    return [(part["type"], part.get("text") or part.get("state", "")) for part in message["parts"]]


async def decide(office: Office, answer: str = "approve") -> None:
    """Have the boss decide what waits."""
    async with office.here.client("boss") as boss:
        (waiting,) = (await boss.get("/v1/approvals", params={"status": "pending"})).json()["items"]
        (await boss.post(f"/v1/approvals/{waiting['id']}/{answer}", json={})).raise_for_status()


async def test_a_chat_has_what_was_said_and_its_open_approval(office: Office) -> None:
    async with office.here.client() as ada:
        await run(ada, office.agent, ASKED, "ai-sdk")
        question, answered = await office.thread(ada)
        assert kinds(question) == [("text", "pay bob")]
        assert kinds(answered) == [
            ("step-start", ""),
            ("tool-unlock", "output-error"),
            ("step-start", ""),
            ("tool-pay", "approval-requested"),
        ]
        pay = answered["parts"][-1]
        assert (pay["input"], pay["approval"]["id"]) == ({"to": "bob", "amount": 7}, pay["toolCallId"])
        assert (await office.stream(ada)).status_code == 204

        await decide(office)

        async def done() -> list[dict[str, Any]]:
            messages = await office.thread(ada)
            return messages if kinds(messages[-1])[-1] == ("text", "Paid.") else []

        _, answered = await until(done, "the turn to end")
        assert ("tool-pay", "output-available") in kinds(answered)
        assert (await office.stream(ada)).status_code == 204


async def test_a_page_that_was_loaded_again_answers_the_approval(office: Office) -> None:
    async with office.here.client() as ada:
        await run(ada, office.agent, ASKED, "ai-sdk")
        messages = await office.thread(ada)
        pay = messages[-1]["parts"][-1]
        pay |= {"state": "approval-responded", "approval": {"id": pay["approval"]["id"], "approved": False}}
        chunks = await run(ada, office.agent, {"id": "t", "messages": messages}, "ai-sdk")
        assert [chunk["delta"] for chunk in chunks if chunk != "[DONE]" and chunk["type"] == "text-delta"] == ["Paid."]


async def test_a_result_of_the_step_that_waits_is_there(tmp_path: Path) -> None:
    """It is not in the conversation yet, only in the events of the turn."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[dict[int, DeltaToolCall]]:
        yield {0: DeltaToolCall("echo", '{"text": "a"}', tool_call_id="one")}
        yield {1: DeltaToolCall("pay", '{"to": "bob"}', tool_call_id="two")}

    async with (
        office_of(tmp_path, FunctionModel(stream_function=answer)) as office,
        office.here.client() as ada,
    ):
        await run(ada, office.agent, ASKED, "ai-sdk")
        _, answered = await office.thread(ada)
        assert kinds(answered)[1:] == [("tool-echo", "output-available"), ("tool-pay", "approval-requested")]
        assert answered["parts"][1]["output"] == "a"


async def test_the_answer_under_way_is_streamed_from_its_beginning(slow: Office) -> None:
    async with slow.here.client() as ada:
        first = asyncio.create_task(run(ada, slow.agent, ASKED, "ai-sdk"))

        async def begun() -> list[dict[str, Any]]:
            return await slow.thread(ada)

        (question,) = await until(begun, "the message to be stored")
        assert kinds(question) == [("text", "pay bob")]
        async with ada.stream("GET", f"/v1/agents/{slow.agent}/ai-sdk/t/stream", timeout=120) as response:
            assert response.status_code == 200
            assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
            slow.go.set()
            lines = [line async for line in response.aiter_lines() if line.startswith("data: {")]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
        assert "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta") == "One two."
        await first
        assert (await slow.stream(ada)).status_code == 204
        assert kinds((await slow.thread(ada))[-1]) == [("step-start", ""), ("text", "One two.")]


async def test_a_client_of_ag_ui_gets_its_thread_by_a_run_without_a_message(office: Office) -> None:
    async with office.here.client() as ada:
        started, empty, finished = await run(ada, office.agent, run_input())
        assert (started["type"], finished["outcome"]["type"]) == ("RUN_STARTED", "success")
        assert (empty["type"], empty["messages"]) == ("MESSAGES_SNAPSHOT", [])

        waiting = await run(ada, office.agent, run_input(user("pay bob")))
        started, snapshot, *_, finished = await run(ada, office.agent, run_input())
        assert finished["outcome"] == waiting[-1]["outcome"]
        entries = [
            (message["role"], message.get("content"), len(message.get("toolCalls", ())))
            for message in snapshot["messages"]
        ]
        assert [role for role, _, _ in entries] == ["user", "assistant", "tool", "assistant"]
        assert (entries[0][1], entries[1][2], entries[3][2]) == ("pay bob", 1, 1)
        repeated = await run(ada, office.agent, run_input())
        assert repeated[1]["messages"] == snapshot["messages"], "under the same ids"

        await decide(office)

        async def done() -> list[dict[str, Any]]:
            messages = (await run(ada, office.agent, run_input()))[1]["messages"]
            return messages if messages[-1].get("content") == "Paid." else []

        await until(done, "the turn to end")


async def test_a_client_of_ag_ui_takes_up_the_answer_under_way(slow: Office) -> None:
    async with slow.here.client() as ada:
        first = asyncio.create_task(run(ada, slow.agent, run_input(user("hi"))))
        path = f"/v1/agents/{slow.agent}/ag-ui"

        async def begun() -> list[dict[str, Any]]:
            return await slow.thread(ada)

        await until(begun, "the message to be stored")
        async with ada.stream("POST", path, json=run_input(), timeout=120) as response:
            slow.go.set()
            events = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]
        assert [message["content"] for message in events[1]["messages"]] == ["hi"]
        assert "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT") == "One two."
        assert events[-1]["type"] == "RUN_FINISHED"
        await first


async def test_pictures_are_shown_again(office: Office) -> None:
    url = f"data:image/png;base64,{b64encode(b'picture').decode()}"
    parts = [{"type": "text", "text": "look"}, {"type": "file", "mediaType": "image/png", "url": url}]
    async with office.here.client() as ada:
        await run(ada, office.agent, {"id": "t", "messages": [{"role": "user", "parts": parts}]}, "ai-sdk")
        question = (await office.thread(ada))[0]
        assert [(part["type"], part.get("url")) for part in question["parts"]] == [("text", None), ("file", url)]


@pytest.mark.spec("T20")
async def test_a_thread_is_its_callers_and_reading_makes_none(office: Office) -> None:
    await office.here.key("eve")
    async with office.here.client() as ada, office.here.client("eve") as eve:
        assert await office.thread(ada) == []
        assert (await office.stream(ada)).status_code == 204
        assert (await ada.get("/v1/sessions")).json()["items"] == []
        await run(ada, office.agent, ASKED, "ai-sdk")
        assert await office.thread(eve) == []
        assert (await office.stream(eve)).status_code == 204
        assert (await ada.get("/v1/agents/nobody/ai-sdk/t")).status_code == 404

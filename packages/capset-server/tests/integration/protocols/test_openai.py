"""OpenAI's APIs over agents, with its own client: responses and completions, refusals, approvals (spec 6, R18)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import httpx2
import openai
import pytest
from openai.types.responses import Response, ResponseCompletedEvent, ResponseStreamEvent, ResponseTextDeltaEvent
from pydantic import TypeAdapter

from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call, Say
from capset_agents.runner import AgentRunner
from tests.helpers.server.approving import till
from tests.helpers.server.protocols.breaking import breaking_model
from tests.helpers.server.protocols.openai import Bank
from tests.helpers.server.support import make_agent, site
from tests.waiting import until

PAYS = (Call("unlock"), Call("pay", to="bob", amount=7), "Paid.")


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncGenerator[Bank]:
    runner = AgentRunner(ScriptedModel(*PAYS, Say("Hello again."), Say("And again.")))
    async with site(till, store=f"sqlite:///{tmp_path / 'capset.db'}", generator=runner) as server:
        await server.key("boss", scopes=["capset:approve"])
        async with server.client() as ada:
            agent = await make_agent(ada, "kit", "till")
        yield Bank(server, agent["id"])


async def respond(client: openai.AsyncOpenAI, **options: Any) -> Response:
    """Ask for a response."""
    create: Any = client.responses.create
    response = await create(**options)
    return Response.model_validate(response.to_dict())  # which the client does not check


def items(response: Response) -> list[tuple[str, str]]:
    """Return the kinds of a response's items, each with what it says."""
    output: list[Any] = list(response.output)
    return [(entry.type, entry.content[0].text if entry.type == "message" else entry.name) for entry in output]


def place(response: Response) -> dict[str, str]:
    """Return the session and the turn of a response."""
    assert response.metadata is not None
    return response.metadata


@pytest.mark.spec("R18")
async def test_models_are_the_agents_that_a_key_may_use(bank: Bank) -> None:
    async with bank.client() as client:
        model_ids = [model.id async for model in client.models.list()]
        assert set(model_ids) == {bank.agent, "foreman"}
        assert (await client.models.retrieve(bank.agent)).owned_by == "capset"
        with pytest.raises(openai.NotFoundError, match="no agent"):
            await client.models.retrieve("nobody")


@pytest.mark.spec("R18")
async def test_a_response_has_the_refused_call_and_the_request_and_goes_on_once_it_is_decided(bank: Bank) -> None:
    async with bank.client() as client:
        first = await respond(client, model=bank.agent, input="pay bob")
        assert first.status == "completed"
        assert items(first) == [("mcp_call", "unlock"), ("mcp_approval_request", "pay")]
        refused, request = first.output
        assert refused.type == "mcp_call"
        assert refused.error is not None
        assert refused.error.type == "mcp_tool_execution_error"
        assert "ermission" in str(refused.error.content)
        assert request.type == "mcp_approval_request"
        assert json.loads(request.arguments) == {"to": "bob", "amount": 7}

        with pytest.raises(openai.ConflictError, match="waits for an approval") as waits:
            await respond(client, model=bank.agent, previous_response_id=first.id, input=[])
        assert waits.value.code == "turn_suspended"
        assert waits.value.response.headers["x-should-retry"] == "false"

        await bank.decide(request.id)
        then = await respond(client, model=bank.agent, previous_response_id=first.id, input=[])
        assert items(then) == [("mcp_call", "pay"), ("message", "Paid.")]
        paid = then.output[0]
        assert paid.type == "mcp_call"
        assert (paid.output, paid.approval_request_id) == ("bob has 7", request.id)
        assert json.loads(paid.arguments) == {"to": "bob", "amount": 7}
        assert then.output_text == "Paid."

        assert (await client.responses.retrieve(then.id)).output == then.output
        assert (await client.responses.retrieve(first.id)).output == first.output


@pytest.mark.spec("R18")
async def test_an_answer_to_a_request_counts_only_from_one_who_may_give_it(bank: Bank) -> None:
    async with bank.client() as client:
        first = await respond(client, model=bank.agent, input="pay bob")
        request = first.output[-1]
        assert request.type == "mcp_approval_request"
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        options: dict[str, Any] = {"model": bank.agent, "previous_response_id": first.id, "input": [answer]}
        with pytest.raises(openai.PermissionDeniedError, match="principal other than"):
            await respond(client, **options)
        await bank.here.key("eve")
        async with bank.client("eve") as eve:
            with pytest.raises(openai.NotFoundError, match="no session"):
                await respond(eve, **options)
        # No is an answer that everybody may give to their own request.
        rejected = await respond(client, **{**options, "input": [{**answer, "approve": False, "reason": "no"}]})
        assert items(rejected)[0] == ("mcp_call", "pay")
        assert rejected.output_text == "Paid."  # the script says so in any case


@pytest.mark.spec("R18")
async def test_a_stream_tells_what_the_whole_response_has(bank: Bank) -> None:
    async with bank.client() as client:
        text, last = "", None
        first = await respond(client, model=bank.agent, input="pay bob")
        await bank.decide(first.output[-1].id or "")
        async with client.responses.stream(model=bank.agent, previous_response_id=first.id, input=[]) as stream:
            async for event in stream:
                if isinstance(event, ResponseTextDeltaEvent):
                    text += event.delta
                last = event
            final = await stream.get_final_response()
        assert isinstance(last, ResponseCompletedEvent)
        assert (text, final.output_text) == ("Paid.", "Paid.")
        assert [entry.type for entry in final.output] == ["mcp_call", "message"]
        types, create = TypeAdapter[Any](ResponseStreamEvent), cast("Any", client.responses.create)
        options = {"model": bank.agent, "previous_response_id": first.id, "input": []}
        for event in [event async for event in await create(**options, stream=True)]:
            types.validate_python(event.to_dict())  # which the client does not check


@pytest.mark.spec("R18")
async def test_a_conversation_goes_on_from_its_newest_response_and_forks_from_an_older_one(bank: Bank) -> None:
    async with bank.client() as client:
        first = await respond(client, model=bank.agent, input="pay bob")
        await bank.decide(first.output[-1].id or "")
        paid = await respond(client, model=bank.agent, previous_response_id=first.id, input=[])
        more = await respond(client, model=bank.agent, previous_response_id=paid.id, input="and?")
        assert more.output_text == "Hello again."
        assert place(more)["session"] == place(paid)["session"]
        forked = await respond(client, model=bank.agent, previous_response_id=paid.id, input="or?")
        assert place(forked)["session"] != place(paid)["session"]
        assert forked.output_text == "Hello again."


@pytest.mark.spec("R18")
async def test_a_completion_is_text_and_says_what_it_waits_for(bank: Bank) -> None:
    async with bank.client() as client:
        first = await client.chat.completions.create(
            model=bank.agent, messages=[{"role": "user", "content": "pay bob"}]
        )
        text = first.choices[0].message.content
        assert text is not None
        assert text.startswith("This needs an approval")
        metadata: Any = first.metadata
        assert metadata["status"] == "waiting"
        await bank.decide(metadata["approvals"])

        async def completed() -> Any:
            completion: Any = await client.chat.completions.retrieve(first.id)
            return completion if completion.metadata["status"] == "completed" else None

        done = await until(completed, "the completion to be completed")
        assert (done.choices[0].message.content or "").endswith("Paid.")
        chunks = await client.chat.completions.create(
            model=bank.agent,
            messages=[{"role": "user", "content": "and?"}],
            metadata={"session": metadata["session"]},
            stream=True,
            stream_options={"include_usage": True},
        )
        received = [chunk async for chunk in chunks]
        assert "".join(part.choices[0].delta.content or "" for part in received if part.choices) == "Hello again."
        assert received[-1].usage is not None
        assert received[-2].choices[0].finish_reason == "stop"


@pytest.mark.spec("R18")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extra_body": {"n": 2}}, "a request gets one answer"),
        ({"tools": [{"type": "web_search"}]}, "the agent has its own tools"),
        ({"tool_choice": "none"}, "tool_choice is not supported here"),
        ({"text": {"format": {"type": "json_object"}}}, "determines the form of its answers"),
        ({"extra_body": {"conversation": "conv_1"}}, "conversation is not supported here"),
        ({"input": [{"role": "system", "content": "Obey."}]}, "input has no message"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}]}, "input"),
        ({"model": "nobody"}, "no agent"),
        ({"previous_response_id": "resp_x_1_1"}, "no session"),
    ],
)
async def test_what_would_change_what_is_asked_for_is_refused_in_openais_words(
    bank: Bank, options: dict[str, Any], message: str
) -> None:
    async with bank.client() as client:
        with pytest.raises(openai.APIStatusError, match=message) as failure:
            await respond(client, **{"model": bank.agent, "input": "hi", **options})
        assert failure.value.type == "invalid_request_error"
        assert failure.value.response.json()["error"]["correlation"]


@pytest.mark.spec("R18")
async def test_what_asks_for_nothing_else_is_taken(bank: Bank) -> None:
    async with bank.client() as client:
        options: dict[str, Any] = {"temperature": None, "tools": [], "store": True, "parallel_tool_calls": True}
        raw = await client.responses.with_raw_response.create(model=bank.agent, input="pay bob", **options)
        assert raw.parse().status == "completed"
        assert "x-capset-ignored" not in raw.headers


@pytest.mark.spec("P96", "R18")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "options", "ignored"),
    [
        (
            "chat/completions",
            {"temperature": 0.7, "max_tokens": 100, "n": 1, "user": "u-1", "metadata": {"chat": "7"}},
            "temperature, max_tokens, user, metadata",
        ),
        ("chat/completions", {"seed": 1, "top_p": 1, "logit_bias": {}, "stop": None}, "seed, top_p"),
        ("chat/completions", {"stop": ["."], "min_p": 0.1, "chat_id": "7", "a: b\r\n": 1}, "stop, min_p, chat_id, ..."),
        (
            "responses",
            {"store": False, "metadata": {"a": "b"}, "max_output_tokens": 9, "reasoning": {"effort": "low"}},
            "store, metadata, max_output_tokens, reasoning",
        ),
        (
            "responses",
            {"text": {"format": {"type": "text"}, "verbosity": "low"}, "truncation": "auto"},
            "text, truncation",
        ),
    ],
)
async def test_what_chat_programs_send_is_taken_and_named(
    bank: Bank, path: str, options: dict[str, Any], ignored: str, stream: bool
) -> None:
    prompt = {"input": "pay bob"} if path == "responses" else {"messages": [{"role": "user", "content": "pay bob"}]}
    async with bank.here.client() as ada:
        body = {"model": bank.agent, **prompt, **options, "stream": stream}
        answer = await ada.post(f"/v1/{path}", json=body)
        assert (answer.status_code, answer.headers["x-capset-ignored"]) == (200, ignored)
        assert "This needs an approval" in answer.text or "mcp_approval_request" in answer.text


@pytest.mark.spec("R18")
async def test_errors_before_any_route_have_openais_shape_too(bank: Bank) -> None:
    async with httpx2.AsyncClient(base_url=bank.here.url) as stranger:
        refused = await stranger.post("/v1/responses", json={"model": bank.agent, "input": "hi"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
        assert refused.headers["www-authenticate"] == "Bearer"
    async with bank.here.client() as ada:
        wrong = await ada.put("/v1/responses", json={})
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        assert wrong.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.spec("R18")
async def test_a_request_that_is_sent_again_under_its_key_begins_one_turn(bank: Bank) -> None:
    async with bank.client() as client:
        key = {"Idempotency-Key": "one"}
        both = [await respond(client, model=bank.agent, input="pay bob", extra_headers=key) for _ in range(2)]
        assert both[0].id == both[1].id
        assert both[0].output == both[1].output


@pytest.mark.spec("R18")
async def test_a_turn_that_goes_on_from_a_response_is_begun_once_under_its_key(tmp_path: Path) -> None:
    """Also where the conversation has gone on by it, so that the second request would be a fork of it."""
    runner = AgentRunner(ScriptedModel(Say("One."), Say("Two."), Say("Three.")))
    async with site(till, store=f"sqlite:///{tmp_path / 'capset.db'}", generator=runner) as server:
        async with server.client() as ada:
            agent = (await make_agent(ada, "kit", "till"))["id"]
        async with Bank(server, agent).client() as client:
            first = await respond(client, model=agent, input="hi")
            request = {"model": agent, "previous_response_id": first.id, "input": "and?"}
            for key in ("newest", "older"):
                key_header = {"Idempotency-Key": key}
                both = [await respond(client, **request, extra_headers=key_header) for _ in range(2)]
                assert (both[0].id, items(both[0])) == (both[1].id, [("message", "Two.")]), key
        async with server.client() as ada:
            assert len((await ada.get("/v1/sessions")).json()["items"]) == 2, "one, and its fork from the older"


@pytest.mark.spec("R18")
async def test_a_response_in_the_background_can_be_asked_for_and_cancelled(bank: Bank) -> None:
    async with bank.client() as client:
        begun = await respond(client, model=bank.agent, input="pay bob", background=True)

        async def waiting() -> list[Response]:
            response = await client.responses.retrieve(begun.id)
            return [] if response.status == "in_progress" else [response]

        (waiting_response,) = await until(waiting, "the response to wait for its approval")
        assert items(waiting_response)[-1] == ("mcp_approval_request", "pay")
        cancelled = await client.responses.cancel(begun.id)
        assert cancelled.id == begun.id
        with pytest.raises(openai.NotFoundError):
            await client.responses.cancel(begun.id)


@pytest.mark.spec("R18")
async def test_a_turn_that_fails_is_a_failed_response_and_an_error_of_a_completion(tmp_path: Path) -> None:
    generator = AgentRunner(ScriptedModel(Call("echo", text="a")))
    async with (
        site(store=f"sqlite:///{tmp_path / 'capset.db'}", generator=generator) as server,
        Bank(server, "foreman").client() as client,
    ):
        failed = await respond(client, model="foreman", input="go")
        assert failed.status == "failed"
        assert failed.error is not None
        assert "script" in failed.error.message
        request: Any = {"model": "foreman", "messages": [{"role": "user", "content": "go"}]}
        with pytest.raises(openai.APIStatusError, match="script") as failure:
            await client.chat.completions.create(**request)
        assert failure.value.response.headers["x-should-retry"] == "false"
        with pytest.raises(openai.APIError, match="script"):
            async for _ in await client.chat.completions.create(**request, stream=True):
                pass


@pytest.mark.spec("R18", "R26")
@pytest.mark.parametrize("api", ["responses", "completions"])
async def test_progress_has_no_words_there_and_changes_nothing(tmp_path: Path, api: str) -> None:
    generator = AgentRunner(ScriptedModel(Call("steps", count=2), "Done."))
    async with site(store=f"sqlite:///{tmp_path / 'capset.db'}", generator=generator) as server:
        async with server.client() as ada:
            agent = (await make_agent(ada, "kit"))["id"]
        async with Bank(server, agent).client() as client:
            if api == "completions":
                done = await client.chat.completions.create(model=agent, messages=[{"role": "user", "content": "go"}])
                assert done.choices[0].message.content == "Done."
                return
            stream = await client.responses.create(model=agent, input="go", stream=True)
            types = [event.type async for event in stream]
            assert types[-1] == "response.completed"
            assert len([event_type for event_type in types if event_type == "response.output_item.added"]) == 2


@pytest.fixture
async def moody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Bank]:
    """Give a server whose model breaks off in the middle of its first answer in each turn."""
    monkeypatch.setattr("capset_agents.turn_model.BACKOFF_SECONDS", 0.01)
    async with site(store=f"sqlite:///{tmp_path / 'capset.db'}", generator=AgentRunner(breaking_model())) as server:
        async with server.client() as ada:
            agent = (await make_agent(ada, "kit"))["id"]
        yield Bank(server, agent)


@pytest.mark.spec("R3", "R18")
async def test_what_a_model_did_not_finish_is_incomplete_in_a_response(moody: Bank) -> None:
    async with moody.client() as client:
        stream = await client.responses.create(model=moody.agent, input="go", stream=True)
        events = [event async for event in stream]
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert [(item.type, getattr(item, "status", None)) for item in done] == [
            ("reasoning", "completed"),
            ("message", "incomplete"),
            ("message", "completed"),
        ]
        last = events[-1]
        assert last.type == "response.completed"
        assert last.response.output_text == "Bob is paid."
        assert [getattr(item, "status", None) for item in last.response.output] == ["incomplete"] * 2 + ["completed"]
        assert [len(getattr(item, "content", ())) for item in last.response.output] == [0, 0, 1]
        stored = await client.responses.retrieve(last.response.id)
        assert stored.output_text == "Bob is paid."
        assert (await respond(client, model=moody.agent, input="go")).output_text == "Bob is paid."


@pytest.mark.spec("R3", "R18")
async def test_chunks_that_cannot_be_taken_back_end_with_an_error_and_the_turn_goes_on(moody: Bank) -> None:
    messages: Any = [{"role": "user", "content": "go"}]
    async with moody.client() as client:
        full_completion = await client.chat.completions.create(model=moody.agent, messages=messages)
        assert full_completion.choices[0].message.content == "Bob is paid."
        stream = await client.chat.completions.create(model=moody.agent, messages=messages, stream=True)
        chunks: list[Any] = []

        async def read() -> None:
            async for chunk in stream:
                chunks.append(chunk)  # noqa: PERF401  # those before the error are wanted

        with pytest.raises(openai.APIError, match="get the completion chatcmpl-") as broken:
            await read()
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert (text, broken.value.code) == ("Bob is ", "text_discarded")

        async def finished() -> Any:
            completion = await client.chat.completions.retrieve(chunks[0].id)
            return completion if completion.choices[0].finish_reason else None

        later = await until(finished, "the turn to end")
        assert later.choices[0].message.content == "Bob is paid."

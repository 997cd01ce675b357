"""Conversations that grow too long for a model: it summarises them, before a turn and while one runs (spec 6, R16)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from capset.definitions.governance.hooks import Hooks
from tests.helpers.agents.support import READER, Shelf, site


@pytest.mark.spec("R16")
async def test_a_long_conversation_is_summarised(url: str, shelf: Shelf) -> None:
    """The next turns go on from the summary; what was before it is still listed."""
    requests: list[list[str]] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        texts = [
            str(part.content) for message in messages for part in message.parts if isinstance(part, UserPromptPart)
        ]
        requests.append(texts)
        is_summary = texts[-1].startswith("Summarise this conversation")
        assert bool(info.function_tools) is not is_summary, "a summary needs no tools"
        return ModelResponse(parts=[TextPart("It was about milk." if is_summary else "word " * 500)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield (await answer(messages, info)).text or ""

    model = FunctionModel(answer, stream_function=stream, model_name="teller")
    async with site(url, shelf, [], model=model, summarise_at=1_500) as host:
        row = await host.session()
        for text in ("one", "two", "three", "four"):
            await host.say(row, text)
        summed = requests[2][-1]
        assert requests[0] == ["one"]
        assert requests[1] == ["one", "two"]
        assert [prompt[:9] for prompt in requests[2]] == ["one", "two", "Summarise"]
        assert requests[3] == [summed, "three"]
        assert requests[4] == [summed, "three", "four"]
        rows = (await host.kernel.store.events.messages(row.id)).items
        assert [message_row.kind for message_row in rows] == [*["message"] * 4, "summary", *["message"] * 5]
        (summary_event,) = [data for kind, data in await host.told(row) if kind == "conversation.summarised"]
        assert (summary_event["messages"], summary_event["model"]) == (4, "teller")
        usages = [data for kind, data in await host.told(row) if kind == "usage"]
        assert len(usages) == 5, "the turn pays for it"


@pytest.mark.spec("R16")
async def test_a_long_turn_is_summarised_while_it_runs(url: str, shelf: Shelf) -> None:
    """It goes on from the summary, in this process and in another; what was before is still listed."""
    requests: list[str] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        texts = [
            str(part.content) for message in messages for part in message.parts if isinstance(part, UserPromptPart)
        ]
        returns = [part.tool_name for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        requests.append(f"{texts[-1][:9]} {len(returns)}")
        if texts[-1].startswith("Summarise this conversation"):
            return ModelResponse(parts=[TextPart(f"Put {len(shelf.done)} so far.")])
        if len(shelf.done) < 4 or (len(shelf.done) == 4 and "put" in shelf.done[-1]):
            name = "burn" if len(shelf.done) == 4 else "put"
            return ModelResponse(parts=[ToolCallPart(name, {"text": f"{len(shelf.done)} {'x' * 3_000}"})])
        return ModelResponse(parts=[TextPart("Done.")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str | dict[int, DeltaToolCall]]:
        (part,) = (await answer(messages, info)).parts
        if isinstance(part, TextPart):
            yield part.content
        elif isinstance(part, ToolCallPart):
            yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=f"call-{len(requests)}")}

    model = FunctionModel(answer, stream_function=stream, model_name="teller")
    async with site(url, shelf, [], model=model, summarise_at=2_500) as host:
        row = await host.session()
        await host.say(row, "go")
        assert (await host.last(row))[0] == "turn.suspended"
        summaries = [data for kind, data in await host.told(row) if kind == "conversation.summarised"]
        assert [summary["messages"] for summary in summaries] == [5, 7]
    async with site(url, shelf, [], agent=host.agent, model=model, summarise_at=2_500) as second_host:
        await second_host.approve()
        await second_host.go_on()
        assert await second_host.last(row) == ("turn.ended", {"output": "Done."})
        assert [entry[:4] for entry in shelf.done] == [*["put "] * 4, "burn"]
        rows = (await second_host.kernel.store.events.messages(row.id)).items
        assert [message_row.kind for message_row in rows].count("summary") == 2
        assert requests == [
            "go 0",
            "go 1",
            "Summarise 2",
            "Go on wit 0",
            "Go on wit 1",
            "Summarise 2",
            "Go on wit 0",
            "Go on wit 1",
        ]


@pytest.mark.spec("R16")
async def test_images_do_not_count_as_text(url: str, shelf: Shelf) -> None:
    """The model sees them in the turn that they are sent in, and in the next."""
    async with site(url, shelf, ["I see.", "Still."], summarise_at=1_500, principal=READER) as host:
        row = await host.session()
        session = await host.reopen(row, {}, Hooks())
        await session.files.write("/a.png", b"\x89PNG" + b"\0" * 50_000)
        await host.say(row, [{"type": "file", "path": "/a.png"}])
        await host.say(row, "and now?")
        assert await host.last(row) == ("turn.ended", {"output": "Still."})
        assert {message_row.kind for message_row in (await host.kernel.store.events.messages(row.id)).items} == {
            "message"
        }


@pytest.mark.spec("R16")
async def test_a_short_newest_turn_stays_word_for_word(url: str, shelf: Shelf) -> None:
    """Older turns are replaced by the summary; the next turns, too, read the newest one as it was."""
    requests: list[list[str]] = []
    answers = {"one": "word " * 12_000, "two": "Second: " + "fig " * 2_000}

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart | TextPart)]
        texts = [str(part.content)[:9] for part in parts]
        requests.append(texts)
        if texts[-1] == "Summarise":
            return ModelResponse(parts=[TextPart("About words.")])
        return ModelResponse(parts=[TextPart(answers.get(texts[-1], "Short."))])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield (await answer(messages, info)).text or ""

    model = FunctionModel(answer, stream_function=stream, model_name="teller")
    async with site(url, shelf, [], model=model, summarise_at=16_500) as host:
        row = await host.session()
        for text in ("one", "two", "three"):
            await host.say(row, text)
        (summary_event,) = [data for kind, data in await host.told(row) if kind == "conversation.summarised"]
        assert (summary_event["messages"], summary_event["unsummarised"], summary_event["model"]) == (2, 2, "teller")
    async with site(url, shelf, [], agent=host.agent, model=model, summarise_at=16_500) as second_host:
        await second_host.say(row, "four")
        rows = (await second_host.kernel.store.events.messages(row.id)).items
    summary = ["Summarise", "About wor"]
    assert requests[2:] == [
        ["one", "word word", "Summarise"],
        [*summary, "two", "Second: f", "three"],
        [*summary, "two", "Second: f", "three", "Short.", "four"],
    ]
    assert [message_row.kind for message_row in rows] == [*["message"] * 4, "summary", *["message"] * 5]


@pytest.mark.spec("R16")
async def test_a_host_may_have_no_summaries(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, ["word " * 5_000, "word " * 5_000, "Done."], summarise_at=None) as host:
        row = await host.session()
        for text in ("one", "two", "three"):
            await host.say(row, text)
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        assert {message_row.kind for message_row in (await host.kernel.store.events.messages(row.id)).items} == {
            "message"
        }

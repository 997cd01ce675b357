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
    asked: list[list[str]] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        texts = [str(part.content) for one in messages for part in one.parts if isinstance(part, UserPromptPart)]
        asked.append(texts)
        is_summary = texts[-1].startswith("Summarise this conversation")
        assert bool(info.function_tools) is not is_summary, "a summary needs no tools"
        return ModelResponse(parts=[TextPart("It was about milk." if is_summary else "word " * 500)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield (await answer(messages, info)).text or ""

    model = FunctionModel(answer, stream_function=stream, model_name="teller")
    async with site(url, shelf, [], model=model, summarise_at=1_500) as here:
        row = await here.session()
        for text in ("one", "two", "three", "four"):
            await here.say(row, text)
        summed = asked[2][-1]
        assert asked[0] == ["one"]
        assert asked[1] == ["one", "two"]
        assert [one[:9] for one in asked[2]] == ["one", "two", "Summarise"]
        assert asked[3] == [summed, "three"]
        assert asked[4] == [summed, "three", "four"]
        rows = (await here.kernel.store.events.messages(row.id)).items
        assert [one.kind for one in rows] == [*["message"] * 4, "summary", *["message"] * 5]
        (told,) = [data for kind, data in await here.told(row) if kind == "conversation.summarised"]
        assert (told["messages"], told["model"]) == (4, "teller")
        usages = [data for kind, data in await here.told(row) if kind == "usage"]
        assert len(usages) == 5, "the turn pays for it"


@pytest.mark.spec("R16")
async def test_a_long_turn_is_summarised_while_it_runs(url: str, shelf: Shelf) -> None:
    """It goes on from the summary, in this process and in another; what was before is still listed."""
    seen: list[str] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        texts = [str(part.content) for one in messages for part in one.parts if isinstance(part, UserPromptPart)]
        returns = [part.tool_name for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
        seen.append(f"{texts[-1][:9]} {len(returns)}")
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
            yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=f"call-{len(seen)}")}

    model = FunctionModel(answer, stream_function=stream, model_name="teller")
    async with site(url, shelf, [], model=model, summarise_at=2_500) as here:
        row = await here.session()
        await here.say(row, "go")
        assert (await here.last(row))[0] == "turn.suspended"
        summaries = [data for kind, data in await here.told(row) if kind == "conversation.summarised"]
        assert [one["messages"] for one in summaries] == [5, 7]
    async with site(url, shelf, [], agent=here.agent, model=model, summarise_at=2_500) as there:
        await there.approve()
        await there.go_on()
        assert await there.last(row) == ("turn.ended", {"output": "Done."})
        assert [one[:4] for one in shelf.done] == [*["put "] * 4, "burn"]
        rows = (await there.kernel.store.events.messages(row.id)).items
        assert [one.kind for one in rows].count("summary") == 2
        assert seen == [
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
    async with site(url, shelf, ["I see.", "Still."], summarise_at=1_500, principal=READER) as here:
        row = await here.session()
        session = await here.reopen(row, {}, Hooks())
        await session.files.write("/a.png", b"\x89PNG" + b"\0" * 50_000)
        await here.say(row, [{"type": "file", "path": "/a.png"}])
        await here.say(row, "and now?")
        assert await here.last(row) == ("turn.ended", {"output": "Still."})
        assert {one.kind for one in (await here.kernel.store.events.messages(row.id)).items} == {"message"}


@pytest.mark.spec("R16")
async def test_a_short_newest_turn_stays_word_for_word(url: str, shelf: Shelf) -> None:
    """Older turns are replaced by the summary; the next turns, too, read the newest one as it was."""
    seen: list[list[str]] = []
    answers = {"one": "word " * 12_000, "two": "Second: " + "fig " * 2_000}

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for one in messages for part in one.parts if isinstance(part, UserPromptPart | TextPart)]
        texts = [str(part.content)[:9] for part in parts]
        seen.append(texts)
        if texts[-1] == "Summarise":
            return ModelResponse(parts=[TextPart("About words.")])
        return ModelResponse(parts=[TextPart(answers.get(texts[-1], "Short."))])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield (await answer(messages, info)).text or ""

    model = FunctionModel(answer, stream_function=stream, model_name="teller")
    async with site(url, shelf, [], model=model, summarise_at=16_500) as here:
        row = await here.session()
        for text in ("one", "two", "three"):
            await here.say(row, text)
        (told,) = [data for kind, data in await here.told(row) if kind == "conversation.summarised"]
        assert (told["messages"], told["unsummarised"], told["model"]) == (2, 2, "teller")
    async with site(url, shelf, [], agent=here.agent, model=model, summarise_at=16_500) as there:
        await there.say(row, "four")
        rows = (await there.kernel.store.events.messages(row.id)).items
    summary = ["Summarise", "About wor"]
    assert seen[2:] == [
        ["one", "word word", "Summarise"],
        [*summary, "two", "Second: f", "three"],
        [*summary, "two", "Second: f", "three", "Short.", "four"],
    ]
    assert [one.kind for one in rows] == [*["message"] * 4, "summary", *["message"] * 5]


@pytest.mark.spec("R16")
async def test_a_host_may_have_no_summaries(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, ["word " * 5_000, "word " * 5_000, "Done."], summarise_at=None) as here:
        row = await here.session()
        for text in ("one", "two", "three"):
            await here.say(row, text)
        assert await here.last(row) == ("turn.ended", {"output": "Done."})
        assert {one.kind for one in (await here.kernel.store.events.messages(row.id)).items} == {"message"}

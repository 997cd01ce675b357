"""Cassettes: the answers of a model, recorded and given again, and what is said if something else is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import BinaryImage, FilePart, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

from capset import Agent, Kernel, Principal
from capset.errors import DefinitionError
from capset_agents.models import ModelChoice, ModelUnavailable
from capset_agents.playback.cassette_model import CassetteModel, CassetteRecorder
from capset_agents.playback.cassettes import CassetteFile, CassetteMismatch, read_cassette
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call, ScriptStep
from capset_agents.runner import AgentRunner
from capset_testing import CassetteModel as PublicModel
from capset_testing import CassetteRecorder as PublicRecorder
from tests.helpers.agents.support import Moves, Shelf, site
from tests.waiting import moment

MOVES: Moves = [
    ScriptStep.model_validate({"reasoning": "Hm, look.", "text": "I look at it.", "calls": [{"tool": "look"}]}),
    [Call("put", text="milk"), Call("fail")],
    ScriptStep(text="It is on the shelf. The other thing failed."),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a name for a cassette."""
    return tmp_path / "talk.jsonl"


def look(number: int) -> str:
    """Look at a number."""
    return f"seen {number}"


def put(text: str) -> str:
    """Put something somewhere."""
    return f"kept {text}"


async def recorded(path: Path, *moves: Any, **options: Any) -> list[ModelMessage]:
    """Record a run of an agent with a script, and return its messages."""
    model = CassetteRecorder(ScriptedModel(*moves), path)
    return (await told(model, **options)).all_messages()


async def told(
    model: Model,
    task: str = "go",
    tools: Sequence[Callable[..., Any]] = (look,),
    instructions: str = "Be brief.",
    settings: ModelSettings | None = None,
) -> Any:
    """Run an agent of pydantic-ai."""
    return await PydanticAgent(model, tools=tools, instructions=instructions, model_settings=settings).run(task)


async def turn(model: Model, task: str = "go") -> tuple[list[tuple[str, Any]], list[Any]]:
    """Run a turn of an agent of capset; return its events and messages, without ids of records and times."""
    async with site("memory://", Shelf(), [], model=model) as host:
        row = await host.session()
        await host.say(row, task)
        events: list[tuple[str, Any]] = []
        for kind, data in await host.told(row):
            for name in ("record", "duration_us"):
                data.pop(name, None)
            if kind == "tool.result" and "text" in data:
                data["text"] = data["text"].partition("correlation")[0]
            if events and events[-1][0] == kind == "text.delta" and events[-1][1]["part"] == data["part"]:
                events[-1][1]["text"] += data["text"]  # how many pieces are one event depends on the time they take
            else:
                events.append((kind, data))
        return events, _steady(await host.said(row))


def _steady(value: Any) -> Any:
    """Return the part of a message that is the same in two runs that go alike: also the times of answers."""
    if isinstance(value, dict):
        differs = {"run_id", "conversation_id", "record"} | (
            {"timestamp"} if value.get("kind") != "response" else set()
        )
        return {key: _steady(member) for key, member in value.items() if key not in differs}
    if isinstance(value, list):
        return [_steady(element) for element in value]
    return value.partition("correlation")[0] if isinstance(value, str) else value


@pytest.mark.spec("R22")
async def test_a_replay_gives_the_same_events_and_messages(path: Path) -> None:
    """Streamed text, reasoning, calls, usage, prices, and the model's name: all as they were recorded."""
    live = await turn(CassetteRecorder(ScriptedModel(*MOVES), path))
    replayed = await turn(CassetteModel(path))
    assert replayed == live
    events = replayed[0]
    kinds = [kind for kind, _ in events]
    assert kinds[0] == "turn.started", kinds
    assert kinds[-1] == "turn.ended", events
    assert {"reasoning.delta", "text.delta", "tool.called", "tool.result", "usage"} < {*kinds}
    usage = next(data for kind, data in events if kind == "usage")
    assert usage["cost"] == 0.0
    assert usage["model"] == "script"
    assert PublicModel is CassetteModel
    assert PublicRecorder is CassetteRecorder


@pytest.mark.spec("R22")
async def test_pieces_of_a_stream_come_as_they_came(path: Path) -> None:
    live, replayed = [list[Any](), list[Any]()]
    for model, events in ((CassetteRecorder(ScriptedModel(*MOVES[:1], "Done."), path), live), (None, replayed)):
        agent = PydanticAgent(model or CassetteModel(path), tools=[look])
        async with agent.iter("go") as run:
            async for node in run:
                if PydanticAgent.is_model_request_node(node):
                    async with node.stream(run.ctx) as stream:
                        events += [repr(event) async for event in stream]
    assert replayed == live
    assert len([event for event in live if "I " in event or "look " in event]) > 1


@pytest.mark.spec("R22")
@pytest.mark.parametrize("streams_first", [True, False])
async def test_a_streamed_answer_is_given_whole_and_the_other_way_round(path: Path, streams_first: bool) -> None:
    async def stream(model: Model) -> str:
        async with PydanticAgent(model).run_stream("go") as streamed:
            return str(await streamed.get_output())

    async def complete(model: Model) -> str:
        return str((await PydanticAgent(model).run("go")).output)

    first, second = (stream, complete) if streams_first else (complete, stream)
    assert await first(CassetteRecorder(ScriptedModel("One two three."), path)) == "One two three."
    assert await second(CassetteModel(path)) == "One two three."


@pytest.mark.spec("R22")
async def test_an_answer_is_kept_whole(path: Path) -> None:
    """Also its bytes, its reason to end, and members that are null."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        image = FilePart(BinaryImage(b"\x00\xff", media_type="image/png"))
        details = {"logprobs": None, "at": "2026-01-01"}
        parts = [image, TextPart("See.")]
        return ModelResponse(parts=parts, finish_reason="stop", provider_name="p", provider_details=details)

    live = await PydanticAgent(CassetteRecorder(FunctionModel(answer, model_name="painter"), path)).run("go")
    replayed = await PydanticAgent(CassetteModel(path)).run("go")
    assert replayed.response == replace(
        live.response, run_id=replayed.response.run_id, conversation_id=replayed.response.conversation_id
    )
    assert replayed.response.model_id == "function:painter"


def fetch() -> str:
    """Fetch something."""
    return "here"


def _changed_put(text: str) -> str:
    """Put something elsewhere."""
    return f"kept {text}"


_changed_put.__name__ = "put"


def _other_look(number: int) -> str:
    """Look at a number."""
    return f"seen {number + 1}"


_other_look.__name__ = "look"


@pytest.mark.spec("R22")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"instructions": "Be long."}, "exchange 1 of the cassette talk.jsonl: the instructions changed."),
        ({"tools": [look, _changed_put]}, "exchange 1 of the cassette talk.jsonl: the tools changed (put changed)."),
        ({"tools": [look]}, "the tools changed (put is gone)."),
        ({"tools": [look, put, fetch]}, "the tools changed (fetch is new)."),
        (
            {"settings": ModelSettings(temperature=0.5, top_p=1.0)},
            "the settings changed (temperature changed, top_p is new).",
        ),
        ({"settings": None}, "the settings changed (temperature is gone)."),
        ({"task": "stay"}, "exchange 1 of the cassette talk.jsonl: the conversation changed (in the prompt)."),
        (
            {"tools": [_other_look, put]},
            "exchange 2 of the cassette talk.jsonl: the conversation changed (in the result of look).",
        ),
        (
            {"tools": [look], "instructions": "Be long."},
            "exchange 1 of the cassette talk.jsonl: the instructions changed; the tools changed (put is gone).",
        ),
    ],
)
async def test_what_has_changed_is_named(path: Path, changed: dict[str, Any], expected: str) -> None:
    options: dict[str, Any] = {"tools": [look, put], "settings": ModelSettings(temperature=0.1)}
    await recorded(path, Call("look", number=1), "Done.", **options)
    assert (await told(CassetteModel(path), **options)).output == "Done."
    with pytest.raises(CassetteMismatch) as refused:
        await told(CassetteModel(path), **options | changed)
    assert expected in refused.value.message
    command = "--model script:script --record talk.jsonl; in Python, CassetteRecorder(MODEL, 'talk.jsonl')"
    assert f"Record it again: capset run AGENT TASK {command}" in refused.value.message


@pytest.mark.spec("R22")
async def test_a_changed_prompt_of_an_agent_ends_its_turn(path: Path) -> None:
    await turn(CassetteRecorder(ScriptedModel(*MOVES), path))
    events, _ = await turn(CassetteModel(path), "something else")
    kind, data = events[-1]
    assert (kind, data["error"]["code"], data["error"]["status"]) == ("turn.failed", "cassette_mismatch", 409)
    assert "the conversation changed (in the prompt)" in data["error"]["message"]


@pytest.mark.spec("R22")
async def test_a_run_that_goes_on_longer_is_told_that_the_cassette_ends(path: Path) -> None:
    messages = await recorded(path, "One.")
    model = CassetteModel(path)
    done = await told(model)
    with pytest.raises(CassetteMismatch, match="ends before the run does: it has 1 exchange, and the model is asked"):
        await PydanticAgent(model).run("and then?", message_history=done.all_messages())
    with pytest.raises(CassetteMismatch, match="ends before the run does"):  # also in a process that begins there
        await PydanticAgent(CassetteModel(path)).run("and then?", message_history=messages)
    path.write_bytes(b"")
    with pytest.raises(CassetteMismatch, match="it has 0 exchanges"):
        await told(CassetteModel(path))


@pytest.mark.spec("R22")
@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            lambda first_line, two: first_line.replace(b'"cassette":1', b'"cassette":2') + two,
            "line 1: a cassette of the format 2;",
        ),
        (lambda first_line, two: first_line + two[:-20], "line 2: the line is cut off"),
        (lambda first_line, two: first_line + two[:-20] + b"\n", "line 2: the line is damaged"),
        (
            lambda first_line, two: first_line + two.replace(b'"parts"', b'"pars"'),
            "line 2: the line is damaged: answer.parts",
        ),
        (lambda first_line, two: b"hello\n" + two, "line 1: not a cassette"),
    ],
)
async def test_a_file_that_cannot_be_used_is_refused(
    path: Path, damage: Callable[[bytes, bytes], bytes], expected: str
) -> None:
    await recorded(path, Call("look", number=1), "Done.")
    path.write_bytes(damage(*path.read_bytes().splitlines(keepends=True)))
    with pytest.raises(DefinitionError) as refused:
        CassetteModel(path)
    assert expected in refused.value.message
    assert "--record FILE" in (refused.value.hint or "")


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"talk\.jsonl: cannot be read"):
        CassetteModel(path)
    with pytest.raises(DefinitionError, match="cannot be written"):
        CassetteFile(path / "deeper.jsonl")


@pytest.mark.spec("R22")
async def test_a_recording_replaces_only_a_cassette(path: Path) -> None:
    """An older one stays until the first answer; new exchanges are appended where that is asked for."""
    await recorded(path, "One.")
    model = CassetteRecorder(ScriptedModel(ScriptStep(fail="rejected")), path)
    with pytest.raises(ModelHTTPError):
        await told(model)
    assert len(read_cassette(path)) == 1
    await recorded(path, Call("look", number=1), "Two.")
    assert len(read_cassette(path)) == 2
    await told(CassetteRecorder(ScriptedModel("Three."), CassetteFile(path, append=True)), task="more")
    assert [exchange.answer.parts[-1].part_kind for exchange in read_cassette(path)] == ["tool-call", "text", "text"]
    notes = path.with_name("notes.txt")
    notes.write_text("dear")
    with pytest.raises(DefinitionError, match="is not a cassette, and was left unchanged"):
        CassetteFile(notes)
    assert notes.read_text() == "dear"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DefinitionError, match="line 3: the line is cut off"):
        CassetteFile(path, append=True)


@pytest.mark.spec("R22")
async def test_headers_and_keys_are_not_in_the_file(path: Path) -> None:
    """Nor do they count: another key gets the same answers. What is said is in the file."""
    headers, body = {"authorization": "Bearer hush-1"}, {"key": "hush-2"}
    settings = ModelSettings(extra_headers=headers, extra_body=body, timeout=3.0)
    await recorded(path, "The word is tea.", task="what was the word?", settings=settings)
    text = path.read_text()
    assert "hush" not in text
    assert "Bearer" not in text
    assert "The word is tea." in text
    assert path.stat().st_mode & 0o077 == 0
    other = ModelSettings(extra_headers={"authorization": "Bearer other"}, extra_body=body, timeout=9.0)
    assert (await told(CassetteModel(path), "what was the word?", settings=other)).output == "The word is tea."


@pytest.mark.spec("R22")
async def test_a_providers_url_is_kept_without_its_keys(path: Path) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("Done.")], provider_url="https://me:hush@models.example:8/v1?key=hush")

    await told(CassetteRecorder(FunctionModel(answer), path))
    assert "hush" not in path.read_text()
    assert (await told(CassetteModel(path))).response.provider_url == "https://models.example:8/v1"


@pytest.mark.spec("R22")
async def test_a_models_own_settings_and_profile_do_not_matter(path: Path) -> None:
    """A provider's model prepares messages in its own way; the cassette knows neither its settings nor its profile."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.model_settings is not None
        assert info.model_settings.get("temperature") == 0.7
        assert "<|im_end|>" not in str(messages[0]), "the token is broken for this model"
        return ModelResponse(parts=[TextPart("Done.")])

    profile = ModelProfile(may_tokenize_special_tokens_in_content=True)
    model = FunctionModel(answer, settings=ModelSettings(temperature=0.7), profile=profile)
    assert (await told(CassetteRecorder(model, path), "what is <|im_end|>?")).output == "Done."
    assert (await told(CassetteModel(path), "what is <|im_end|>?")).output == "Done."


@pytest.mark.spec("R22", "R7")
async def test_another_process_goes_on_with_a_replay(path: Path, tmp_path: Path) -> None:
    """A turn that waited for its approval takes up its cassette where it stood."""
    moves: Moves = [Call("look", text="a"), Call("burn", text="b"), "Done."]

    def record(*, append: bool) -> Model:
        return CassetteRecorder(ScriptedModel(*moves), CassetteFile(path, append=append))

    def replay(*, append: bool) -> Model:
        return CassetteModel(path)

    for make in (record, replay):
        shelf, url = Shelf(), f"sqlite:///{tmp_path / make.__name__}.db"
        async with site(url, shelf, [], model=make(append=False)) as host:
            row = await host.session()
            await host.say(row, "go")
            assert (await host.last(row))[0] == "turn.suspended", await host.told(row)
            await host.approve()
        async with site(url, shelf, [], model=make(append=True), agent=host.agent) as second_host:
            await second_host.go_on()
            assert (await second_host.last(row))[1] == {"output": "Done."}, await second_host.told(row)
        assert shelf.done == ["look a", "burn b"]


@pytest.mark.spec("R22")
async def test_agents_side_by_side_each_have_their_own_answers(path: Path) -> None:
    async def both(model: Model, *, waits: bool) -> list[str]:
        async def ask(name: str) -> str:
            await moment(0.05 if waits and name == "ada" else 0)
            return str((await PydanticAgent(model, instructions=f"You are {name}.").run("who are you?")).output)

        return [*await asyncio.gather(ask("ada"), ask("bob"))]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(f"{info.instructions}")])

    live = await both(CassetteRecorder(FunctionModel(answer), path), waits=False)
    assert live == ["You are ada.", "You are bob."]
    assert await both(CassetteModel(path), waits=True) == live


@pytest.mark.spec("R2", "R22")
async def test_all_models_of_a_host_are_recorded_and_agents_choose_no_cassette(path: Path) -> None:
    file = CassetteFile(path)
    choice = ModelChoice(ScriptedModel("One."), {"other": ScriptedModel("Two.")}, record=file)
    assert [(await told(choice.resolve(name, "x"))).output for name in (None, "other")] == ["One.", "Two."]
    assert [str(exchange.answer.parts[0].part_kind) for exchange in read_cassette(path)] == ["text", "text"]
    for name in (f"cassette:{path}", f"script:{path}"):
        with pytest.raises(ModelUnavailable):
            choice.resolve(name, "x")
    agent = Agent("x", model=f"cassette:{path}")
    assert agent.model == f"cassette:{path}"
    async with (
        Kernel("memory://", generator=AgentRunner(ModelChoice(CassetteModel(path)))) as kernel,
        kernel.open(agent, principal=Principal("ada")) as session,
    ):
        with pytest.raises(ModelUnavailable):
            await session.run("go")

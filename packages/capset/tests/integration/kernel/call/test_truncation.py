"""What a model is given of a result, and where the whole is kept (spec 4, G26)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, ToolError, tool
from capset.definitions.governance.settings import Governance
from capset.flows import Generator
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.kernel.support import Desk, opened

CAP = 1_024
RECORD = "0198c0de-0000-7000-8000-000000000001"


@tool(effect="read")
async def lines(count: int) -> list[str]:
    """Return so many lines."""
    return [f"line {number}" for number in range(count)]


@tool(effect="read")
async def wail(length: int) -> str:
    """Fail at length."""
    raise ToolError("o" * length, code="wailing")


@asynccontextmanager
async def capped(store: str = "memory://", **more: Any) -> AsyncGenerator[Desk]:
    agent = Agent("tester", uses=[Capability("kit", tools=[lines, wail])])
    async with opened(agent, store=store, governance=Governance(result_bytes=CAP, **more)) as desk:
        yield desk


@pytest.mark.spec("G26", "T18")
@pytest.mark.parametrize("data", ["", "x" * CAP, "é" * (CAP // 2), None, 5, {"a": [1, None]}, ["x" * (CAP - 4)]])
async def test_what_fits_is_given_whole_and_kept_nowhere(data: Any) -> None:
    async with capped() as desk:
        rendered = await desk.session.for_model(RECORD, data)
        assert rendered.text == (data if isinstance(data, str) else json.dumps(data))
        assert (rendered.is_cut, rendered.file) == (False, None)
        assert await desk.session.files.list("/") == []


@pytest.mark.spec("G26")
@pytest.mark.parametrize("text", ["x" * (CAP + 1), "é" * (CAP // 2) + "x", "x" + "🦉" * 5_000])
async def test_of_a_longer_text_a_model_has_the_beginning_and_the_whole_is_kept(text: str, store: str) -> None:
    async with capped(store) as desk:
        rendered = await desk.session.for_model(RECORD, text)
        assert (rendered.is_cut, rendered.file) == (True, f"/results/{RECORD}.txt")
        beginning, _, note = rendered.text.partition("\n\n[cut: ")
        assert text.startswith(beginning)
        assert f"{len(text.encode()):,} bytes; all of it is in the session's file {rendered.file}:" in note
        assert CAP - 4 < len(rendered.text.encode()) <= CAP, "not a character more, and none is wasted"
        assert (await desk.session.files.read(rendered.file or ""))[1].decode() == text


@pytest.mark.spec("G26")
async def test_data_are_kept_as_json_with_lines_to_read_them_by() -> None:
    data = {"rows": [{"n": number, "name": "Zoë"} for number in range(500)]}
    async with capped() as desk:
        rendered = await desk.session.for_model(RECORD, data)
        _, content = await desk.session.files.read(f"/results/{RECORD}.json")
        assert json.loads(content) == data
        assert rendered.file == f"/results/{RECORD}.json"
        assert rendered.text.startswith('{\n "rows": [\n  {\n   "n": 0,')
        assert rendered.text.partition("\n\n[cut: ")[0] in content.decode()


@pytest.mark.spec("G26")
async def test_what_stands_behind_a_text_is_there_however_long_that_is() -> None:
    async with capped() as desk:
        assert (await desk.session.for_model(RECORD, "short", after="\nend")).text == "short\nend"
        assert (await desk.session.for_model(RECORD, "x" * 5_000, after="\nend")).text.endswith("]\nend")
        odd = await desk.session.for_model(RECORD, "\ud800" * 5_000, after="\n" + "e" * 10_000)
        assert len(odd.text.encode()) <= CAP
        assert odd.text.startswith("?")


@given(text=st.text(alphabet=st.sampled_from("aé€🦉\n"), min_size=300, max_size=1_500))
@settings(max_examples=60)
async def test_whatever_the_text_the_cap_holds_and_no_character_is_halved(text: str) -> None:
    async with capped() as desk:
        rendered = await desk.session.for_model(RECORD, text)
        assert len(rendered.text.encode()) <= CAP
        assert rendered.is_cut == (len(text.encode()) > CAP)
        assert text.startswith(rendered.text.partition("\n\n[cut: ")[0])


@pytest.mark.spec("G26")
async def test_a_whole_that_cannot_be_kept_is_not_pointed_to() -> None:
    async with capped() as desk:
        await desk.session.files.write("/results", b"mine")
        rendered = await desk.session.for_model(RECORD, "x" * 5_000)
        assert (rendered.is_cut, rendered.file) == (True, None)
        assert f"the whole was not kept: cannot write '/results/{RECORD}.txt': '/results' is a file" in rendered.text
        assert (await desk.session.files.read("/results"))[1] == b"mine"


@pytest.mark.spec("G26")
async def test_what_a_store_says_of_itself_is_not_told() -> None:
    async with capped() as desk:
        session = desk.session
    rendered = await session.for_model(RECORD, "x" * 5_000)  # its kernel and its store are closed
    assert rendered.text.endswith("the whole was not kept: the store is not available]")


@pytest.mark.spec("G26")
async def test_a_host_s_own_calls_have_the_whole() -> None:
    async with capped() as desk:
        assert len(await desk.session.call(lines, 1_000)) == 1_000
        with pytest.raises(ToolError, match=r"^o{5000}$"):
            await desk.session.call(wail, 5_000)


@pytest.mark.spec("G26")
async def test_a_generator_s_model_is_given_what_others_are() -> None:
    moves = [Call("lines", count=1_000), Call("wail", length=5_000), Call("lines", count=1), Say("done")]
    model = ScriptedRunner({"talker": moves})
    talker = Generator("talker", tools=[lines, wail])
    async with opened(talker, generator=model, governance=Governance(result_bytes=CAP)) as desk:
        await desk.session.run("go")
        long, failed, short = model.steps[-1].results
        records = await desk.records()
        assert str(long.data).startswith('[\n "line 0",\n "line 1",')
        assert f"/results/{records[0].id}.json" in str(long.data)
        assert failed.error is not None
        assert len(failed.error.message.encode()) <= CAP
        assert (failed.error.code, failed.record) == ("wailing", records[1].id)
        assert short.data == ["line 0"]
        assert (await desk.session.files.read(f"/results/{records[1].id}.txt"))[1] == b"o" * 5_000


@pytest.mark.spec("G26", "P25", "T26")
async def test_a_result_that_has_no_room_is_cut_and_says_why(store: str) -> None:
    async with capped(store, session_bytes=CAP) as desk:
        rendered = await desk.session.for_model(RECORD, "x" * 5_000)
        assert (rendered.is_cut, rendered.file) == (True, None)
        assert "the whole was not kept: there is no room for '/results/" in rendered.text
        assert "the session has 0 bytes of files, this needs 5,000 more, and the limit is 1,024" in rendered.text
        assert len(rendered.text.encode()) <= CAP
        assert await desk.session.files.list("/") == []

"""Looking a tool up: by its name, by its capability's and its own, or not at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from capset import Agent, Capability, Context, Message, tool
from capset.errors import InvalidArguments, PermissionDenied, ToolError
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.support import ask, desk, opened, read


@tool(effect="read")
async def find_note(text: str = "") -> str:
    """Find a note."""
    return f"found {text}"


open_vault = make("open_vault", permissions={"vault:open"})


@pytest.mark.spec("K5", "G2")
@pytest.mark.parametrize("name", ["find_note", "kit.find_note"])
async def test_a_tool_is_found_by_its_name_and_by_its_capabilitys(name: str) -> None:
    async with desk(find_note) as opened:
        (reply,) = await ask(opened.session, name, {"text": "x"})
        assert (reply.kind, reply.type, reply.data) == ("reply", "find_note", "found x")
        record = await opened.record()
        assert (record.capability, record.tool) == ("kit", "find_note")


@pytest.mark.spec("K12", "G2")
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("find_notes", "find_note"),
        ("kit.find_not", "kit.find_note"),
        ("tik.find_note", "kit.find_note"),
        ("Find_Note", "find_note"),
    ],
)
async def test_an_unknown_name_is_404_with_what_was_perhaps_meant(name: str, meant: str) -> None:
    async with desk(find_note, make("save_note")) as opened:
        (error,) = await ask(opened.session, name)
        assert (error.kind, error.data["status"], error.data["code"]) == ("error", 404, "not_found")
        assert error.data["message"] == f"unknown tool {name!r}; did you mean {meant!r}?"
        record = await opened.record()
        assert (record.outcome, record.tool, record.capability, record.effect) == ("not_found", name, None, None)


@pytest.mark.spec("K12")
@pytest.mark.parametrize("name", ["open_vaults", "nothing like it", "kit.open_vaults"])
async def test_an_unknown_name_tells_nothing_of_what_the_caller_may_not_see(name: str) -> None:
    async with desk(find_note, open_vault) as opened:
        (error,) = await ask(opened.session, name)
        assert error.data["status"] == 404
        assert "open_vault'" not in error.data["message"]
        assert "find_note" in error.data["message"] or "did you mean" not in error.data["message"]


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "kit.", ".find_note", "kit.kit.find_note"),
        *("find_note ", "find_note\0", "\ud800", "ｆind_note", "x" * 5_000),
    ],
)
async def test_no_name_is_too_strange_to_be_refused_and_recorded(name: str, store: str) -> None:
    async with desk(find_note, store=store) as opened:
        (error,) = await read(opened.session.invoke(Message("query", name)))
        assert error.data["status"] == 404
        record = await opened.record()
        assert record.outcome == "not_found"
        assert len(record.tool) <= 2_000
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("K1")
@pytest.mark.parametrize(
    ("effect", "kind", "right"),
    [
        *[("read", kind, "query") for kind in ("command", "event", "reply", "error")],
        *[(effect, "query", "command") for effect in ("write", "external", "destructive")],
    ],
)
async def test_queries_ask_for_tools_that_read_and_commands_for_others(effect: Any, kind: Any, right: Any) -> None:
    async with desk(make("act", effect=effect)) as opened:
        (error,) = await read(opened.session.invoke(Message(kind, "act")))
        assert error.data["status"] == 422
        assert error.data["message"] == f"Invalid message: 'act' takes a {right}, not a {kind}"
        assert (await opened.record()).outcome == "invalid"
        (reply,) = await read(opened.session.invoke(Message(right, "kit.act")))
        assert reply.data == "act"


@tool(effect="read")
async def ask_for_note(ctx: Context) -> str:
    """Find a note, by another tool."""
    return await ctx.call(find_note, "nested")


PLAIN = Capability("plain", tools=[find_note, ask_for_note])
PREFIXED = Capability("prefixed", tools=[find_note, open_vault])
RENAMED = PREFIXED.with_names(prefix="x_")


@pytest.mark.spec("C15")
@pytest.mark.parametrize("uses", [[PLAIN, RENAMED], [RENAMED, PLAIN], [PLAIN, lambda ctx: [RENAMED]]])
async def test_a_tool_under_two_names_is_refused_as_an_object_and_done_by_each_name(uses: list[Any]) -> None:
    async with opened(Agent("a", uses=uses)) as desk:
        assert {"find_note", "x_find_note"} <= set((await desk.session.current()).tools)
        with pytest.raises(InvalidArguments, match="is installed under several names here"):
            await desk.session.call(find_note, "x")
        assert not (await desk.session.try_call(find_note)).success
        assert [message.data["status"] for message in await read(desk.session.stream(find_note))] == [422]
        with pytest.raises(ToolError, match="is installed under several names here") as failed:
            await desk.session.call(ask_for_note)
        assert (failed.value.code, failed.value.status) == ("invalid_arguments", 422)
        outcomes = Counter((record.tool == "ask_for_note", record.outcome) for record in await desk.records())
        assert outcomes == {(False, "invalid"): 4, (True, "failed"): 1}
        for name in ("find_note", "x_find_note", "plain.find_note", "prefixed.x_find_note"):
            (reply,) = await read(desk.session.invoke(Message("query", name, {"text": name})))
            assert (reply.kind, reply.data) == ("reply", f"found {name}")


@pytest.mark.spec("C15")
async def test_an_ambiguous_tool_says_nothing_to_those_who_may_not_use_it() -> None:
    async with opened(Agent("a", uses=[Capability("plain", tools=[open_vault]), RENAMED])) as desk:
        with pytest.raises(PermissionDenied, match="vault:open"):
            await desk.session.call(open_vault)

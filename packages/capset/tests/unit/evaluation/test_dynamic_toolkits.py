"""Toolkits that are made for an evaluation: for whom, where they stand, and every way to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from capset import Agent, Capability, Policy, Preset, Principal, ToolError, Toolkit, ToolkitContext, ask, compose, tool
from capset.definitions.tools.toolkits import MAX_TOOLKIT_LEVELS
from capset.errors import NotFound, ToolkitFailed
from capset.fingerprint.hashes import Ref, runtime_hash, tool_hash
from capset.flows import Handler, as_tool
from tests.helpers.evaluation.things import failing, later, made_by, make, of, says, seen

NO, YES, MAY = says("no", False), says("yes", True), says("may", True)


@pytest.mark.spec("F5", "F21")
async def test_it_is_made_for_whoever_it_is_evaluated_for() -> None:
    contexts: list[ToolkitContext] = []
    composition = of(made_by("kit", make("made"), asked=contexts))
    principal = Principal("ada", org="acme")
    await seen(composition, principal, env={"tier": "pro"}, namespace="n", agent_id="i", agent_name="called")
    await seen(composition, principal)
    assert contexts == [
        ToolkitContext({"tier": "pro"}, principal, "n", "i", "called"),
        ToolkitContext({}, principal, None, None, "agent"),
    ]
    with pytest.raises(TypeError):
        contexts[0].env["tier"] = "free"  # pyright: ignore[reportIndexIssue]


@pytest.mark.spec("F5", "F8", "F21")
async def test_what_it_makes_is_in_the_snapshot_and_in_no_static_hash() -> None:
    static, dynamic = make("static"), make("made", instructions="Made.")
    composition = of(static, made_by("kit", dynamic, instructions="Kit."))
    snapshot = await seen(composition)
    assert (list(composition.tools), set(snapshot.tools)) == (["static"], {"static", "made"})
    assert snapshot.runtime_hash == runtime_hash([Ref("static", tool_hash(static)), Ref("made", tool_hash(dynamic))])
    empty = of(static, made_by("kit", instructions="Kit."))
    assert snapshot.static_hash == composition.static_hash == empty.static_hash
    assert snapshot.member_instructions == ("Kit.", "Made.")


def unmade(context: ToolkitContext) -> Any:
    pytest.fail("it was made")


CLOSED = failing("made", unmade, instructions="Made.")
BARRED: dict[str, dict[str, Any]] = {
    "own": {"tools": [failing("made", unmade, policies=[NO], instructions="Made.")]},
    "toolkit": {"tools": [Toolkit("around", [CLOSED], policies=[NO])]},
    "capability": {"uses": [Capability("kit", tools=[CLOSED], policies=[NO])]},
    "agent": {"tools": [CLOSED], "policies": [NO]},
    "preset": {"uses": [Capability("kit", presets={"p": Preset(tools=[CLOSED], policies=[NO])}, default=["p"])]},
}


@pytest.mark.spec("F18")
@pytest.mark.parametrize("parts", BARRED.values(), ids=BARRED)
async def test_where_its_gates_deny_it_is_not_made(parts: dict[str, Any]) -> None:
    snapshot = await seen(compose(Agent("agent", **parts)))
    assert (dict(snapshot.tools), snapshot.member_instructions) == ({}, ())
    (verdict,) = snapshot.toolkits.values()
    assert (verdict.in_play, verdict.reason) == (False, "policy 'no' says no")
    with pytest.raises(NotFound, match="unknown tool 'x'") as refused:
        snapshot.explain("x")
    assert "made: policy 'no' says no" in str(refused.value.hint)


@pytest.mark.spec("F18", "F20")
async def test_a_question_does_not_keep_it_from_being_made() -> None:
    snapshot = await seen(of(made_by("kit", make("made"), policies=[says("ask", ask("may I?"))])))
    assert snapshot.explain("made").reason == "may I?"
    assert set(snapshot.tools) == {"made"}


@pytest.mark.spec("F17", "F18")
async def test_the_gates_around_it_and_those_that_it_makes_gate_its_tools() -> None:
    inner = Toolkit("inner", [make("a", MAY), make("b")], policies=[YES])
    outer = Toolkit("outer", [made_by("kit", inner, make("c", NO))])
    snapshot = await seen(of(outer, policies=[says("agents", True)]), Principal("p"))
    assert {name: verdict.policies for name, verdict in snapshot.verdicts.items()} == {
        "a": ("agents", "yes", "may"),
        "b": ("agents", "yes"),
        "c": ("no",),
    }
    assert list(snapshot.decisions) == ["agents", "yes", "may", "no"]


@pytest.mark.spec("F17")
async def test_its_gates_are_asked_where_it_stands_and_each_once() -> None:
    names: list[str] = []

    def gate(name: str) -> Policy:
        return Policy(name, lambda request: names.append(name) or later())

    first, two, three = gate("one"), gate("two"), gate("three")
    kits = made_by("kit", make("b", two, first)), made_by("more", make("c", two))
    await seen(of(make("a", first), *kits, make("d", three)))
    assert names == ["one", "two", "three"]


@pytest.mark.spec("F5", "F22")
async def test_one_object_is_made_once_in_however_many_places_it_stands() -> None:
    contexts: list[ToolkitContext] = []
    kit = made_by("kit", make("made"), asked=contexts)
    uses = [Capability("c", tools=[kit]), Capability("d", tools=[kit]).with_names(prefix="d_")]
    snapshot = await seen(compose(Agent("a", tools=[kit], uses=uses)))
    assert len(contexts) == 1
    assert set(snapshot.tools) == {"made", "d_made"}
    assert set(snapshot.toolkits) == {"kit", "c.kit", "d.kit"}


@pytest.mark.spec("F5", "C14")
async def test_its_tools_have_their_capabilitys_prefix_and_so_has_what_is_told_of_them() -> None:
    search = make("search", instructions="`search` and `static`.")
    nested = made_by("nested", make("deep", instructions="`deep`, `search`."))
    kit = made_by("kit", search, nested, instructions="Use `search`.")
    capability = Capability("c", tools=[make("static"), kit])
    snapshot = await seen(compose(Agent("a", uses=[capability.with_names(prefix="x_", rename={"static": "still"})])))
    assert set(snapshot.tools) == {"still", "x_search", "x_deep"}
    assert snapshot.member_instructions == ("Use `x_search`.", "`x_search` and `still`.", "`x_deep`, `x_search`.")


@pytest.mark.spec("F18")
async def test_what_is_told_stands_in_the_order_in_which_everything_stands() -> None:
    inner = made_by("inner", make("b", instructions="b."), instructions="Inner.")
    members = make("a", instructions="a."), inner, make("c", instructions="c.")
    first = made_by("first", *members, instructions="First.")
    last = Toolkit("last", [make("d", instructions="d.")], instructions="Last.")
    assert (await seen(of(first, last))).member_instructions == ("First.", "a.", "Inner.", "b.", "c.", "Last.", "d.")


@pytest.mark.spec("F18")
async def test_a_tool_that_is_there_already_gets_the_gates_of_both_ways() -> None:
    tool = make("tool", instructions="Tool.")
    kit = made_by("kit", tool, policies=[YES], instructions="Kit.")
    snapshot = await seen(of(tool, kit, policies=[MAY]))
    assert (snapshot.explain("tool").policies, snapshot.member_instructions) == (("may", "yes"), ("Tool.", "Kit."))
    inner = made_by("kit", Toolkit("inner", [tool], policies=[NO], instructions="Inner."), instructions="Kit.")
    snapshot = await seen(of(tool, inner))
    assert (snapshot.explain("tool").policies, snapshot.member_instructions) == (("no",), ())


async def rows(*entries: Any) -> AsyncIterator[Any]:
    for entry in entries:
        yield entry


def lazily(*entries: Any) -> Iterator[Any]:
    yield from entries
    raise RuntimeError("hunter2")


def raising(error: BaseException) -> Any:
    def raise_it(context: ToolkitContext) -> Any:
        raise error

    return raise_it


def raising_later(error: BaseException) -> Any:
    async def raise_it(context: ToolkitContext) -> Any:
        await asyncio.sleep(0)
        raise error

    return raise_it


class Secret:
    def __repr__(self) -> str:
        return "hunter2"


@pytest.mark.spec("F22")
@pytest.mark.parametrize(
    ("make_members", "message"),
    [
        (raising(RuntimeError("hunter2")), "failed: RuntimeError"),
        (raising_later(TimeoutError("hunter2")), "failed: TimeoutError"),
        (raising(SystemExit("hunter2")), "failed: SystemExit"),
        (raising_later(asyncio.CancelledError("hunter2")), "failed: CancelledError"),
        (raising(ToolError("the index is down")), "failed: the index is down"),
        *(
            (lambda context, members=members: members, "must return a list of tools and toolkits")
            for members in (None, 5, "tools", {make("a")}, make("a"), [Secret()], [later])
        ),
        (lambda context: rows(make("a")), "must return a list of tools and toolkits"),
        (lambda context: later([Secret()]), "must return a list of tools and toolkits"),
        (lambda context: lazily(make("a")), "failed: RuntimeError"),
        (lambda context: [tool(Secret)], "failed: @tool takes a function"),
        (lambda context: [make("static")], "two different tools named 'static'"),
        (lambda context: [make("a"), make("a")], "two different tools are named 'a'"),
        (lambda context: [Toolkit("k", [make("a")]), make("a")], "two different tools are named 'a'"),
        (lambda context: [Toolkit("a"), Toolkit("a")], "two different toolkits are named 'a'"),
        (lambda context: [make("a", says("gate", True))], "two different policies have the id 'gate'"),
        (lambda context: [make("a", says("x", 1)), make("b", says("x", 1))], "two different policies have the id 'x'"),
    ],
    ids=range(22),
)
async def test_a_toolkit_that_fails_fails_the_evaluation_and_tells_no_secrets(make_members: Any, message: str) -> None:
    composition = of(make("static", says("gate", True)), failing("kit", make_members))
    with pytest.raises(ToolkitFailed, match=f"the dynamic toolkit 'kit'.*{message}") as failed:
        await seen(composition)
    assert "hunter2" not in f"{failed.value.message} {failed.value.hint}"
    assert failed.value.status == 500


@pytest.mark.spec("F22")
async def test_a_toolkit_that_makes_itself_is_too_deep() -> None:
    kit = failing("kit", lambda context: [kit])
    with pytest.raises(ToolkitFailed, match=f"nested more than {MAX_TOOLKIT_LEVELS} levels deep"):
        await seen(of(kit))


@pytest.mark.spec("F22", "K1")
@pytest.mark.parametrize("prefix", ["x" * 60, "not a name "])
async def test_a_name_that_no_model_takes_fails_it(prefix: str) -> None:
    capability = Capability("c", tools=[made_by("kit", make("search"))])
    with pytest.raises(ToolkitFailed, match="'search' with its prefix must match"):
        await seen(compose(Agent("a", uses=[capability.with_names(prefix=prefix)])))


@pytest.mark.spec("F22", "C37")
async def test_a_tool_that_runs_a_block_must_be_declared_statically() -> None:
    def shout() -> None:
        """Shout."""

    shouting = as_tool(Handler("shout", shout))
    with pytest.raises(ToolkitFailed, match="runs a block that nothing declares statically"):
        await seen(of(made_by("kit", shouting)))
    assert set((await seen(of(shouting, made_by("kit", shouting)))).tools) == {"shout"}


@pytest.mark.spec("F5")
async def test_a_toolkit_may_make_nothing() -> None:
    snapshot = await seen(of(make("a"), made_by("kit", instructions="Kit.")))
    assert (set(snapshot.tools), snapshot.member_instructions) == ({"a"}, ())
    assert snapshot.toolkits["kit.kit"].in_play

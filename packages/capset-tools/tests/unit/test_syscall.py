"""What the built-in ``syscall`` tells: exactly what is in play for whoever asks, and a value exactly as it came."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import (
    Agent,
    Capability,
    Context,
    DefinitionError,
    Json,
    Message,
    Progress,
    Reply,
    Request,
    Session,
    Tool,
    ToolError,
    policy,
    tool,
)
from capset.ext import tools_of
from capset.fingerprint.hashes import tool_hash
from capset_testing import Desk, processor_suite, session_for
from capset_testing.processor_suite import Check
from capset_tools.syscall import syscall, syscall_describe, syscall_list, syscall_ping
from tests.examples import examples
from tests.helpers.tools.support import send, session_of

RAN: list[str] = []


@policy
def by_day(request: Request) -> bool:
    return bool(request.env.get("day", True))


@tool(permissions={"pay:send"}, cost=0.5, examples=[{"amount": 3}])
async def pay(amount: int) -> int:
    """Pay somebody.

    Args:
        amount: How much.
    """
    RAN.append("pay")
    return amount


@tool(effect="read", policies=[by_day])
async def sunbathe() -> AsyncIterator[Progress | Reply[str]]:
    """Lie in the sun."""
    RAN.append("sunbathe")
    yield Reply("warm")


shop = Capability("shop", tools=[pay, sunbathe])
visitor = Agent("visitor", uses=[syscall, shop.with_names(prefix="my_")])
SYSCALLS = ["Syscall_Describe", "Syscall_List", "Syscall_Ping"]


def at_desk(*permissions: str, **env: object) -> AbstractAsyncContextManager[Desk]:
    return session_for(visitor, permissions=permissions, env=env)


async def described(session: Session, *names: str) -> tuple[dict[str, Any], list[Any]]:
    reply = await send(session, "Syscall.Describe", {"names": list(names)})
    assert reply.kind == "reply"
    return {entry["name"]: entry for entry in reply.data["tools"]}, reply.data["unknown"]


@pytest.mark.spec("K18")
async def test_every_tool_in_play_is_told_as_it_is() -> None:
    async with at_desk("pay:send") as desk:
        tools, unknown = await described(desk.session, "*")
    assert unknown == []
    assert list(tools) == [*SYSCALLS, "my_pay", "my_sunbathe"]
    assert tools["my_pay"] == {
        "name": "my_pay",
        "kind": "command",
        "type": "my_pay",
        "description": "Pay somebody.",
        "inbound": {
            "type": "object",
            "description": "Pay somebody.",
            "properties": {
                "kind": {"const": "command"},
                "type": {"const": "my_pay"},
                "data": pay.arguments.json_schema,
            },
            "required": ["data", "kind", "type"],
        },
        "outbound": {
            "type": "object",
            "description": "What my_pay gives.",
            "properties": {"kind": {"const": "reply"}, "type": {"const": "my_pay"}, "data": {"type": "integer"}},
            "required": ["data", "kind", "type"],
        },
        "arguments": pay.arguments.json_schema,
        "effect": "write",
        "permissions": ["pay:send"],
        "examples": [{"amount": 3}],
        "cost": 0.5,
        "hash": tool_hash(pay),
    }
    assert tools["Syscall_Describe"] == {
        "name": "Syscall_Describe",
        "kind": "query",
        "type": "Syscall.Describe",
        "description": syscall_describe.description,
        "inbound": syscall_describe.inbound,
        "outbound": syscall_describe.outbound,
        "arguments": syscall_describe.arguments.json_schema,
        "effect": "read",
        "permissions": [],
        "examples": [dict(example) for example in syscall_describe.examples],
        "cost": None,
        "hash": tool_hash(syscall_describe),
    }
    assert [option["properties"]["kind"] for option in tools["my_sunbathe"]["outbound"]["anyOf"]] == [
        {"const": "reply"},
        {"const": "event"},
    ]


@pytest.mark.spec("K18")
async def test_the_type_that_is_told_leads_to_the_tool() -> None:
    async with at_desk("pay:send") as desk:
        tools, _ = await described(desk.session, "*")
        for entry in tools.values():
            message = Message(entry["kind"], entry["type"], Json(b"{}"))
            called = desk.session.invoke(message).called
            assert called is desk.session.snapshot.tools[entry["name"]].tool


@pytest.mark.spec("K18")
async def test_nothing_runs_but_the_question_itself() -> None:
    RAN.clear()
    async with at_desk("pay:send") as desk:
        await described(desk.session, "*")
        await send(desk.session, "Syscall.List", {})
        assert [record.tool for record in await desk.records()] == ["Syscall_Describe", "Syscall_List"]
    assert RAN == []


@pytest.mark.spec("K18")
@pytest.mark.parametrize("name", ["my_pay", "shop.my_pay", "Syscall.Ping", "syscall.Syscall_Ping", "Syscall_Ping"])
async def test_a_tool_is_found_by_whatever_leads_to_it(name: str) -> None:
    async with at_desk("pay:send") as desk:
        tools, unknown = await described(desk.session, name, name)
    assert (list(tools), unknown) == (["my_pay" if "pay" in name else "Syscall_Ping"], [])


@pytest.mark.spec("K18")
async def test_what_is_unknown_is_listed_with_the_nearest_name_in_play() -> None:
    async with at_desk("pay:send") as desk:
        tools, unknown = await described(desk.session, "Syscall.Pong", "my_pai", "zzz", "*")
        assert (await described(desk.session)) == ({}, [])
    assert len(tools) == 5
    assert unknown == [
        {"name": "Syscall.Pong", "did_you_mean": "Syscall.Ping"},
        {"name": "my_pai", "did_you_mean": "my_pay"},
        {"name": "zzz"},
    ]


async def test_so_many_unknown_names_hold_nobody_up() -> None:
    async with at_desk("pay:send") as desk:
        _, unknown = await described(desk.session, *(f"my_pai{number}" for number in range(100)))
    assert [entry.get("did_you_mean") for entry in unknown] == ["my_pay"] * 10 + [None] * 90


@pytest.mark.spec("K18")
async def test_what_is_not_in_play_cannot_be_told_from_what_does_not_exist() -> None:
    async with at_desk(day=False) as desk:  # without the permission, and against the policy
        tools, unknown = await described(desk.session, "my_pay", "shop.my_pay", "my_sunbathe", "my_nothing", "my_pai")
        assert tools == {}
        names = ("my_pay", "shop.my_pay", "my_sunbathe", "my_nothing", "my_pai")
        assert unknown == [{"name": name} for name in names]
        everything = json.dumps(await described(desk.session, "*"))
        everything += json.dumps((await send(desk.session, "Syscall.List", {})).data)
    assert "pay" not in everything
    assert "sun" not in everything


@pytest.mark.spec("K18")
async def test_two_principals_are_told_what_each_of_them_may_do() -> None:
    async def list_names(session: Session) -> list[str]:
        return [entry["name"] for entry in (await session.call(syscall_list))["tools"]]

    async with at_desk("pay:send", day=False) as desk, at_desk() as other:
        assert await asyncio.gather(list_names(desk.session), list_names(other.session)) == [
            [*SYSCALLS, "my_pay"],
            [*SYSCALLS, "my_sunbathe"],
        ]


@pytest.mark.spec("K18")
async def test_what_dynamic_uses_add_is_told_too() -> None:
    def open_shop(ctx: Context) -> list[Capability]:
        return [shop] if ctx.env["open"] else []

    for is_open in (True, False):
        agent = Agent("visitor", uses=[syscall, open_shop])
        async with session_for(agent, permissions=["pay:send"], env={"open": is_open}) as desk:
            tools, _ = await described(desk.session, "*")
        assert ("pay" in tools) is is_open


@pytest.mark.spec("K18")
async def test_a_list_has_a_line_for_each() -> None:
    async with at_desk("pay:send") as desk:
        tools = (await send(desk.session, "Syscall.List", {})).data["tools"]
        async with desk.session.invoke(Message("query", "Syscall.List")) as messages:
            assert [message.data["tools"] async for message in messages] == [tools]
    assert [entry["name"] for entry in tools] == [*SYSCALLS, "my_pay", "my_sunbathe"]
    assert tools[2] == {
        "name": "Syscall_Ping",
        "type": "Syscall.Ping",
        "kind": "query",
        "description": "Give back a JSON value exactly as it came.",
    }


async def test_what_is_told_is_the_callers_own() -> None:
    before = json.dumps(dict(syscall_describe.inbound))
    async with session_of(syscall) as session:
        (entry,) = (await session.call(syscall_describe, names=["Syscall_Describe"]))["tools"]
        entry["inbound"]["properties"].clear()
        entry["examples"][0].clear()
    assert json.dumps(dict(syscall_describe.inbound)) == before
    assert syscall_describe.examples[0]


async def test_a_question_for_too_many_names_is_refused() -> None:
    async with session_of(syscall) as session:
        for names in (["x"] * 101, ["x" * 257], "*", [1]):
            refused = await send(session, "Syscall.Describe", {"names": names})
            assert (refused.kind, refused.data["status"]) == ("error", 422)


EXACT = (
    *("null", "true", "0", "-1", "1.0", "-0.0", "1e16", "5e-324", "1.7976931348623157e308", '""', "[]", "{}"),
    *('"\\u0000"', '"\\ud83d\\ude00 ß"', '{"":0,"b":[null,{"a":1}],"__proto__":{}}', str(2**64), "-" + "9" * 4000),
    "[" * 150 + "]" * 150,
)


async def pinged(session: Session, text: str) -> Any:
    async with session.invoke(Message("query", "Syscall.Ping", Json(text.encode()))) as messages:
        (message,) = [message async for message in messages]
    return message.data if message.kind == "reply" else message


@pytest.mark.spec("K18")
@pytest.mark.parametrize("text", EXACT, ids=lambda text: text[:20])
async def test_a_ping_echoes_every_json_value_exactly(text: str) -> None:
    async with session_of(syscall) as session:
        assert repr(await pinged(session, text)) == repr(json.loads(text))
        assert repr((await session.try_call(syscall_ping, data=json.loads(text))).data) == repr(json.loads(text))


@pytest.mark.spec("K18")
@pytest.mark.parametrize("text", ["NaN", "1e400", "-Infinity", '"\\ud800"', "9" * 5000, "[" * 300 + "]" * 300, "{,}"])
async def test_what_json_cannot_carry_is_refused(text: str) -> None:
    async with session_of(syscall) as session:
        refused = await pinged(session, text)
    assert (refused.kind, refused.data["status"]) == ("error", 422)


@pytest.mark.spec("K18")
@pytest.mark.parametrize(
    "data", [float("nan"), [float("-inf")], "\ud800", {"a": 10**5000}], ids=lambda data: repr(type(data))
)
async def test_so_is_what_a_caller_in_the_process_gives(data: Any) -> None:
    async with session_of(syscall) as session:
        refused = (await session.try_call(syscall_ping, data=data)).error
    assert isinstance(refused, ToolError)
    assert (refused.code, refused.status) == ("no_json", 422)
    assert "JSON cannot carry this value" in refused.message


@pytest.mark.parametrize("data", [(1, 2), {1}, b"x", {1: 2}], ids=repr)
async def test_a_value_that_would_come_back_as_another_is_refused(data: Any) -> None:
    async with session_of(syscall) as session:
        refused = (await session.try_call(syscall_ping, data=data)).error
    assert refused is not None
    assert refused.code == "invalid_arguments"


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@pytest.mark.spec("K18")
@examples(25, 100)
@given(JSON)
def test_whatever_is_sent_comes_back(value: Any) -> None:
    async def run() -> None:
        async with session_of(syscall) as session:
            assert repr(await pinged(session, json.dumps(value))) == repr(value)

    asyncio.run(run())


@pytest.mark.spec("K18", "K19")
@pytest.mark.parametrize("name", SYSCALLS)
async def test_they_are_good_processors(name: str) -> None:
    (syscall_tool,) = (candidate for candidate in syscall.every_tool if candidate.name == name)
    check: Check
    for check in processor_suite(syscall_tool):
        await check()


@pytest.mark.spec("K1", "K18")
def test_all_of_it_is_asked_by_queries() -> None:
    tools: tuple[Tool[..., Any], ...] = (syscall_describe, syscall_list, syscall_ping)
    assert [(syscall_tool.kind, syscall_tool.effect, syscall_tool.permissions) for syscall_tool in tools] == [
        ("query", "read", frozenset())
    ] * 3


def test_a_context_of_ones_own_shows_nothing() -> None:
    stranger: Any = object()
    with pytest.raises(DefinitionError, match="takes the Context"):
        tools_of(stranger)

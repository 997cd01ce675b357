"""The origin's door: register, get, list, execute (spec 4, G4, G6)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Context, Kernel, Policy, Principal, Request, Tool, ToolError, compose, policy, tool
from capset.definitions.tools.processors import handles
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import (
    DefinitionError,
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    PolicyConflict,
    StateConflict,
    StoreError,
    ToolNameConflict,
)
from capset.flows import Handler, as_tool
from capset_connect.actions import ActionRegistry, ExecutionContext
from tests.helpers.kernel.support import TappedStore, records_of


async def handle_get_weather(params: dict[str, Any], context: Context) -> dict[str, Any]:
    return {"temperature": 21, "condition": "sunny", "humidity": 40, "at": params["location"]}


def weather(**more: Any) -> Any:
    """Make the origin's action."""
    return schema_tool(
        name="get-weather",
        title="Get Weather",
        description="Fetch current weather for a location",
        parameters={
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City name or coordinates"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            },
            "required": ["location"],
        },
        returns={
            "type": "object",
            "properties": {
                "temperature": {"type": "number"},
                "condition": {"type": "string"},
                "humidity": {"type": "number"},
            },
        },
        handler=handle_get_weather,
        effect="read",
        permissions=["weather:read"],
        limits={"requests": 100, "window": "1h"},
        **more,
    )


GET_WEATHER = weather()
ADA = ExecutionContext(user=Principal("ada", permissions=["weather:read"]))


@asynccontextmanager
async def registry(*tools: Any, store: Any = "memory://") -> AsyncGenerator[tuple[Kernel, ActionRegistry]]:
    async with Kernel(store=store) as kernel:
        yield kernel, ActionRegistry(kernel, tools)


@pytest.mark.spec("G4")
async def test_should_execute_action_with_valid_params() -> None:
    async with registry() as (_, actions):
        actions.register(GET_WEATHER)
        result = await actions.execute("get-weather", {"location": "Paris"}, ADA)
        assert result.success
        assert result.data["temperature"] == 21


@pytest.mark.spec("G4", "G8")
async def test_should_reject_action_without_permission() -> None:
    async with registry() as (_, actions):
        actions.register(GET_WEATHER)
        nobody = ExecutionContext(user=Principal("bob", permissions=[]))
        with pytest.raises(PermissionDenied, match=r"^Permission denied"):
            await actions.execute("get-weather", {"location": "Paris"}, nobody)


@pytest.mark.spec("G4", "G14")
async def test_should_enforce_rate_limits() -> None:
    async with registry() as (_, actions):
        actions.register(GET_WEATHER)
        for _ in range(100):
            await actions.execute("get-weather", {"location": "Paris"}, ADA)
        with pytest.raises(LimitExceeded, match=r"^Rate limit exceeded"):
            await actions.execute("get-weather", {"location": "Paris"}, ADA)


@pytest.mark.spec("G4")
@pytest.mark.parametrize(
    ("id", "params", "error", "outcome"),
    [
        ("get-wether", {}, NotFound, "not_found"),
        ("get-weather", {"locatio": "Paris"}, InvalidArguments, "invalid"),
        ("get-weather", {"location": 5}, InvalidArguments, "invalid"),
    ],
)
async def test_refusals_are_raised_and_on_record(
    id: str, params: dict[str, Any], error: type[Exception], outcome: str
) -> None:
    async with registry(GET_WEATHER) as (kernel, actions):
        with pytest.raises(error):
            await actions.execute(id, params, ADA)
        (record,) = await records_of(kernel.audit)
        assert (record.tool, record.outcome, record.principal) == (id, outcome, "ada")


@tool(effect="read")
async def fail(words: str) -> str:
    """Fail."""
    if words:
        raise ToolError(words, code="as_said")
    raise RuntimeError("the password is hunter2")


@tool(effect="read")
async def forward(ctx: Context) -> str:
    """Call what its caller may not."""
    return str(await ctx.call(GET_WEATHER, location="Paris"))


@pytest.mark.spec("G4")
async def test_what_a_handler_comes_to_is_a_result() -> None:
    async with registry(fail, forward, GET_WEATHER) as (_, actions):
        execution = await actions.execute("fail", {"words": "the shelf is empty"}, ADA)
        assert (execution.success, execution.data, execution.error) == (False, None, "the shelf is empty")
        assert execution.failure is not None
        assert execution.failure.code == "as_said"
        unsaid = await actions.execute("fail", {"words": ""}, ADA)
        assert not unsaid.success
        assert "hunter2" not in str(unsaid.error)
        # The handler was reached; what it was refused is its own failure.
        nobody = ExecutionContext(user=Principal("bob"))
        refused = await actions.execute("forward", {}, nobody)
        assert not refused.success


@pytest.mark.spec("G6")
async def test_get_may_be_none_and_list_filters_any_of() -> None:
    @tool(effect="read", permissions={"weather:read", "notes:read"})
    async def both() -> None:
        """Need two."""

    async with registry(GET_WEATHER, both, fail) as (_, actions):
        assert actions.get("get-weather") is GET_WEATHER
        assert actions.get("get-wether") is None
        assert actions.list() == [both, fail, GET_WEATHER]
        assert actions.list(None) == [both, fail, GET_WEATHER]
        assert actions.list([]) == []
        assert actions.list(["notes:read", "other:read"]) == [both]
        assert actions.list({"weather:read"}) == [both, GET_WEATHER]


@pytest.mark.spec("G6")
async def test_running_executions_keep_the_version_that_they_started_with() -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(params: dict[str, Any]) -> str:
        reached.set()
        await go_on.wait()
        return "old"

    async def quickly(params: dict[str, Any]) -> str:
        return "new"

    old = schema_tool(name="act", parameters={}, handler=slowly, description="Old", effect="read")
    new = schema_tool(name="act", parameters={}, handler=quickly, description="New", effect="read")
    async with registry(old) as (kernel, actions):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(actions.execute("act", {}, ADA))
            await reached.wait()
            actions.register(new, replace=True)
            assert (await actions.execute("act", {}, ADA)).data == "new"
            go_on.set()
        assert first.result().data == "old"
        records = await records_of(kernel.audit, tool="act")
        assert len({record.tool_hash for record in records}) == 2


@pytest.mark.spec("G6")
async def test_registering_is_all_or_none() -> None:
    async with registry(GET_WEATHER) as (_, actions):
        with pytest.raises(ToolNameConflict, match="get-weather"):
            actions.register(fail, weather())
        assert actions.list() == [GET_WEATHER]
        with pytest.raises(DefinitionError, match="an action is a Tool"):
            actions.register(fail, handle_get_weather)  # pyright: ignore[reportArgumentType]
        assert actions.list() == [GET_WEATHER]
        actions.register(GET_WEATHER)
        assert actions.list() == [GET_WEATHER]


@policy
async def only_pro(request: Request) -> bool:
    return request.env.get("tier") == "pro"


@tool(effect="read", policies=[only_pro])
async def export(ctx: Context) -> str:
    """Export."""
    return ctx.session.id


async def test_a_principal_has_one_session_and_each_environment_its_snapshot() -> None:
    async with registry(export) as (kernel, actions):
        ada = Principal("ada")
        pro, free = ExecutionContext(ada, {"tier": "pro"}), ExecutionContext(ada)
        first = (await actions.execute("export", {}, pro)).data
        with pytest.raises(PermissionDenied):
            await actions.execute("export", {}, free)
        async with asyncio.TaskGroup() as group:
            more = [group.create_task(actions.execute("export", {}, pro)) for _ in range(5)]
        assert {task.result().data for task in more} == {first}
        other = await actions.execute("export", {}, ExecutionContext(Principal("bob"), {"tier": "pro"}))
        assert other.data != first
        assert await kernel.find_session(first) is not None


@pytest.mark.spec("G4", "G23")
async def test_a_record_that_cannot_be_written_is_raised_before_the_handler() -> None:
    ran: list[object] = []
    write = schema_tool(name="write", parameters={}, handler=ran.append, description="Write")

    def broken(phase: str) -> None:
        if phase == "intent":
            raise StoreError("the disk is full")

    async with registry(write, store=TappedStore(broken)) as (_, actions):
        with pytest.raises(StoreError):
            await actions.execute("write", {}, ADA)
    assert ran == []


async def test_a_context_is_asked_for_by_its_name() -> None:
    async with registry(fail) as (_, actions):
        with pytest.raises(DefinitionError, match="ExecutionContext"):
            await actions.execute("fail", {}, Principal("ada"))  # pyright: ignore[reportArgumentType]


def gated(name: str, gate: Policy) -> Tool[..., Any]:
    return tool(name=name, description="Gated.", effect="read", policies=[gate])(_done)


def _done() -> str:
    return "done"


def routed(type: str, name: str) -> Tool[..., Any]:
    """Return a tool of a stream processor, which messages of a type lead to."""
    inbound = {
        "description": "Routed.",
        "type": "object",
        "properties": {"kind": {"const": "query"}, "type": {"const": type}},
        "required": ["kind", "type"],
    }
    outbound = {
        "description": "Done.",
        "type": "object",
        "properties": {"kind": {"const": "reply"}, "type": {"const": f"{type}.done"}, "data": {"type": "string"}},
        "required": ["kind", "type", "data"],
    }

    async def handle(message: Any, emit: Any, ctx: Context) -> None:
        raise AssertionError("nothing calls it")

    return Tool.from_processor(
        inbound=inbound, outbound=outbound, factory=handles(handle), description="Routed.", name=name
    )


def stateful(name: str, model: type[BaseModel]) -> Tool[..., Any]:
    def step(ctx: Context, value: object) -> str:
        return "done"

    state: dict[Any, type[BaseModel]] = {"session": model}
    return as_tool(Handler(name, step, state=state, description="Stateful."), effect="read")


class Counted(BaseModel):
    count: int = 0


class Worded(BaseModel):
    count: str = ""


def _yes(request: Request) -> bool:
    return True


FIRST, SECOND = Policy("gate", _yes), Policy("gate", _yes)
NOT_TOGETHER = {
    "policies": (gated("one", FIRST), gated("two", SECOND), PolicyConflict),
    "type and name": (gated("now", FIRST), routed("actions.now", "later"), ToolNameConflict),
    "name and type": (routed("now", "later"), gated("now", FIRST), ToolNameConflict),
    "types": (routed("go.now", "one"), routed("go.now", "two"), ToolNameConflict),
    "state": (stateful("one", Counted), stateful("two", Worded), StateConflict),
}


@pytest.mark.spec("G6", "C39")
@pytest.mark.parametrize("case", NOT_TOGETHER)
async def test_what_cannot_be_together_is_refused_and_what_was_there_goes_on(case: str) -> None:
    registered, new, error = NOT_TOGETHER[case]
    async with registry(GET_WEATHER, registered) as (kernel, actions):
        assert (await actions.execute("get-weather", {"location": "Paris"}, ADA)).success
        for refused in ((new,), (gated("third", FIRST), new)):
            with pytest.raises(error):
                actions.register(*refused)
        assert [action.name for action in actions.list()] == sorted(["get-weather", registered.name])
        assert (await actions.execute("get-weather", {"location": "Paris"}, ADA)).success
        assert len({record.session for record in await records_of(kernel.audit)}) == 1
        with pytest.raises(error):
            ActionRegistry(kernel, [new, registered])
        with pytest.raises(error):
            compose(Agent("actions", tools=[registered, new]))
        actions.register(dataclasses.replace(new, name=registered.name), replace=True)
        assert (await actions.execute("get-weather", {"location": "Paris"}, ADA)).success


@pytest.mark.spec("G6")
def test_what_was_registered_one_by_one_composes_as_a_whole() -> None:
    kernel = Kernel(store="memory://")
    several = [tool_ for registered, new, _ in NOT_TOGETHER.values() for tool_ in (registered, new)]
    for order in (several, several[::-1], several[1:] + several[:1]):
        actions = ActionRegistry(kernel)
        for action in order:
            with suppress(DefinitionError):
                actions.register(action, replace=True)
        compose(Agent("actions", tools=actions.list()))
        assert len(actions.list()) >= 2

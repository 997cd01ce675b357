"""The origin's door: register, get, list, execute (spec 4, G4, G6)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Context, Kernel, Policy, Principal, Tool, ToolError, compose, tool
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import (
    CapsetError,
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
from tests.helpers.evaluation.things import make
from tests.helpers.kernel.streams.support import made
from tests.helpers.kernel.support import TappedStore, records_of


async def handle_get_weather(params: dict[str, Any], context: Context) -> dict[str, Any]:
    return {"temperature": 21, "condition": "sunny", "humidity": 40, "at": params["location"]}


def weather() -> Any:
    location = {"type": "string", "description": "City name or coordinates"}
    unit = {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}
    number = {"type": "number"}
    return schema_tool(
        name="get-weather",
        title="Get Weather",
        description="Fetch current weather for a location",
        parameters={"type": "object", "properties": {"location": location, "unit": unit}, "required": ["location"]},
        returns={"type": "object", "properties": {"temperature": number, "condition": {"type": "string"}}},
        handler=handle_get_weather,
        effect="read",
        permissions=["weather:read"],
        limits={"requests": 100, "window": "1h"},
    )


GET_WEATHER, PARIS = weather(), {"location": "Paris"}
ADA = ExecutionContext(user=Principal("ada", permissions=["weather:read"]))
NOBODY = ExecutionContext(user=Principal("bob"))


@asynccontextmanager
async def registry(*tools: Any, store: Any = "memory://") -> AsyncGenerator[tuple[Kernel, ActionRegistry]]:
    async with Kernel(store=store) as kernel:
        yield kernel, ActionRegistry(kernel, tools)


@pytest.mark.spec("G4", "G14")
async def test_should_execute_action_and_enforce_its_rate_limit() -> None:
    async with registry() as (_, actions):
        actions.register(GET_WEATHER)
        for _ in range(100):
            result = await actions.execute("get-weather", PARIS, ADA)
            assert (result.success, result.data["temperature"]) == (True, 21)
        with pytest.raises(LimitExceeded, match=r"^Rate limit exceeded"):
            await actions.execute("get-weather", PARIS, ADA)


@pytest.mark.spec("G4", "G8")
@pytest.mark.parametrize(
    ("id", "params", "context", "error", "outcome"),
    [
        ("get-wether", {}, ADA, NotFound, "not_found"),
        ("get-weather", {"locatio": "Paris"}, ADA, InvalidArguments, "invalid"),
        ("get-weather", {"location": 5}, ADA, InvalidArguments, "invalid"),
        ("get-weather", PARIS, NOBODY, PermissionDenied, "denied"),
    ],
)
async def test_refusals_are_raised_and_on_record(
    id: str, params: dict[str, Any], context: ExecutionContext, error: type[CapsetError], outcome: str
) -> None:
    async with registry(GET_WEATHER) as (kernel, actions):
        with pytest.raises(error):
            await actions.execute(id, params, context)
        (record,) = await records_of(kernel.audit)
        assert (record.tool, record.outcome, record.principal) == (id, outcome, context.user.id)


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
        said = await actions.execute("fail", {"words": "the shelf is empty"}, ADA)
        assert (said.success, said.data, said.error) == (False, None, "the shelf is empty")
        assert said.failure is not None
        assert said.failure.code == "as_said"
        unsaid = await actions.execute("fail", {"words": ""}, ADA)
        assert not unsaid.success
        assert "hunter2" not in str(unsaid.error)
        # The handler was reached; what it was refused is its own failure.
        assert not (await actions.execute("forward", {}, NOBODY)).success


@pytest.mark.spec("G6")
async def test_get_may_be_none_and_list_filters_any_of() -> None:
    both = make("both", permissions={"weather:read", "notes:read"})
    async with registry(GET_WEATHER, both, fail) as (_, actions):
        assert actions.get("get-weather") is GET_WEATHER
        assert actions.get("get-wether") is None
        assert actions.list() == actions.list(None) == [both, fail, GET_WEATHER]
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

    old, new = (
        schema_tool(name="act", parameters={}, handler=handler, description=handler.__name__, effect="read")
        for handler in (slowly, quickly)
    )
    async with registry(old) as (kernel, actions):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(actions.execute("act", {}, ADA))
            await reached.wait()
            actions.register(new, replace=True)
            assert (await actions.execute("act", {}, ADA)).data == "new"
            go_on.set()
        assert first.result().data == "old"
        assert len({record.tool_hash for record in await records_of(kernel.audit)}) == 2


@pytest.mark.spec("G6")
async def test_registering_is_all_or_none() -> None:
    async with registry(GET_WEATHER) as (_, actions):
        wrong: Any
        for wrong, problem in ((weather(), "'get-weather'"), (handle_get_weather, "an action is a Tool")):
            with pytest.raises(DefinitionError, match=problem):
                actions.register(fail, wrong)
            assert actions.list() == [GET_WEATHER]
        actions.register(GET_WEATHER)
        assert actions.list() == [GET_WEATHER]


@tool(effect="read", policies=[Policy("only_pro", lambda request: request.env.get("tier") == "pro")])
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


def routed(type: str, name: str) -> Tool[..., Any]:
    """Return a tool of a stream processor, which messages of a type lead to."""
    return made(lambda: pytest.fail("nothing calls it"), type, name=name)


def stateful(name: str, model: type[BaseModel]) -> Tool[..., Any]:
    def step(ctx: Context, value: object) -> str:
        return "done"

    state: dict[Any, type[BaseModel]] = {"session": model}
    return as_tool(Handler(name, step, state=state, description="Stateful."), effect="read")


class Counted(BaseModel):
    count: int = 0


class Worded(BaseModel):
    count: str = ""


FIRST, SECOND = Policy("gate", lambda request: True), Policy("gate", lambda request: True)
NOT_TOGETHER = {
    "policies": (make("one", FIRST), make("two", SECOND), PolicyConflict),
    "type and name": (make("now", FIRST), routed("actions.now", "later"), ToolNameConflict),
    "name and type": (routed("now", "later"), make("now", FIRST), ToolNameConflict),
    "types": (routed("go.now", "one"), routed("go.now", "two"), ToolNameConflict),
    "state": (stateful("one", Counted), stateful("two", Worded), StateConflict),
}


@pytest.mark.spec("G6", "C39")
@pytest.mark.parametrize("case", NOT_TOGETHER)
async def test_what_cannot_be_together_is_refused_and_what_was_there_goes_on(case: str) -> None:
    registered, new, error = NOT_TOGETHER[case]
    async with registry(GET_WEATHER, registered) as (kernel, actions):
        assert (await actions.execute("get-weather", PARIS, ADA)).success
        for refused in ([new], [make("third", FIRST), new]):
            with pytest.raises(error):
                actions.register(*refused)
        assert {*actions.list()} == {GET_WEATHER, registered}
        assert (await actions.execute("get-weather", PARIS, ADA)).success
        assert len({record.session for record in await records_of(kernel.audit)}) == 1
        with pytest.raises(error):
            ActionRegistry(kernel, [new, registered])
        with pytest.raises(error):
            compose(Agent("actions", tools=[registered, new]))
        actions.register(dataclasses.replace(new, name=registered.name), replace=True)
        assert (await actions.execute("get-weather", PARIS, ADA)).success


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

"""Helpers, config and secrets: what a capability gives to code (spec 1, C1, C9, C30, C31)."""

from __future__ import annotations

import logging
from operator import attrgetter, itemgetter
from typing import Any, Protocol

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, tool
from capset.errors import DefinitionError, NotFound, ToolError
from capset.flows import Handler
from tests.helpers.kernel.support import opened


class Counter:
    """Helpers that know how often they were made."""

    made = 0

    def __init__(self, ctx: Context) -> None:
        type(self).made += 1
        self.who = ctx.principal.id


@pytest.fixture(autouse=True)
def fresh() -> None:
    Counter.made = 0


counter: Capability[Counter] = Capability("counter", helpers=Counter)


class Left:
    def __init__(self, ctx: Context) -> None:
        self.counter = ctx.use(counter)


class Right(Left):
    pass


left: Capability[Left] = Capability("left", uses=[counter], helpers=Left)
right: Capability[Right] = Capability("right", uses=[counter], helpers=Right)
quiet = Capability("quiet")


@tool
async def both(ctx: Context) -> bool:
    """Use both sides of a diamond."""
    return ctx.use(left).counter is ctx.use(right).counter is ctx.use(counter)


@tool
def views(ctx: Context) -> list[str]:
    """Look at the untyped view, and take it apart in every way that Python has."""
    view = ctx.cap
    match view:
        case {"counter": Counter() as helpers, "left": other}:
            assert (helpers, other) == itemgetter("counter", "left")(view) == attrgetter("counter", "left")(view)
        case _:
            raise AssertionError
    assert helpers is view.counter is view["counter"] is ctx.use(counter)
    assert dict(**view) == dict(view)
    assert view.get("quiet") is view.get("conter") is getattr(view, "conter", None) is None
    assert "quiet" not in view
    assert len(view) == 3
    for wrong, message in (
        (lambda: view.conter, r"unknown capability with helpers 'conter'; did you mean 'counter'\?"),
        (lambda: ctx.use(quiet), "has no helpers"),
        (lambda: ctx.use(Capability("stranger", helpers=Counter)), "is not used by 'tester'"),
    ):
        with pytest.raises(NotFound, match=message):
            wrong()
    return list(view)


agent = Agent("tester", uses=[left, right, quiet], tools=[both, views])


@pytest.mark.spec("C9", "C30")
async def test_a_diamond_is_built_once_per_execution_and_shared() -> None:
    async with opened(agent) as desk:
        assert await desk.session.call(both)
        assert Counter.made == 1
        assert await desk.session.call(both)
        assert Counter.made == 2


@pytest.mark.spec("C30")
async def test_the_untyped_view_has_what_has_helpers_and_builds_nothing_before_it_is_asked() -> None:
    async with opened(agent) as desk:
        assert await desk.session.call(views) == ["counter", "left", "right"]
        assert Counter.made == 1


@pytest.mark.spec("C30")
@pytest.mark.parametrize("name", ["items", "keys", "values", "get", "pop"])
async def test_the_untyped_view_has_capabilities_with_the_names_of_methods(name: str) -> None:
    named: Capability[Any] = Capability(name, helpers=lambda ctx: f"the helpers of {name}")

    @tool
    async def look(ctx: Context) -> str:
        """Look at it in every way."""
        assert getattr(ctx.cap, name) == ctx.cap[name] == ctx.use(named)
        assert {each: ctx.cap[each] for each in ctx.cap} == {"counter": ctx.use(counter), name: ctx.use(named)}
        return getattr(ctx.cap, name)

    async with opened(Agent("tester", uses=[counter, named], tools=[look])) as desk:
        assert await desk.session.call(look) == f"the helpers of {name}"


@pytest.mark.spec("C30")
async def test_an_error_of_a_factory_is_not_taken_for_an_unknown_name() -> None:
    @tool
    async def look(ctx: Context) -> bool:
        """Ask for what cannot be made."""
        for ask in (lambda: ctx.cap["failing"], lambda: ctx.cap.failing, lambda: ctx.cap.get("failing")):
            with pytest.raises(KeyError, match="inner"):
                ask()
        return True

    failing: Capability[Any] = Capability("failing", helpers=lambda ctx: {"a": "b"}["inner"])
    async with opened(Agent("tester", uses=[failing], tools=[look])) as desk:
        assert await desk.session.call(look)


class Options(BaseModel):
    size: int = 1
    names: list[str] = []


@pytest.mark.spec("C1")
@pytest.mark.parametrize("is_given", [True, False])
async def test_a_config_is_what_the_reference_gave_or_its_defaults_for_each_call(is_given: bool) -> None:
    sized: Capability[None, Options] = Capability("sized", config=Options)

    @tool
    async def grow(ctx: Context) -> list[int]:
        """Change the config that is at hand."""
        with pytest.raises(NotFound, match="has no config"):
            ctx.config(counter)
        ctx.config(sized).names.append("more")
        return [ctx.config(sized).size, len(ctx.config(sized).names)]

    options = Options(size=5, names=["first"])
    used = sized.with_config(options) if is_given else sized
    options.size = 9  # what was given stays as it was then
    async with opened(Agent("tester", uses=[used, counter], tools=[grow])) as desk:
        for _ in range(2):
            assert await desk.session.call(grow) == ([5, 1] if is_given else [1, 0])


@tool
async def reveal(ctx: Context, name: str) -> int:
    """Ask for a secret."""
    secret = await ctx.secret(name)
    logging.getLogger("test").warning("the secret is %s", secret)
    return len(secret.get_secret_value())


keyed = Agent("tester", uses=[Capability("keyed", tools=[reveal], secrets=["API_KEY", "UNSET", "BROKEN"])])


class Vault:
    """A provider that has two secrets, and fails for a third."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get(self, name: str) -> str | None:
        self.asked.append(name)
        if name == "BROKEN":
            raise RuntimeError("hunter2 has expired")
        return {"API_KEY": "hunter2-hunter2", "OTHER": "x"}.get(name)


@pytest.mark.spec("C1")
async def test_a_secret_is_had_by_those_who_declare_it_and_stands_nowhere(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(keyed, store=store, secrets=(vault := Vault())) as desk:
        assert await desk.session.call(reveal, "API_KEY") == 15
        for name, message, status in (
            ("API_KEYS", r"unknown secret 'API_KEYS'; did you mean 'API_KEY'\?", 400),
            ("UNSET", "'UNSET' is not set here", 503),
            ("BROKEN", "'BROKEN' could not be read: RuntimeError", 503),
            ("OTHER", "unknown secret 'OTHER'", 400),  # there is one, and nobody declares it
        ):
            with pytest.raises(ToolError, match=message) as caught:
                await desk.session.call(reveal, name)
            assert caught.value.status == status
        assert vault.asked == ["API_KEY", "UNSET", "BROKEN"]
        exposed: Any = [caplog.text, desk.session.snapshot.composition.static_hash, *await desk.records()]
        assert "hunter2" not in str(exposed)


@pytest.mark.spec("C1")
async def test_secrets_come_from_the_environment_unless_another_port_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "from outside")
    async with opened(keyed) as desk:
        assert await desk.session.call(reveal, "API_KEY") == len("from outside")


@pytest.mark.timeout(20)
@pytest.mark.spec("C30")
async def test_helpers_that_need_each_other_to_be_made_are_refused_with_the_whole_chain() -> None:
    first: Capability[Any] = Capability("first", helpers=lambda ctx: ctx.use(second))
    second: Capability[Any] = Capability("second", helpers=lambda ctx: ctx.cap["first"])

    @tool
    async def ask(ctx: Context) -> str:
        """Ask for one."""
        with pytest.raises(DefinitionError, match="first → second → first"):
            ctx.use(first)
        with pytest.raises(DefinitionError, match="second → first → second") as caught:
            ctx.use(second)  # what failed has left nothing behind
        return str(caught.value.hint)

    async with opened(Agent("tester", uses=[first, second], tools=[ask])) as desk:
        assert "not while it is built" in await desk.session.call(ask)


@pytest.mark.spec("C30", "C33")
async def test_a_call_views_what_inherited_helpers_have_written_for_it() -> None:
    class Tally(BaseModel):
        count: int = 0

    counting: Capability[Any] = Capability("counting", helpers=lambda ctx: ctx.state(Tally), state={"session": Tally})

    @tool
    async def up(ctx: Context) -> int:
        """Write by helpers, and look."""
        await ctx.use(counting).increment("count")
        return ctx.session.state.count

    @tool
    async def twice(ctx: Context) -> list[int]:
        """Let another do it, with helpers that this call has built."""
        return [await ctx.call(up), await ctx.call(up), ctx.session.state.count]

    async with opened(Agent("tester", uses=[counting], tools=[up, twice])) as desk:
        assert await desk.session.call(twice) == [1, 2, 2]


class CounterHelpers(Protocol):
    """As ``helper_types`` writes it for an agent that uses ``counter``."""

    @property
    def counter(self) -> Counter: ...


@pytest.mark.spec("C41", "C30")
async def test_a_handler_that_says_the_type_of_its_helpers_is_run_like_any_other() -> None:
    async def greets(ctx: Context[CounterHelpers], greeting: str) -> str:
        """Greet whoever acts."""
        return f"{greeting}, {ctx.cap.counter.who}"

    greet = tool(effect="read")(greets)
    assert list(greet.parameters) == ["greeting"]
    async with opened(Agent("tester", uses=[counter], tools=[greet])) as desk:
        assert await desk.session.call(greet, "Hello") == "Hello, user-1"
    async with opened(Handler("greeter", greets, uses=[counter])) as desk:
        assert await desk.session.run("Hello") == "Hello, user-1"

    async def late(greeting: str, ctx: Context[CounterHelpers]) -> str:
        """Have the context too late."""
        return greeting

    with pytest.raises(DefinitionError, match="Context comes first or not at all"):
        tool(late)

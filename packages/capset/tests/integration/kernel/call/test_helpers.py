"""Helpers, config and secrets: what a capability gives to code (spec 1, C1, C9, C30, C31)."""

from __future__ import annotations

import logging
from operator import attrgetter, itemgetter
from typing import Any, Protocol

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, parameterised, tool
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
async def nested(ctx: Context, build_first: bool) -> bool:
    """Call the other, having built the helpers oneself or not."""
    if build_first:
        ctx.use(counter)
    return await ctx.call(both)


@tool
def views(ctx: Context) -> list[str]:
    """Look at the untyped view."""
    view = ctx.cap
    assert view.counter is view["counter"] is ctx.use(counter)
    assert "quiet" not in view
    assert len(view) == 3
    with pytest.raises(NotFound, match=r"unknown capability with helpers 'conter'; did you mean 'counter'\?"):
        _ = view.conter
    with pytest.raises(NotFound, match="has no helpers"):
        ctx.use(quiet)
    with pytest.raises(NotFound, match="is not used by 'tester'"):
        ctx.use(Capability("stranger", helpers=Counter))
    return sorted(view)


agent = Agent("tester", uses=[left, right, quiet], tools=[both, nested, views])


@pytest.mark.spec("C9", "C30")
async def test_a_diamond_is_built_once_per_execution_and_shared() -> None:
    async with opened(agent) as desk:
        assert await desk.session.call(both)
        assert Counter.made == 1
        assert await desk.session.call(both)
        assert Counter.made == 2


@pytest.mark.spec("C30", "C31")
@pytest.mark.parametrize("build_first", [True, False])
async def test_what_a_call_has_built_is_inherited_by_the_calls_that_it_makes(build_first: bool) -> None:
    async with opened(agent) as desk:
        assert await desk.session.call(nested, build_first=build_first)
        assert Counter.made == 1


@pytest.mark.spec("C30")
async def test_the_untyped_view_has_what_has_helpers_and_builds_nothing_before_it_is_asked() -> None:
    async with opened(agent) as desk:
        assert await desk.session.call(views) == ["counter", "left", "right"]
        assert Counter.made == 1


@pytest.mark.spec("C30")
async def test_the_untyped_view_destructures_and_gives_defaults() -> None:
    @tool
    async def take_apart(ctx: Context) -> list[str]:
        """Take the view apart, in every way that Python has."""
        match ctx.cap:
            case {"counter": Counter() as one, "left": two}:
                assert (one, two) == itemgetter("counter", "left")(ctx.cap) == attrgetter("counter", "left")(ctx.cap)
            case _:
                raise AssertionError
        assert dict(**ctx.cap) == dict(ctx.cap)
        assert ctx.cap.get("quiet") is ctx.cap.get("conter") is getattr(ctx.cap, "conter", None) is None
        assert not hasattr(ctx.cap, "conter")
        assert len(set(map(id, (one, ctx.cap.counter, ctx.cap["counter"], ctx.use(counter))))) == 1
        return list(ctx.cap)

    async with opened(Agent("tester", uses=[left, right, quiet], tools=[take_apart])) as desk:
        assert await desk.session.call(take_apart) == ["counter", "left", "right"]


@pytest.mark.spec("C30")
@pytest.mark.parametrize("name", ["items", "keys", "values", "get", "pop"])
async def test_the_untyped_view_has_capabilities_with_the_names_of_methods(name: str) -> None:
    named: Capability[Any] = Capability(name, helpers=lambda ctx: f"the helpers of {name}")

    @tool
    async def look(ctx: Context) -> str:
        """Look at it in every way."""
        assert getattr(ctx.cap, name) == ctx.cap[name] == ctx.use(named)
        assert {capability_name: ctx.cap[capability_name] for capability_name in ctx.cap} == {
            "counter": ctx.use(counter),
            name: ctx.use(named),
        }
        return getattr(ctx.cap, name)

    async with opened(Agent("tester", uses=[counter, named], tools=[look])) as desk:
        assert await desk.session.call(look) == f"the helpers of {name}"


@pytest.mark.spec("C30")
async def test_an_error_of_a_factory_is_not_taken_for_an_unknown_name() -> None:
    def fails(ctx: Context) -> str:
        return {"a": "b"}["inner"]

    @tool
    async def look(ctx: Context) -> str:
        """Ask for what cannot be made."""
        for ask in (lambda: ctx.cap["failing"], lambda: ctx.cap.failing, lambda: ctx.cap.get("failing")):
            with pytest.raises(KeyError) as caught:
                ask()
            assert caught.value.args == ("inner",)
        return "seen"

    failing = Capability("failing", helpers=fails)
    async with opened(Agent("tester", uses=[failing], tools=[look])) as desk:
        assert await desk.session.call(look) == "seen"


@pytest.mark.spec("C32")
async def test_a_parameterised_capability_is_one_object_and_stands_under_its_whole_name() -> None:
    class Storage:
        def __init__(self, scope: str) -> None:
            self.scope = scope

    @parameterised
    def storage(scope: str) -> Capability[Storage]:
        return Capability(f"storage:{scope}", helpers=lambda ctx: Storage(scope))

    @tool
    async def scopes(ctx: Context) -> list[str]:
        """Ask both."""
        return [ctx.cap["storage:session"].scope, ctx.use(storage("user")).scope]

    assert storage("session") is storage(scope="session")
    asking = Agent("tester", uses=[storage("session"), storage("user"), storage("session")], tools=[scopes])
    async with opened(asking) as desk:
        assert await desk.session.call(scopes) == ["session", "user"]


class Options(BaseModel):
    size: int = 1


@pytest.mark.spec("C1")
async def test_a_config_is_what_the_reference_gave_or_its_defaults() -> None:
    sized: Capability[None, Options] = Capability("sized", config=Options)

    @tool
    async def size(ctx: Context) -> int:
        """Tell the size."""
        with pytest.raises(NotFound, match="has no config"):
            ctx.config(counter)
        return ctx.config(sized).size

    options = Options(size=5)
    for used, expected in ((sized, 1), (sized.with_config(options), 5)):
        options.size = 9  # what was given stays as it was then
        async with opened(Agent("tester", uses=[used, counter], tools=[size])) as desk:
            assert await desk.session.call(size) == expected
        options = Options(size=5)


class Names(BaseModel):
    names: list[str] = []


@pytest.mark.spec("C1")
@pytest.mark.parametrize("is_given", [True, False])
async def test_what_a_handler_does_to_its_config_reaches_no_other_call(is_given: bool) -> None:
    named: Capability[None, Names] = Capability("named", config=Names)

    @tool
    async def grow(ctx: Context) -> int:
        """Change the config that is at hand."""
        ctx.config(named).names.append("more")
        return len(ctx.config(named).names)

    used = named.with_config(Names(names=["one"])) if is_given else named
    async with opened(Agent("tester", uses=[used], tools=[grow])) as desk:
        assert [await desk.session.call(grow) for _ in range(2)] == [int(is_given)] * 2


class Vault:
    """Secrets of a test."""

    def __init__(self, **values: str) -> None:
        self.known = values
        self.asked: list[str] = []

    async def get(self, name: str) -> str | None:
        self.asked.append(name)
        return self.known.get(name)


@pytest.mark.spec("C1")
async def test_a_secret_is_had_by_those_who_declare_it_and_stands_nowhere(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def reveal(ctx: Context, name: str) -> int:
        """Ask for a secret."""
        secret = await ctx.secret(name)
        logging.getLogger("test").warning("the secret is %s", secret)
        return len(secret.get_secret_value())

    vault = Vault(API_KEY="hunter2-hunter2", OTHER="x")
    keyed = Agent("tester", uses=[Capability("keyed", tools=[reveal], secrets=["API_KEY", "UNSET"])])
    async with opened(keyed, store=store, secrets=vault) as desk:
        assert await desk.session.call(reveal, "API_KEY") == 15
        with pytest.raises(ToolError, match=r"unknown secret 'API_KEYS'; did you mean 'API_KEY'\?"):
            await desk.session.call(reveal, "API_KEYS")
        with pytest.raises(ToolError, match="'UNSET' is not set here") as caught:
            await desk.session.call(reveal, "UNSET")
        assert caught.value.status == 503
        with pytest.raises(ToolError):
            await desk.session.call(reveal, "OTHER")  # there is one, and nobody declares it
        assert vault.asked == ["API_KEY", "UNSET"]
        exposed: Any = [caplog.text, desk.session.snapshot.composition.static_hash, *await desk.records()]
        assert "hunter2" not in str(exposed)


@pytest.mark.spec("C1")
async def test_what_a_provider_of_secrets_says_when_it_fails_is_not_told(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        async def get(self, name: str) -> str | None:
            raise RuntimeError("hunter2 has expired")

    @tool
    async def reveal(ctx: Context) -> int:
        """Ask for a secret."""
        return len((await ctx.secret("API_KEY")).get_secret_value())

    keyed = Agent("tester", uses=[Capability("keyed", tools=[reveal], secrets=["API_KEY"])])
    async with opened(keyed, store=store, secrets=Failing()) as desk:
        with pytest.raises(ToolError, match="'API_KEY' could not be had: RuntimeError") as caught:
            await desk.session.call(reveal)
        assert caught.value.status == 503
        assert "hunter2" not in f"{caplog.text}{await desk.records()}"


@pytest.mark.spec("C1")
async def test_secrets_come_from_the_environment_unless_another_port_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    @tool
    async def reveal(ctx: Context) -> str:
        """Ask for a secret."""
        return (await ctx.secret("CAPSET_TEST_SECRET")).get_secret_value()

    monkeypatch.setenv("CAPSET_TEST_SECRET", "from outside")
    async with opened(Agent("a", uses=[Capability("keyed", tools=[reveal], secrets="CAPSET_TEST_SECRET")])) as desk:
        assert await desk.session.call(reveal) == "from outside"


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
        assert "not while it is made" in await desk.session.call(ask)


@pytest.mark.spec("C30")
def test_a_factory_that_waits_is_refused_at_definition() -> None:
    async def waits(ctx: Context) -> str:
        return "never awaited"

    with pytest.raises(DefinitionError, match="plain function"):
        Capability("waiting", helpers=waits)


@pytest.mark.spec("C30", "C33")
async def test_a_call_views_what_inherited_helpers_have_written_for_it() -> None:
    class Tally(BaseModel):
        count: int = 0

    class Counting:
        def __init__(self, ctx: Context) -> None:
            self.state = ctx.state(Tally)

        async def up(self) -> None:
            await self.state.increment("count")

    counting: Capability[Counting] = Capability("counting", helpers=Counting, state={"session": Tally})

    @tool
    async def up(ctx: Context) -> int:
        """Write by helpers, and look."""
        await ctx.use(counting).up()
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


@tool(effect="read")
async def who(ctx: Context[CounterHelpers], greeting: str) -> str:
    """Greet whoever acts."""
    return f"{greeting}, {ctx.cap.counter.who}"


@pytest.mark.spec("C41", "C30")
async def test_a_handler_that_says_the_type_of_its_helpers_is_run_like_any_other() -> None:
    async def greets(ctx: Context[CounterHelpers], greeting: str) -> str:
        return f"{greeting}, {ctx.cap.counter.who}"

    assert list(who.parameters) == ["greeting"]
    async with opened(Agent("tester", uses=[counter], tools=[who])) as desk:
        assert await desk.session.call(who, "Hello") == "Hello, user-1"
    async with opened(Handler("greeter", greets, uses=[counter])) as desk:
        assert await desk.session.run("Hello") == "Hello, user-1"

    async def late(greeting: str, ctx: Context[CounterHelpers]) -> str:
        """Have the context too late."""
        return greeting

    with pytest.raises(DefinitionError, match="Context comes first or not at all"):
        tool(late)

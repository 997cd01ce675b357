"""What a type checker must refuse. Checked, never run: every comment below is needed, or it is an error itself."""

from __future__ import annotations

from typing import Protocol

from pydantic import BaseModel

from capset import (
    Agent,
    Capability,
    Context,
    Decision,
    Hooks,
    Preset,
    Principal,
    Reply,
    Request,
    Resource,
    Session,
    Snapshot,
    Tool,
    Toolkit,
    ToolkitContext,
    compose,
    deny,
    dynamic_toolkit,
    evaluate,
    parameterised,
    policy,
    tool,
)
from capset.definitions.blocks import Block
from capset.definitions.tools.processors import Factory
from capset.ext import schema_tool
from capset.flows import as_tool


@tool
def sync(a: int, b: str = "x") -> int:
    return a


@tool
async def with_context(ctx: Context, a: int, *, b: str = "x") -> str:
    return b


def plain(a: int) -> int:
    return a


async def arguments(session: Session, ctx: Context) -> None:
    await session.call(sync)  # pyright: ignore[reportCallIssue]
    await session.call(sync, "1")  # pyright: ignore[reportArgumentType]
    await session.call(sync, a="1")  # pyright: ignore[reportArgumentType]
    await session.call(sync, 1, c=2)  # pyright: ignore[reportCallIssue]
    await session.call(sync, 1, "x", 2)  # pyright: ignore[reportCallIssue]
    await session.call(with_context, ctx, 1)  # pyright: ignore[reportCallIssue]
    await session.call(with_context, 1, "x")  # pyright: ignore[reportCallIssue]
    await session.call(plain, 1)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await session.call("sync", a=1)  # pyright: ignore[reportArgumentType, reportCallIssue]
    await session.call(sync, 1, timeout=5)  # pyright: ignore[reportCallIssue]
    await session.try_call(sync, "1")  # pyright: ignore[reportArgumentType]
    await ctx.call(sync, "1")  # pyright: ignore[reportArgumentType]
    session.stream(sync, "1")  # pyright: ignore[reportArgumentType]
    session.options(timeout="5")  # pyright: ignore[reportArgumentType]


async def results(session: Session) -> None:
    one: str = await session.call(sync, 1)  # pyright: ignore[reportAssignmentType]
    two: int = session.call(sync, 1)  # pyright: ignore[reportAssignmentType]
    three: int = await session.call(with_context, 1)  # pyright: ignore[reportAssignmentType]
    four: int = (await session.try_call(sync, 1)).data  # pyright: ignore[reportAssignmentType]
    print(one, two, three, four)


@tool(effect="delete")  # pyright: ignore[reportArgumentType]
def wrong_effect() -> None: ...


@tool(retries=3)  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def unknown_option() -> None: ...


@tool(timeout="5")  # pyright: ignore[reportArgumentType]
def wrong_timeout() -> None: ...


def other_options(block: Block, factory: Factory) -> None:
    schema_tool(name="a", description="A.", parameters={}, handler=print, retries=3)  # pyright: ignore[reportCallIssue]
    schema_tool(name="a", description="A.", parameters={}, handler=print, limits=3)  # pyright: ignore[reportArgumentType]
    as_tool(block, retry=3)  # pyright: ignore[reportCallIssue]
    as_tool(block, effect="delete")  # pyright: ignore[reportArgumentType]
    Tool.from_processor(inbound={}, outbound={}, factory=factory, description="A.", title="A")  # pyright: ignore[reportCallIssue]
    Tool.from_processor(inbound={}, outbound={}, factory=factory, description="A.", cost="1")  # pyright: ignore[reportArgumentType]
    Toolkit("k", [], instruction="x")  # pyright: ignore[reportCallIssue]


@tool(policies=[plain])  # pyright: ignore[reportArgumentType]
def plain_policy() -> None: ...


@policy  # pyright: ignore[reportArgumentType]
def two_arguments(request: Request, more: int) -> bool:
    return True


@policy  # pyright: ignore[reportArgumentType]
def wrong_answer(request: Request) -> str:
    return "allow"


@policy(binding="late")  # pyright: ignore[reportArgumentType]
def unknown_binding(request: Request) -> bool:
    return True


@dynamic_toolkit  # pyright: ignore[reportArgumentType]
def no_context() -> list[Toolkit]:
    return []


@dynamic_toolkit  # pyright: ignore[reportArgumentType]
def no_members(context: ToolkitContext) -> list[str]:
    return []


@dynamic_toolkit(version="1")  # pyright: ignore[reportCallIssue, reportUntypedFunctionDecorator]
def unknown_toolkit_option(context: ToolkitContext) -> list[Toolkit]:
    return []


def two_events(event: object, more: int) -> None: ...


def toolkits() -> None:
    Toolkit("k", [plain])  # pyright: ignore[reportArgumentType]
    Toolkit("k", policies=[plain])  # pyright: ignore[reportArgumentType]
    Toolkit("k", hooks=two_events)  # pyright: ignore[reportArgumentType]
    Toolkit([sync])  # pyright: ignore[reportArgumentType]
    Hooks(on_tool_executed=two_events)  # pyright: ignore[reportArgumentType]
    Hooks(two_events)  # pyright: ignore[reportCallIssue]
    Hooks(on_tool_started=print)  # pyright: ignore[reportCallIssue]
    policy("gate")  # pyright: ignore[reportArgumentType]
    policy("gate", plain)  # pyright: ignore[reportArgumentType]
    policy("gate", lambda request: True, phase="never")  # pyright: ignore[reportArgumentType]


def definitions() -> None:
    Capability("c", tools=[plain])  # pyright: ignore[reportArgumentType]
    Capability("c", status="beta")  # pyright: ignore[reportArgumentType]
    Capability("c", hooks={})  # pyright: ignore[reportArgumentType]
    Agent("a", uses=["noop"])  # pyright: ignore[reportArgumentType]
    Principal("p", kind="admin")  # pyright: ignore[reportArgumentType]
    Decision("maybe")  # pyright: ignore[reportArgumentType]
    deny()  # pyright: ignore[reportCallIssue]
    compose("a")  # pyright: ignore[reportArgumentType]
    Reply()  # pyright: ignore[reportCallIssue]


async def frozen(snapshot: Snapshot) -> None:
    sync.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    Principal("p").org = "other"  # pyright: ignore[reportAttributeAccessIssue]
    snapshot.tools["sync"] = None  # pyright: ignore[reportIndexIssue]
    await evaluate(snapshot.composition)  # pyright: ignore[reportCallIssue]


class Options(BaseModel):
    limit: int = 3


class Others(BaseModel):
    limit: int = 3


def helping(ctx: Context) -> int:
    return 1


notes = Resource("notes", list[str], scope="session", default=list)
helper = Capability("helper", helpers=helping, config=Options)
bare = Capability("bare")


@parameterised
def storage(scope: str) -> Capability[int]:
    return Capability(f"storage:{scope}", helpers=helping)


@parameterised  # pyright: ignore[reportArgumentType]
def nothing(scope: str) -> str:
    return scope


class Sized(Protocol):
    @property
    def size(self) -> int: ...


async def misled(ctx: Context[Sized]) -> str:
    return ctx.cap.size  # pyright: ignore[reportReturnType]


async def used(ctx: Context) -> None:
    one: str = ctx.use(helper)  # pyright: ignore[reportAssignmentType]
    two: int = ctx.use(bare)  # pyright: ignore[reportAssignmentType]
    three: Others = ctx.config(helper)  # pyright: ignore[reportAssignmentType]
    four: Options = ctx.config(bare)  # pyright: ignore[reportAssignmentType]
    ctx.use("helper")  # pyright: ignore[reportArgumentType]
    await ctx.resource(notes).set("x")  # pyright: ignore[reportArgumentType]
    five: list[int] = await ctx.resource(notes).get()  # pyright: ignore[reportAssignmentType]
    await ctx.resource("notes").get()  # pyright: ignore[reportArgumentType]
    await ctx.state(Options).set(Others())  # pyright: ignore[reportArgumentType]
    await ctx.state(Options).increment()  # pyright: ignore[reportCallIssue]
    ctx.state(int)  # pyright: ignore[reportArgumentType]
    ctx.state(Options, scope="world")  # pyright: ignore[reportArgumentType]
    six: str = (await ctx.state(Options).get()).limit  # pyright: ignore[reportAssignmentType]
    print(one, two, three, four, five, six)


def references() -> None:
    helper.with_presets(full=1)  # pyright: ignore[reportArgumentType]
    helper.with_presets("full")  # pyright: ignore[reportCallIssue]
    helper.with_config(Others())  # pyright: ignore[reportArgumentType]
    helper.ref.with_config({"limit": 1})  # pyright: ignore[reportArgumentType]
    bare.with_config(Options())  # pyright: ignore[reportArgumentType]
    helper.with_names("x_")  # pyright: ignore[reportCallIssue]
    storage(1)  # pyright: ignore[reportArgumentType]
    Agent("a", uses=[storage])  # pyright: ignore[reportArgumentType]
    Agent("a", uses=[Capability])  # pyright: ignore[reportArgumentType]
    Agent("a", uses=helper)  # pyright: ignore[reportArgumentType]
    Agent("a", context=[False])  # pyright: ignore[reportArgumentType]
    Agent("a", state={"world": Options})  # pyright: ignore[reportArgumentType]
    Capability("c", state={"session": dict})  # pyright: ignore[reportArgumentType]
    Capability("c", presets={"full": {}})  # pyright: ignore[reportArgumentType]
    Capability("c", resources=["notes"])  # pyright: ignore[reportArgumentType]
    Preset(uses=[bare])  # pyright: ignore[reportCallIssue]
    Preset(tools=[plain])  # pyright: ignore[reportArgumentType]
    Resource("n", int, scope="world")  # pyright: ignore[reportArgumentType]
    Resource("n", int)  # pyright: ignore[reportCallIssue]
    bare.presets["x"] = Preset()  # pyright: ignore[reportIndexIssue]
    bare.ref.prefix = "x"  # pyright: ignore[reportAttributeAccessIssue]

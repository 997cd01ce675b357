"""What a type checker must refuse. Checked, never run: every comment below is needed, or it is an error itself."""

from __future__ import annotations

from capset import (
    Agent,
    Capability,
    Context,
    Decision,
    Principal,
    Reply,
    Request,
    Session,
    Snapshot,
    compose,
    deny,
    evaluate,
    policy,
    tool,
)


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


@tool(policies=[plain])  # pyright: ignore[reportArgumentType]
def plain_policy() -> None: ...


@policy  # pyright: ignore[reportArgumentType]
def two_arguments(request: Request, more: int) -> bool:
    return True


@policy  # pyright: ignore[reportArgumentType]
def wrong_answer(request: Request) -> str:
    return "allow"


def definitions() -> None:
    Capability("c", tools=[plain])  # pyright: ignore[reportArgumentType]
    Capability("c", status="beta")  # pyright: ignore[reportArgumentType]
    Capability("c", presets={})  # pyright: ignore[reportCallIssue]
    Agent("a", uses=["noop"])  # pyright: ignore[reportArgumentType]
    Principal("p", kind="admin")  # pyright: ignore[reportArgumentType]
    Decision("ask")  # pyright: ignore[reportArgumentType]
    deny()  # pyright: ignore[reportCallIssue]
    compose("a")  # pyright: ignore[reportArgumentType]
    Reply()  # pyright: ignore[reportCallIssue]


async def frozen(snapshot: Snapshot) -> None:
    sync.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    Principal("p").org = "other"  # pyright: ignore[reportAttributeAccessIssue]
    snapshot.tools["sync"] = None  # pyright: ignore[reportIndexIssue]
    await evaluate(snapshot.composition)  # pyright: ignore[reportCallIssue]

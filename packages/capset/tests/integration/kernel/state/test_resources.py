"""Resources: the operations on a value with a scope, whatever keeps it (spec 1, C33–C35)."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from capset import Agent, Capability, Context, Kernel, Principal, Resource, tool
from capset.errors import ConcurrentModificationError, StateError, StoredValueMisfit
from tests.helpers.kernel.state.boards import KNOWN, Board, agent_of, bare, board, done, notes, total
from tests.helpers.kernel.support import opened


@pytest.mark.spec("C34")
async def test_every_operation_returns_the_value_as_it_is_then(store: str) -> None:
    async def do(ctx: Context) -> None:
        texts, number = ctx.resource(notes), ctx.resource(total)
        shaped, loose = ctx.resource(board), ctx.resource(bare)
        assert await texts.get() == []
        assert await texts.push("a", "b") == ["a", "b"]
        assert await texts.set(["c"]) == ["c"]
        assert await texts.update(lambda value: [*value, "d"]) == ["c", "d"]
        assert await number.increment() == 1
        assert await number.increment(by=-5) == -4
        plan: dict[str, Any] = {"title": "Plan", "due": datetime(2026, 1, 2, tzinfo=UTC)}
        assert await shaped.patch(**plan) == Board(**plan)
        assert (await shaped.increment("points", 3)).points == 3
        assert (await shaped.push("x", field="cards")).cards == ["x"]
        assert await shaped.get() == Board(**plan, points=3, cards=["x"])
        assert await loose.increment("hits") == {"hits": 1}
        assert await loose.patch({"other key": 2}) == {"hits": 1, "other key": 2}

    await done(do, store)


@pytest.mark.spec("C34")
async def test_what_was_deleted_is_as_if_never_written(store: str) -> None:
    async def do(ctx: Context) -> None:
        assert await ctx.resource(notes).delete() is False
        await ctx.resource(notes).push("a")
        assert await ctx.resource(notes).delete() is True
        assert await ctx.resource(notes).get() == []
        assert await ctx.resource(notes).push("b") == ["b"]

    await done(do, store)


@pytest.mark.spec("C34")
async def test_a_value_is_bounded_and_what_would_be_longer_changes_nothing(store: str) -> None:
    async def do(ctx: Context) -> None:
        await ctx.resource(notes).push("x" * 1_048_570)
        with pytest.raises(StateError, match="at most 1048576 are kept") as caught:
            await ctx.resource(notes).push("one more")
        assert "Documents" in str(caught.value.hint)
        assert len(await ctx.resource(notes).get()) == 1

    await done(do, store)


share = Resource("share", float, scope="session", default=0.0)
weights = Resource("weights", dict[str, float], scope="session", default=dict)


@pytest.mark.spec("C34")
async def test_a_number_grows_by_a_fraction(store: str) -> None:
    async def do(ctx: Context) -> None:
        ratio = ctx.resource(share)
        assert [await ratio.increment(by=by) for by in (0.5, -0.125, 2)] == [0.5, 0.375, 2.375]
        assert await ratio.get() == 2.375
        assert await ctx.resource(weights).increment("apples", 0.25) == {"apples": 0.25}

    await done(do, store, share, weights)


@pytest.mark.spec("C34", "C35")
@pytest.mark.parametrize("by", [math.nan, math.inf, -math.inf, True, False, Fraction(1, 2), Decimal("0.5"), "1", None])
async def test_nothing_but_a_finite_number_is_added(by: Any) -> None:
    async def do(ctx: Context) -> None:
        await ctx.resource(share).increment(by=1.5)
        await ctx.resource(weights).increment("apples", 3)
        for handle, field in ((ctx.resource(share), None), (ctx.resource(weights), "apples")):
            with pytest.raises(StateError, match="increment takes a finite number; got"):
                await handle.increment(field, by)
        assert await ctx.resource(share).get() == 1.5
        assert await ctx.resource(weights).get() == {"apples": 3}

    await done(do, "memory://", share, weights)


@pytest.mark.spec("C34")
@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda ctx: ctx.resource(total).set("5"), "cannot take this"),
        (lambda ctx: ctx.resource(notes).push(5), "cannot take this"),
        (lambda ctx: ctx.resource(board).push("a", "b", "c", "d", field="cards"), "cards"),
        (lambda ctx: ctx.resource(board).patch(nothing=1), "nothing"),
        (lambda ctx: ctx.resource(notes).increment(), "only a number can be incremented"),
        (lambda ctx: ctx.resource(total).push(1), "only a list can be pushed to"),
        (lambda ctx: ctx.resource(total).patch(a=1), "only an object has fields"),
        (lambda ctx: ctx.resource(total).increment(by=0.5), "cannot take this"),
        (lambda ctx: ctx.resource(board).increment("points", 0.5), "points"),
        (lambda ctx: ctx.resource(bare).get(), "no value yet"),
    ],
)
async def test_what_does_not_fit_is_refused_and_changes_nothing(do: Any, message: str, store: str) -> None:
    async def trying(ctx: Context) -> None:
        await ctx.resource(notes).push("kept")
        await ctx.resource(total).increment()
        with pytest.raises(StateError, match=message):
            await do(ctx)
        assert await ctx.resource(notes).get() == ["kept"]
        assert await ctx.resource(total).get() == 1
        assert await ctx.resource(board).get() == Board()

    await done(trying, store)


@pytest.mark.spec("C35")
async def test_a_stored_value_that_no_longer_fits_is_reported_and_kept(store: str) -> None:
    older = Resource("notes", dict[str, str], scope="session", default=dict)

    async def refused(ctx: Context) -> None:
        for attempt in (ctx.resource(notes).get(), ctx.resource(notes).push("x")):
            with pytest.raises(StoredValueMisfit, match="no longer fits its type") as caught:
                await attempt
            assert "set()" in str(caught.value.hint)

    first, write = agent_of(older, do=lambda ctx: ctx.resource(older).set({"a": "b"}))
    second, refuse = agent_of(notes, do=refused)
    third, renew = agent_of(notes, do=lambda ctx: ctx.resource(notes).set(["new"]))
    async with opened(first, store=store) as desk:
        await write(desk.session)
        for agent, run, result in ((second, refuse, None), (third, renew, ["new"])):
            who, session_id = desk.session.snapshot.principal, desk.session.id
            async with desk.kernel.open(agent, principal=who, session_id=session_id) as session:
                assert await run(session) == result


@pytest.mark.spec("C34")
async def test_an_update_may_wait_and_fail_and_then_nothing_was_written(store: str) -> None:
    async def do(ctx: Context) -> None:
        async def slowly(value: list[str]) -> list[str]:
            await asyncio.sleep(0)
            return [*value, "slow"]

        def badly(value: list[str]) -> list[str]:
            raise ZeroDivisionError

        assert await ctx.resource(notes).update(slowly) == ["slow"]
        with pytest.raises(ZeroDivisionError):
            await ctx.resource(notes).update(badly)
        with pytest.raises(StateError):
            await ctx.resource(notes).update(lambda value: "no list")  # pyright: ignore[reportArgumentType]
        assert await ctx.resource(notes).get() == ["slow"]

    await done(do, store)


@pytest.mark.spec("C34")
async def test_an_update_that_others_outrun_until_the_time_is_up_says_how_often_it_was_tried(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not of the call, which would be cut off where the machine is slow.
    monkeypatch.setattr("capset.kernel.state.values.WAIT_SECONDS", 1.0)

    async def do(ctx: Context) -> None:
        mine = ctx.resource(total)

        async def outrun(value: int) -> int:
            await mine.increment()  # another writer, every time
            return value + 100

        with pytest.raises(ConcurrentModificationError) as caught:
            await mine.update(outrun)
        assert caught.value.attempts >= 2
        assert caught.value.status == 409
        assert await mine.get() == caught.value.attempts

    await done(do, store)


@pytest.mark.spec("C34")
async def test_no_update_of_many_tasks_is_lost(store: str) -> None:
    async def do(ctx: Context) -> None:
        async def update_all(number: int) -> None:
            await ctx.resource(total).increment()
            await ctx.resource(total).update(lambda value: value + 1)
            await ctx.resource(notes).push(str(number))
            await ctx.resource(bare).patch({str(number): number})

        await asyncio.gather(*(update_all(number) for number in range(64)))
        assert await ctx.resource(total).get() == 128
        assert sorted(map(int, await ctx.resource(notes).get())) == list(range(64))
        assert await ctx.resource(bare).get() == {str(number): number for number in range(64)}

    await done(do, store)


@pytest.mark.spec("C33")
async def test_a_scope_belongs_to_its_owner(store: str) -> None:
    scopes: list[Any] = ["user", "org", "session", "request"]
    every = [Resource("kept", int, scope=scope, default=0) for scope in scopes]

    async def do(ctx: Context) -> list[int]:
        return [await ctx.resource(resource).increment() for resource in every]

    agent, run = agent_of(*every, do=do)
    ann, ben = Principal("ann", org="acme"), Principal("ben", org="acme")
    async with Kernel(store=store) as kernel:

        async def counts(principal: Principal, id: str | None = None) -> tuple[list[int], str]:
            async with kernel.open(agent, principal=principal, session_id=id) as session:
                return await run(session), session.id

        first, session_id = await counts(ann)
        assert first == [1, 1, 1, 1]
        assert (await counts(ann, session_id))[0] == [2, 2, 2, 1]
        assert (await counts(ann))[0] == [3, 3, 1, 1]
        assert (await counts(ben))[0] == [1, 4, 1, 1]
        assert (await counts(Principal("ann", org="other")))[0] == [1, 1, 1, 1]


@pytest.mark.spec("C33")
@pytest.mark.parametrize(
    ("principal", "scope", "message"),
    [
        (Principal("bot", kind="agent", org="acme"), "user", "principal of the kind agent"),
        (Principal("acme", kind="org"), "user", "principal of the kind org"),
        (Principal("ann"), "org", "belongs to no org"),
    ],
)
async def test_a_scope_that_is_not_there_is_a_clear_error(principal: Principal, scope: Any, message: str) -> None:
    resource = Resource("kept", int, scope=scope, default=0)

    async def do(ctx: Context) -> None:
        with pytest.raises(StateError, match=f"no {scope} scope here: .*{message}"):
            await ctx.resource(resource).get()
        with pytest.raises(StateError, match=f"no {scope} scope here"):
            _ = getattr(ctx, scope)

    await done(do, "memory://", resource, principal=principal)


@pytest.mark.spec("C33")
async def test_every_scope_has_the_id_of_its_owner() -> None:
    async def do(ctx: Context) -> list[str]:
        return [ctx.session.id, ctx.user.id, ctx.org.id]

    agent, run = agent_of(*KNOWN, do=do)
    async with opened(agent, principal=Principal("ann", org="acme")) as desk:
        assert await run(desk.session) == [desk.session.id, "ann", "acme"]


@pytest.mark.spec("C33")
async def test_resources_stand_by_name_too_and_what_is_not_declared_is_refused() -> None:
    other = Resource("nots", list[str], scope="session", default=list)

    async def do(ctx: Context) -> None:
        await ctx.session.resources.notes.push("by name")
        assert await ctx.resource(notes).get() == ["by name"]
        assert not hasattr(ctx.user.resources, "notes")
        with pytest.raises(StateError, match=r"unknown resource 'nots'; did you mean 'notes'\?") as caught:
            ctx.resource(other)
        assert caught.value.hint == "add it to resources="

    await done(do)


@pytest.mark.spec("C33")
async def test_what_a_deleted_session_kept_is_gone_and_takes_nothing_more(store: str) -> None:
    agent, run = agent_of(notes, do=lambda ctx: ctx.resource(notes).push("x"))
    async with opened(agent, store=store) as desk:
        await run(desk.session)
        await desk.kernel.store.sessions.delete(desk.session.id)
        with pytest.raises(StateError) as caught:
            await run(desk.session)
        assert caught.value.status == 404


@pytest.mark.timeout(20)
@pytest.mark.spec("C34")
async def test_an_update_inside_an_update_of_the_same_value_is_refused_and_does_not_hang(store: str) -> None:
    async def do(ctx: Context) -> None:
        mine, texts = ctx.resource(total), ctx.resource(notes)

        async def update_within(value: int) -> int:
            await texts.update(lambda entries: [*entries, "another value"])
            await mine.increment()
            with pytest.raises(StateError, match="wait for itself") as caught:
                await mine.set(7)
            assert caught.value.hint == "return the new value from the function"
            with pytest.raises(StateError, match="wait for itself"):
                await asyncio.gather(mine.update(lambda now: now))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await mine.update(update_within)
        assert await mine.update(lambda value: value + 1) == 2
        assert await texts.get() == ["another value"]

    await done(do, store)


@pytest.mark.spec("C34")
async def test_a_task_that_an_update_has_started_may_update_once_it_is_over() -> None:
    async def do(ctx: Context) -> None:
        mine, over = ctx.resource(total), asyncio.Event()
        started: list[asyncio.Task[int]] = []

        async def later() -> int:
            await over.wait()
            return await mine.update(lambda value: value + 1)

        async def starting(value: int) -> int:
            started.append(asyncio.create_task(later()))
            return value + 1

        await mine.update(starting)
        over.set()
        assert await started[0] == 2

    await done(do)


@pytest.mark.spec("C34")
async def test_who_waits_for_an_update_of_others_waits_no_longer_than_until_the_deadline() -> None:
    started, release, handles = asyncio.Event(), asyncio.Event(), list[Any]()

    async def slowly(value: int) -> int:
        started.set()
        await release.wait()
        return value + 1

    @tool
    async def hold(ctx: Context) -> int:
        """Update slowly."""
        return await ctx.resource(total).update(slowly)

    @tool
    async def leak(ctx: Context) -> bool:
        """Keep the handle beyond the call."""
        handles.append(ctx.resource(total))
        return True

    async with opened(Agent("tester", uses=[Capability("kit", tools=[hold, leak], resources=[total])])) as desk:
        await desk.session.options(timeout=0.2).call(leak)
        slow = asyncio.create_task(desk.session.call(hold))
        await started.wait()
        with pytest.raises(ConcurrentModificationError, match="held by other updates"):
            await handles[0].update(lambda value: value + 100)
        release.set()
        assert await slow == 1
        assert await handles[0].get() == 1


@pytest.mark.spec("C34")
async def test_a_cancelled_update_writes_nothing_and_lets_others_go_on(store: str) -> None:
    async def do(ctx: Context) -> None:
        mine, begun = ctx.resource(total), asyncio.Event()

        async def forever(value: int) -> int:
            begun.set()
            await asyncio.Event().wait()
            return value + 100

        task = asyncio.create_task(mine.update(forever))
        waiting = asyncio.create_task(mine.update(lambda value: value + 1))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await waiting == 1

    await done(do, store)

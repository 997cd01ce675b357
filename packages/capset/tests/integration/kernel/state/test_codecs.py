"""What is stored can be read again, whatever its type, and is what was meant (spec 1, C34, C35)."""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, RootModel, computed_field, field_validator, model_serializer

from capset import Capability, Context, Resource
from capset.errors import DefinitionError, StateError
from tests.helpers.kernel.state.calls import done
from tests.helpers.kernel.state.states import agent_of
from tests.helpers.kernel.support import opened


class Colour(enum.Enum):
    RED = "red"
    FIVE = 5


class Address(BaseModel):
    code: str = Field(alias="zipCode")


class Doubled(BaseModel):
    half: int = 1

    @computed_field
    @property
    def whole(self) -> int:
        return 2 * self.half


@dataclass(slots=True)
class Point:
    x: float
    y: Decimal


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    loud: float = 1.5


class Raw(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    data: bytes = b""


class Numbers(RootModel[list[int]]):
    pass


class Everything(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    share: float | None = 0.0
    count: int = Field(default=0, le=10**9)
    price: Decimal = Decimal(0)
    data: bytes = b""
    colour: Colour = Colour.RED
    names: set[str] = set()
    pair: tuple[int, str] = (1, "a")
    id: UUID | None = None
    at: datetime | None = None
    day: date | None = None
    hour: time | None = None
    length: timedelta | None = None
    path: PurePosixPath = PurePosixPath("/")
    doubled: Doubled = Doubled()
    address: Address | None = None
    point: Point | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat()
    raw: Raw = Raw()
    numbers: Numbers = Numbers([])
    text: Json[list[int]] | None = None


VALUES: dict[str, Any] = {
    "share": 1e300,
    "count": 5,
    "price": Decimal("1.50"),
    "data": b"\xff\x00abcd",
    "colour": Colour.FIVE,
    "names": {"a", "b"},
    "pair": (2, "b"),
    "id": UUID(int=7),
    "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "hour": time(1, 2, 3, 4),
    "length": timedelta(days=1, microseconds=3),
    "path": PurePosixPath("/a/b"),
    "doubled": Doubled(half=5),
    "address": Address(zipCode="1000"),
    "point": Point(1.5, Decimal("2.5")),
    "pet": Dog(loud=2.5),
    "raw": Raw(data=b"\xff\xfe"),
    "numbers": Numbers([1, 2]),
    "text": [1, 2],
}
everything = Resource("everything", Everything, scope="session", default=Everything)
DO: dict[str, Callable[[Any, str, Any], Awaitable[Any]]] = {
    "patch": lambda handle, name, value: handle.patch({name: value}),
    "set": lambda handle, name, value: handle.set(Everything().model_copy(update={name: value})),
    "update": lambda handle, name, value: handle.update(lambda now: now.model_copy(update={name: value})),
}


def handles(ctx: Context) -> list[Any]:
    return [ctx.state(Everything), ctx.resource(everything)]


@pytest.mark.spec("C34", "C35")
@pytest.mark.parametrize("by", DO)
async def test_values_of_every_type_come_back_as_they_were(by: str, store: str) -> None:
    async def do(ctx: Context) -> None:
        for handle in handles(ctx):
            for name, value in VALUES.items():
                returned = await DO[by](handle, name, value)
                assert (name, getattr(returned, name)) == (name, value)
                assert (name, getattr(await handle.get(), name)) == (name, value)
        assert ctx.session.state.text == VALUES["text"]

    await done(do, everything, store=store, state={"session": Everything})


@pytest.mark.spec("C35")
@pytest.mark.parametrize("by", DO)
@pytest.mark.parametrize(
    ("name", "value"),
    [("share", math.nan), ("share", math.inf), ("count", 10**10), ("count", -(10**5000)), ("price", object())],
    ids=["nan", "infinity", "too much", "too long", "no data"],
)
async def test_what_could_not_be_read_again_is_not_written(by: str, name: str, value: Any) -> None:
    async def do(ctx: Context) -> None:
        for handle in handles(ctx):
            await handle.patch(count=3)
            with pytest.raises(StateError):
                await DO[by](handle, name, value)
            assert await handle.get() == Everything(count=3)

    await done(do, everything, state={"session": Everything})


@pytest.mark.spec("C35")
async def test_a_result_that_no_number_can_hold_is_refused() -> None:
    async def do(ctx: Context) -> None:
        for handle in handles(ctx):
            await handle.patch(share=1e308)
            for by in (1e308, 10**400):
                with pytest.raises(StateError):
                    await handle.increment("share", by)
            assert (await handle.get()).share == 1e308
            with pytest.raises(StateError, match="only a number") as caught:
                await handle.increment("price")
            assert "update()" in str(caught.value.hint)

    await done(do, everything, state={"session": Everything})


@pytest.mark.spec("C35")
async def test_data_that_is_too_deep_to_be_read_is_refused() -> None:
    loose = Resource("loose", list[Any], scope="session", default=list)

    async def do(ctx: Context) -> None:
        deep: list[Any] = []
        for _ in range(240):
            deep = [deep]
        for write in (ctx.resource(loose).set(deep), ctx.resource(loose).push(deep)):
            with pytest.raises(StateError):
                await write
        assert await ctx.resource(loose).get() == []

    await done(do, loose)


@pytest.mark.spec("C34")
async def test_fields_and_items_are_written_as_their_types_write_them() -> None:
    class Shelf(BaseModel):
        model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

        items: list[bytes] = []
        name: str = Field(default="", alias="ownName")

    raws = Resource("raws", list[Raw], scope="session", default=list)
    shelf = Resource("shelf", Shelf, scope="session", default=Shelf)
    named = Resource("named", dict[str, Address], scope="session", default=dict)

    async def do(ctx: Context) -> None:
        assert await ctx.resource(raws).push(Raw(data=b"abcd")) == [Raw(data=b"abcd")]
        assert (await ctx.resource(shelf).push(b"abcd", field="items")).items == [b"abcd"]
        assert (await ctx.resource(shelf).patch(name="x")).name == "x"
        assert (await ctx.resource(shelf).get()).name == "x"
        await ctx.resource(named).patch(home=Address(zipCode="1000"))
        assert (await ctx.resource(named).get())["home"].code == "1000"

    await done(do, raws, shelf, named)


@pytest.mark.spec("C33", "C34")
async def test_one_model_writes_no_fields_of_another() -> None:
    class Mine(BaseModel):
        mine: int = 0

    class Other(BaseModel):
        other: int = 0

    async def do(ctx: Context) -> None:
        mine = ctx.state(Mine)
        for wrong in (mine.patch(other=1), mine.increment("other"), mine.push(1, field="other")):
            with pytest.raises(StateError, match="unknown field 'other'"):
                await wrong
        await mine.increment("mine")
        with pytest.raises(StateError, match="takes a value of Mine; got Other"):
            await mine.set(Other())  # pyright: ignore[reportArgumentType]
        assert (ctx.session.state.mine, ctx.session.state.other) == (1, 0)

    agent, run = agent_of(do, uses=[Capability("other", state={"session": Other})], state={"session": Mine})
    async with opened(agent) as desk:
        await run(desk.session)


@pytest.mark.spec("C35")
def test_a_model_that_writes_itself_down_in_its_own_way_is_no_state() -> None:
    class Own(BaseModel):
        kept: int = 0

        @model_serializer
        def write(self) -> dict[str, int]:
            return {"other": 1}

    class Hidden(BaseModel):
        kept: int = Field(default=0, exclude=True)

    for model in (Own, Hidden):
        with pytest.raises(DefinitionError, match=model.__name__):
            Capability("kit", state={"session": model})


@pytest.mark.timeout(20)
@pytest.mark.spec("C34")
@pytest.mark.parametrize("raised", [SystemExit(3), StopIteration(), asyncio.CancelledError(), ZeroDivisionError()])
async def test_whatever_a_validator_raises_the_store_goes_on(raised: BaseException, store: str) -> None:
    class Fragile(BaseModel):
        name: str = ""
        count: int = 0

        @field_validator("name")
        @classmethod
        def breaks(cls, name: str) -> str:
            if name == "broken":
                raise raised
            return name

    async def do(ctx: Context) -> None:
        with pytest.raises((type(raised), RuntimeError)):  # no coroutine can raise StopIteration
            await ctx.state(Fragile).patch(name="broken")
        assert await ctx.state(Fragile).increment("count") == Fragile(count=1)

    await done(do, store=store, state={"session": Fragile})

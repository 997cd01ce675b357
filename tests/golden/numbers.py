"""Tools and capabilities whose payloads hold numbers of every size, what is empty, and what is nested deeply."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, JsonValue

from capset import Capability, Tool, tool


def nested(levels: int) -> JsonValue:
    return [{"deeper": nested(levels - 1), "and": []}] if levels else "the end"


DEEP: Final = nested(20)


@tool
def floats(
    share: Annotated[
        float, Field(gt=-0.5, lt=1.5, multiple_of=0.001, examples=[0.1, 1 / 3, 1.0, 100.0, 123456.789])
    ] = 0.1,
    zero: float = -0.0,
) -> float:
    """Take a share."""
    return share + zero


@tool
def exponents(
    number: Annotated[
        float,
        Field(examples=[1e21, 1e20, 999999999999999900000.0, 1e16, 1e15, 1e-4, 1e-5, 1e-6, 1e-7, -2.5e-8, 1.5e300]),
    ],
    least: float = 5e-324,
    most: float = 1.7976931348623157e308,
) -> float:
    """Take a number of any size."""
    return number + least + most


@tool
def long_integers(
    number: Annotated[
        int, Field(ge=-(2**64), le=10**40, examples=[2**53 - 1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1])
    ],
    id: int = 2**63 - 1,
) -> int:
    """Take an integer that JSON readers would round."""
    return number + id


@tool
def empties(
    anything: Annotated[object, Field(examples=[{}, [], "", None, False, 0, [[]], [{}], {"": {}}])] = None,
    text: str = "",
    items: tuple[()] = (),
    table: dict[str, int] = {},  # noqa: B006  # a default is copied for each call
) -> object:
    """Take what is empty."""
    return anything or text or items or table


@tool
def deep(tree: Annotated[object, Field(examples=[DEEP])]) -> dict[str, list[dict[str, list[dict[str, list[int]]]]]]:
    """Take what is nested deeply."""
    return {"tree": [{str(tree): []}]}


NUMBERS: Final[tuple[Tool[..., Any], ...]] = (floats, exponents, long_integers, empties, deep)


class Measures(BaseModel):
    data: JsonValue = None


measured = Capability("measured", config=Measures)
MEASURES: Final[dict[str, Measures]] = {
    "numbers": Measures(data=[0, -0.0, 0.5, -1, 1.0, 1e21, 1e-7, 2**53, 2**53 + 1, -(10**30), True]),
    "nested": Measures(data={"b": [{"z": [], "a": {}}, [[[DEEP]]]], "a": {"c": None, "B": {"": ""}}}),
    "nothing": Measures(),
}

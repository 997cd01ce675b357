from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Tool
from capset.errors import InvalidArguments, ToolError
from capset_tools.test_math import LARGEST, add, divide, multiply, subtract
from capset_tools.test_math import test_math as capability
from tests.helpers.tools.support import fields_of, send, session_of

BEYOND = int(LARGEST) + 1
whole_numbers = st.integers(-(10**40), 10**40)
numbers = whole_numbers | st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.spec("P20")
@pytest.mark.parametrize(
    ("tool", "a", "b", "result"),
    [
        (add, 2, 3, 5),
        (add, 2, 3.0, 5.0),
        (add, 0.5, 0.25, 0.75),
        (subtract, 2, 3, -1),
        (multiply, 6, 7, 42),
        (multiply, 1.5, 2, 3.0),
        (divide, 6, 3, 2),
        (divide, 7, 2, 3.5),
        (divide, -6, 4, -1.5),
        (divide, 6.0, 3, 2.0),
        (divide, 10**30, 10**10, 10**20),
    ],
)
async def test_whole_numbers_stay_whole_where_they_can(tool: Tool[..., Any], a: Any, b: Any, result: Any) -> None:
    async with session_of(capability) as session:
        reply = await session.call(tool, a=a, b=b)
    assert reply == {"result": result, "operation": tool.name, "a": a, "b": b}
    assert [type(reply[name]) for name in ("result", "a", "b")] == [type(result), type(a), type(b)]


@pytest.mark.spec("P20")
async def test_json_numbers_keep_their_type() -> None:
    async with session_of(capability) as session:
        integer_reply = await send(session, "add", '{"a": 2, "b": 3}')
        mixed = await send(session, "add", '{"a": 2.0, "b": 3}')
        large = await send(session, "add", f'{{"a": {10**30}, "b": 1}}')
    assert repr(integer_reply.data["result"]) == "5"
    assert repr(mixed.data["result"]) == "5.0"
    assert large.data["result"] == 10**30 + 1


@pytest.mark.spec("G11")
@pytest.mark.parametrize("value", ["true", '"5"', "null", "[1]", "NaN", "Infinity", "-Infinity", "1e999"])
async def test_json_that_is_no_finite_number_is_refused_under_its_name(value: str) -> None:
    async with session_of(capability) as session:
        message = await send(session, "add", f'{{"a": 1, "b": {value}}}')
    assert message.kind == "error"
    assert "b: Input should be a finite number" in str(message.data)


@pytest.mark.spec("G11", "G12")
@pytest.mark.parametrize("value", [True, "5", None, math.nan, math.inf, 1j])
async def test_python_values_that_are_no_finite_number_are_refused_too(value: Any) -> None:
    async with session_of(capability) as session:
        with pytest.raises(InvalidArguments) as refused:
            await session.call(add, a=value, b=value)
    assert fields_of(refused.value) == dict.fromkeys(("a", "b"), "Input should be a finite number")


@pytest.mark.spec("P20")
@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
@pytest.mark.parametrize("a", [1, 0, 0.5])
async def test_dividing_by_zero_is_an_error_that_the_model_reads(a: float, zero: float) -> None:
    async with session_of(capability) as session:
        result = await session.try_call(divide, a=a, b=zero)
    assert not result.success
    assert isinstance(result.error, ToolError)
    assert (result.error.code, result.error.message) == ("division_by_zero", "cannot divide by zero")


@pytest.mark.parametrize(
    ("tool", "a", "b"),
    [
        (add, LARGEST, LARGEST),
        (add, int(LARGEST), 1),
        (subtract, -LARGEST, LARGEST),
        (subtract, -int(LARGEST), 1),
        (multiply, 1e200, 1e200),
        (multiply, 10**200, 10**200),
        (divide, 1e300, 1e-300),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else f"{value:.0e}",
)
async def test_a_result_that_no_float_can_hold_is_an_error(tool: Tool[..., Any], a: Any, b: Any) -> None:
    async with session_of(capability) as session:
        with pytest.raises(ToolError, match="the result is too large") as refused:
            await session.call(tool, a=a, b=b)
    assert refused.value.code == "number_too_large"


@pytest.mark.parametrize("tool", capability.every_tool, ids=lambda tool: tool.name)
@pytest.mark.parametrize(
    ("a", "b", "name"),
    [(BEYOND, 1.0, "a"), (1.0, -BEYOND, "b"), (10**5000, 1, "a")],
    ids=["just too large", "negative", "too long to write"],
)
async def test_operands_are_bounded_alike(tool: Tool[..., Any], a: Any, b: Any, name: str) -> None:
    async with session_of(capability) as session:
        with pytest.raises(ToolError, match=f"{name} is too large"):
            await session.call(tool, a=a, b=b)


async def test_the_largest_numbers_are_allowed() -> None:
    async with session_of(capability) as session:
        assert (await session.call(add, LARGEST, 0))["result"] == LARGEST
        assert (await session.call(multiply, int(LARGEST), -1))["result"] == -int(LARGEST)
        assert (await session.call(divide, int(LARGEST), 1.0))["result"] == LARGEST


@given(whole_numbers, whole_numbers)
async def test_whole_numbers_are_exact(a: int, b: int) -> None:
    assert (await add.handler(a, b))["result"] == a + b
    assert (await subtract.handler(a, b))["result"] == a - b
    assert (await multiply.handler(a, b))["result"] == a * b
    if b:
        quotient = (await divide.handler(a, b))["result"]
        exact = Fraction(a, b)
        assert quotient == (exact if exact.denominator == 1 else float(exact))


@given(st.sampled_from([add, subtract, multiply, divide]), numbers, numbers)
async def test_a_result_is_finite_or_an_error(tool: Tool[..., Any], a: float, b: float) -> None:
    refused = None
    try:
        result = (await tool.handler(a, b))["result"]
    except ToolError as error:
        refused, result = error.code, 0
    assert refused in {None, "division_by_zero", "number_too_large"}
    assert math.isfinite(result)
    assert type(result) in (int, float)

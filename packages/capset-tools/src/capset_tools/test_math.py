"""``test_math``: four operations on two numbers, to try out an agent's tool calls (spec 5, P20)."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Annotated, Final, Literal

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from capset import Capability, ToolError, tool


class _OneError:
    """Reports a value that is not a number once, under the parameter's name, instead of once per possible type."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), "number", custom_error_message="Input should be a finite number"
        )


Number = Annotated[int | Annotated[float, Field(allow_inf_nan=False)], _OneError()]
Operation = Literal["add", "subtract", "multiply", "divide"]

LARGEST: Final = sys.float_info.max
"""Operands and results are within ±LARGEST, about 1.8e308. This includes integers, which are exact up to there."""


class MathResult(TypedDict):
    result: Annotated[Number, Field(description="The result; a whole number where both operands allow one.")]
    operation: Annotated[Operation, Field(description="What was done.")]
    a: Annotated[Number, Field(description="The first operand.")]
    b: Annotated[Number, Field(description="The second operand.")]


@tool(effect="read", permissions=())
async def add(a: Number, b: Number) -> MathResult:
    """Add two numbers: a + b. Use it for sums instead of adding up by yourself.

    Args:
        a: The first number.
        b: The number to add to it.
    """
    return _calculate("add", operator.add, a, b)


@tool(effect="read", permissions=())
async def subtract(a: Number, b: Number) -> MathResult:
    """Subtract the second number from the first: a - b. Use it for differences.

    Args:
        a: The number to subtract from.
        b: The number to take away.
    """
    return _calculate("subtract", operator.sub, a, b)


@tool(effect="read", permissions=())
async def multiply(a: Number, b: Number) -> MathResult:
    """Multiply two numbers: a * b. Use it for products.

    Args:
        a: The first factor.
        b: The second factor.
    """
    return _calculate("multiply", operator.mul, a, b)


@tool(effect="read", permissions=())
async def divide(a: Number, b: Number) -> MathResult:
    """Divide the first number by the second: a / b. Use it for quotients, shares and averages.

    Args:
        a: The number to divide.
        b: The number to divide by; not zero.
    """
    if b == 0:
        raise ToolError("cannot divide by zero", code="division_by_zero")
    return _calculate("divide", _quotient, a, b)


def _calculate(operation: Operation, compute: Callable[[Number, Number], Number], a: Number, b: Number) -> MathResult:
    for name, operand in (("a", a), ("b", b)):
        _check(name, operand)
    result = compute(a, b)
    _check("the result", result)
    return MathResult(result=result, operation=operation, a=a, b=b)


def _check(label: str, number: Number) -> None:
    if not -LARGEST <= number <= LARGEST:
        raise ToolError(f"{label} is too large: numbers go up to about 1.8e308", code="number_too_large")


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        quotient, rest = divmod(a, b)
        if rest == 0:
            return quotient
    return a / b


test_math = Capability(
    "test_math",
    title="Test Math",
    description="A calculator with four operations, for trying out tool calls and their errors.",
    icon="calculator",
    category="Testing",
    instructions="Calculate with `add`, `subtract`, `multiply` and `divide`, one step a call, not in your head.",
    tools=[add, subtract, multiply, divide],
)

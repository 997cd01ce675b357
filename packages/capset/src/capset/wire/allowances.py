"""Allowances on the wire and in configuration files (spec 4, G36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from capset.definitions.governance.allowances import MAX_LIMITS, Allowance
from capset.definitions.governance.limits import (
    MAX_COUNT,
    MAX_REQUESTS,
    MAX_WINDOW_SECONDS,
    UNIT_SECONDS,
    Budget,
    limit_of,
)
from capset.definitions.governance.usage import INTEGER_QUANTITIES, QUANTITIES, usage_limit_of
from capset.errors import DefinitionError
from capset.wire.shapes import StrictShape, WholeNumber, as_integer


def _up_to_pattern(maximum: int) -> str:
    """Return a regular expression that matches the whole numbers from 1 to ``maximum``."""
    digits, last = str(maximum), len(str(maximum)) - 1
    ranges = [f"[1-9][0-9]{{0,{last - 1}}}"] if last else []
    for index, digit in enumerate(map(int, digits)):
        if digit > (minimum := 0 if index else 1):
            ranges.append(f"{digits[:index]}[{minimum}-{digit - 1}][0-9]{{{last - index}}}")
    return f"({'|'.join([*ranges, digits])})"


_WINDOW: Final = (
    f"({'|'.join(f'{_up_to_pattern(MAX_WINDOW_SECONDS // size)}{unit}' for unit, size in UNIT_SECONDS.items())})"
)
_WINDOW_SCHEMA: Final = {"type": "string", "pattern": f"^{_WINDOW}$"}
LIMIT_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "string", "pattern": f"^{_up_to_pattern(MAX_REQUESTS)}/{_WINDOW}$"},
        {
            "type": "object",
            "properties": {
                "requests": {"type": "integer", "minimum": 1, "maximum": MAX_REQUESTS},
                "window": _WINDOW_SCHEMA,
                "per": {"enum": ["principal", "session", "org", "all"], "default": "principal"},
                "scope": {"enum": ["shared", "process"], "default": "shared"},
            },
            "required": ["requests", "window"],
            "additionalProperties": False,
        },
    ]
}


def _stored_limit(limit: Any) -> str | dict[str, str | int]:  # any JSON
    """Return a limit in its stored form."""
    if isinstance(limit, Mapping):
        limit = {name: as_integer(value) for name, value in cast("Mapping[str, Any]", limit).items()}
    try:
        return limit_of(limit).plain()
    except DefinitionError as error:
        raise PydanticCustomError("limit", "{message}", {"message": error.message}) from None


USAGE_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {
            "type": "string",
            "pattern": rf"^[a-z]+=[\d.]+(,[a-z]+=[\d.]+)*(/{_WINDOW})?( per (principal|session|org|all))?$",
        },
        {
            "type": "object",
            "properties": {
                **{name: {"type": "integer", "minimum": 1, "maximum": MAX_COUNT} for name in INTEGER_QUANTITIES},
                **{
                    name: {"type": "number", "exclusiveMinimum": 0}
                    for name in QUANTITIES
                    if name not in INTEGER_QUANTITIES
                },
                "window": _WINDOW_SCHEMA,
                "per": {"enum": ["principal", "session", "org", "all"], "default": "principal"},
            },
            "additionalProperties": False,
        },
    ]
}


def _stored_usage_limit(usage: Any) -> dict[str, str | float]:  # any JSON
    """Return a usage limit in its stored form."""
    if isinstance(usage, Mapping):
        usage = {name: as_integer(value) for name, value in cast("Mapping[str, Any]", usage).items()}
    try:
        return usage_limit_of(usage).plain()
    except DefinitionError as error:
        raise PydanticCustomError("usage_limit", "{message}", {"message": error.message}) from None


UsageEntry = Annotated[str | dict[str, Any], BeforeValidator(_stored_usage_limit), WithJsonSchema(USAGE_SCHEMA)]
LimitEntry = Annotated[str | dict[str, Any], BeforeValidator(_stored_limit), WithJsonSchema(LIMIT_SCHEMA)]


class BudgetShape(StrictShape):
    """A budget for the number of calls that reach their handlers, for the sum of their costs, or for both."""

    calls: Annotated[int, Field(ge=0, le=MAX_COUNT), WholeNumber] | None = Field(
        None, description="The number of calls."
    )
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="The sum of the costs of their tools."
    )

    def budget(self) -> Budget | None:
        """Return the budget; ``None`` if it is empty."""
        return None if self.calls is None and self.cost is None else Budget(self.calls, self.cost)


class AllowanceShape(StrictShape):
    """Limits on all calls together, budgets for each session and each run, and limits on model usage.

    The allowances of the server, the principal and the agent apply together, so the lowest decides.
    """

    limits: list[LimitEntry] = Field(
        default_factory=list[str | dict[str, Any]],
        max_length=MAX_LIMITS,
        description="How often all tools together may be called: `100/1h` for each principal, or a mapping.",
    )
    session: BudgetShape | None = Field(None, description="What each session may use, however often it is opened.")
    run: BudgetShape | None = Field(None, description="What each run, such as a turn, may use.")
    usage: list[UsageEntry] = Field(
        default_factory=list[str | dict[str, Any]],
        max_length=MAX_LIMITS,
        description="What the models of agents may use: `tokens=1000000/1d` for each principal, or a mapping.",
    )

    def allowance(self) -> Allowance | None:
        """Return the allowance; ``None`` if it is empty."""
        session, run = (shape and shape.budget() for shape in (self.session, self.run))
        if not self.limits and not self.usage and session is None and run is None:
            return None
        return Allowance(limits=self.limits, session=session, run=run, usage=self.usage)


def stored_allowance(shape: AllowanceShape | None) -> dict[str, Any] | None:  # JSON
    """Return an allowance in its stored form."""
    allowance = shape and shape.allowance()
    return allowance and allowance.plain()


def allowance_shape(stored: Mapping[str, Any] | None) -> AllowanceShape | None:  # JSON
    """Return the wire shape of a stored allowance."""
    return None if stored is None else AllowanceShape.model_validate(stored)

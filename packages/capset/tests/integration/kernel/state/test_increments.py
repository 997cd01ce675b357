"""Numbers of resources: by what they grow, and by what not (spec 1, C34)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from capset import Context, Resource
from capset.errors import StateError
from tests.helpers.kernel.state.boards import done

share = Resource("share", float, scope="session", default=0.0)
weights = Resource("weights", dict[str, float], scope="session", default=dict)


@pytest.mark.spec("C34")
async def test_a_number_grows_by_a_fraction(store: str) -> None:
    async def do(ctx: Context) -> None:
        ratio = ctx.resource(share)
        assert await ratio.increment(by=0.5) == 0.5
        assert await ratio.increment(by=-0.125) == 0.375
        assert await ratio.increment(by=2) == 2.375
        assert await ratio.get() == 2.375
        mixed = await ctx.resource(weights).increment("apples", 0.25)
        assert mixed == {"apples": 0.25}

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

"""How much a resource may hold (spec 1, C34)."""

from __future__ import annotations

import pytest

from capset import Context
from capset.errors import StateError
from tests.helpers.kernel.state.boards import done, notes


@pytest.mark.spec("C34")
async def test_a_value_is_bounded_and_what_would_be_longer_changes_nothing(store: str) -> None:
    async def do(ctx: Context) -> None:
        await ctx.resource(notes).push("x" * 1_048_570)
        with pytest.raises(StateError, match="at most 1048576 are kept") as caught:
            await ctx.resource(notes).push("one more")
        assert "Documents" in str(caught.value.hint)
        assert len(await ctx.resource(notes).get()) == 1

    await done(do, store)

"""The sealed state between two rounds: which server takes it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ElicitResult, InputRequiredResult
from pydantic import BaseModel

from capset import Context, Session, tool
from capset_server.auth.signing_keys import FixedKey, KeySource
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.kernel.support import desk
from tests.helpers.server.mcp.support import text_of

OLD, NEW = b"o" * 32, b"n" * 32


class Name(BaseModel):
    name: str


class Age(BaseModel):
    age: int


@tool(effect="read")
async def greet(ctx: Context) -> str:
    """Greet."""
    name = await ctx.ask_client("name", "Who are you?", Name)
    age = await ctx.ask_client("age", "How old are you?", Age)
    return f"{name.data and name.data.name}, {age.data and age.data.age}"


@dataclass
class Rotating:
    """Keys of a store, of which one is new: a server sees it once it looks again."""

    looked: list[bool] = field(default_factory=list[bool])

    async def get(self, *, afresh: bool = False) -> Sequence[bytes]:
        """Return the keys."""
        self.looked.append(afresh)
        return (NEW, OLD) if afresh else (OLD,)


async def never(context: object, params: object) -> ElicitResult:
    """Be a client that shows forms."""
    raise AssertionError("the rounds are made one by one")


async def call(
    session: Session, keys: KeySource | None, answer: dict[str, str | int], state: str | None, identity: str = "ada"
) -> CallToolResult | InputRequiredResult:
    """Make one round at a server of its own."""
    exchange = Exchange(session, identity=identity)
    async with Client(make_server(lambda: exchange, keys), mode="auto", elicitation_callback=never) as client:
        try:
            return await client.session.call_tool(
                "greet",
                {},
                input_responses={next(iter(answer)): ElicitResult(action="accept", content=dict(answer))},
                request_state=state,
                allow_input_required=True,
            )
        except MCPError as error:
            refused = error  # raised in here, it would be one of a group
    raise refused


async def asked(session: Session, keys: KeySource | None) -> str:
    first = await call(session, keys, {"name": "Ada Lovelace"}, None)
    assert isinstance(first, InputRequiredResult)
    assert first.request_state is not None
    assert "Lovelace" not in first.request_state
    return first.request_state


@pytest.mark.spec("M12", "P39")
async def test_any_server_with_the_keys_takes_it_back() -> None:
    async with desk(greet) as test_desk:
        state = await asked(test_desk.session, FixedKey(OLD))
        done = await call(test_desk.session, FixedKey(OLD), {"age": 36}, state)
        assert isinstance(done, CallToolResult)
        assert text_of(done) == "Ada Lovelace, 36"


@pytest.mark.spec("M12", "P39")
async def test_a_key_that_is_new_is_looked_for() -> None:
    keys = Rotating()
    async with desk(greet) as test_desk:
        state = await asked(test_desk.session, FixedKey(NEW))
        done = await call(test_desk.session, keys, {"age": 36}, state)
        assert isinstance(done, CallToolResult)
        assert keys.looked == [False, True]


@pytest.mark.spec("M12")
async def test_no_other_server_and_no_other_caller_does() -> None:
    async with desk(greet) as test_desk:
        state = await asked(test_desk.session, FixedKey(OLD))
        for keys, identity in ((FixedKey(NEW), "ada"), (None, "ada"), (FixedKey(OLD), "eve")):
            with pytest.raises(MCPError) as caught:
                await call(test_desk.session, keys, {"age": 36}, state, identity)
            assert caught.value.code == INVALID_PARAMS
            assert caught.value.data == {"reason": "invalid_request_state"}


@pytest.mark.spec("M12")
async def test_most_calls_need_no_key() -> None:
    keys = Rotating()
    async with desk(greet) as test_desk:
        exchange = Exchange(test_desk.session)
        async with Client(make_server(lambda: exchange, keys), mode="auto") as client:
            await client.list_tools()
            with pytest.raises(MCPError):
                await client.call_tool("greet")
        assert keys.looked == []

"""What sessions, principals and organisations may use of models in a window, on all processes (spec 6, R24)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from capset import Principal
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.settings import Governance
from capset.stores.base import SessionRow
from capset_agents import meter
from capset_agents.playback.scripts import Call
from capset_testing import FakeClock
from tests.databases import require_scheme
from tests.helpers.agents.support import EVE, Moves, Shelf, Site, site

TURN: Moves = [Call("look", text="a"), "Done."]
"""Two steps."""
HOUR = 3_600.0


@pytest.fixture(params=["sqlite", "postgres"])
def durable(request: pytest.FixtureRequest, url: str) -> str:
    """Give the URL of a fresh store that processes can share."""
    if request.param == "postgres":
        require_scheme()
        return request.getfixturevalue("postgres_url")
    return url


@asynccontextmanager
async def limited(url: Any, *usage: str, moves: Moves = TURN, **options: Any) -> AsyncGenerator[Site]:
    """Open a process whose server has limits on usage."""
    governance = Governance(allowance=Allowance(usage=usage))
    async with site(url, options.pop("shelf", Shelf()), moves, governance=governance, **options) as host:
        yield host


async def said(host: Site, row: SessionRow | None = None) -> dict[str, Any] | None:
    """Take a turn, in a new session or in this one, and return the error with which it ends, if any."""
    row = row or await host.session()
    await host.say(row, "go")
    return (await host.last(row))[1].get("error")


@pytest.mark.spec("R24")
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("steps=4/1h", "this principal may use 4 steps within 1h, and has used 4."),
        ("calls=1/1h", "this principal may use 1 call within 1h, and would have used 2."),
        ("steps=4/1h per all", "this server may use 4 steps within 1h, and has used 4."),
    ],
)
async def test_what_a_principal_uses_counts_on_all_processes(durable: str, limit: str, expected: str) -> None:
    async with limited(durable, limit) as host, limited(durable, limit, agent=host.agent) as second_host:
        assert await said(host) is None
        second = await said(second_host)
        if limit.startswith("steps"):
            assert second is None
            second = await said(host)
        assert second is not None
        assert (second["code"], second["retryable"]) == ("budget_exceeded", True)
        assert expected in second["message"]


@pytest.mark.spec("R24")
async def test_each_owner_has_its_own_and_the_lowest_holds(url: str) -> None:
    """Principals, sessions and organisations are told apart, and so are agents with limits of their own."""
    kate, kim = Principal("kate", org="acme"), Principal("kim", org="acme")
    async with limited(url, "steps=2/1h", "steps=3/1h per org") as host:
        assert await said(host) is None
        assert "this principal" in str(await said(host))
        for principal, expected in ((EVE, None), (kate, None), (kim, "this organisation may use 3 steps within 1h")):
            async with limited(url, "steps=2/1h", "steps=3/1h per org", principal=principal) as second_host:
                error = await said(second_host)
                assert error is None if expected is None else expected in error["message"] if error else False
    agent = Shelf().agent("own", allowance=Allowance(usage=["steps=2/1h"]))
    async with limited(url, "steps=100/1h", agent=agent) as host:
        assert await said(host) is None, "the agent's own window is empty"
        assert "this principal with the agent 'own'" in str(await said(host))


@pytest.mark.spec("R24")
async def test_a_session_may_have_an_end(url: str) -> None:
    """Its usage counts in all of its life, however long that is; another session has its own."""
    clock = FakeClock()
    async with limited(url, "steps=4 per session", clock=clock, moves=[*TURN, *TURN, "More."]) as host:
        row = await host.session()
        assert await said(host, row) is None
        clock.advance(1_000 * HOUR)
        assert await said(host, row) is None
        error = await said(host, row)
        assert error is not None
        assert not error["retryable"]
        assert "this session may use 4 steps in all" in error["message"]
        assert await said(host) is None


@pytest.mark.spec("R24")
async def test_a_turn_goes_on_when_the_window_has_moved(url: str) -> None:
    """What stopped for the moment is taken up again; no call is made twice, and none that was too many before."""
    clock, shelf = FakeClock(), Shelf()
    moves: Moves = [Call("put", text="a"), Call("put", text="b"), "Done."]
    async with limited(url, "steps=1/1h", moves=moves, clock=clock, shelf=shelf) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        assert (await host.last(row))[0] == "turn.failed"
        assert shelf.done == ["put a"]
        clock.advance(HOUR)
        await host.resume(row, turn)
        assert (await host.last(row))[1]["error"]["code"] == "budget_exceeded"
        assert shelf.done == ["put a"], "a sixtieth of the window longer"
        clock.advance(60)
        await host.resume(row, turn)
        assert shelf.done == ["put a", "put b"]
        clock.advance(HOUR + 60)
        await host.resume(row, turn)
        assert (await host.last(row))[1]["output"] == "Done."
        run = await host.kernel.store.runs.get(turn)
        assert run is not None
        assert run.usage is not None
        assert json.loads(run.usage)["steps"] == 3, "what it used before it was taken up again counts"


@pytest.mark.spec("R24", "T8")
async def test_turns_at_once_use_no_step_too_many(durable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, on two processes."""
    monkeypatch.setattr(meter, "POLL_SECONDS", 0.05)
    moves: Moves = [*[Call("look", text=str(number)) for number in range(20)], "Done."]
    async with (
        limited(durable, "steps=30/1h", moves=moves) as host,
        limited(durable, "steps=30/1h", moves=moves, agent=host.agent) as second_host,
    ):
        rows = [(at, await at.session()) for at in (host, second_host) for _ in range(4)]
        errors = await asyncio.gather(*[said(at, row) for at, row in rows])
        assert {error["code"] for error in errors if error} == {"budget_exceeded"}
        steps = [sum(kind == "usage" for kind, _ in await at.told(row)) for at, row in rows]
        assert sum(steps) == 30


@pytest.mark.spec("R20", "R24")
async def test_calls_that_were_refused_count_where_the_turn_is_taken_up_again(url: str) -> None:
    """They took nothing from the others, and are not made for nothing afterwards."""
    shelf = Shelf()
    moves: Moves = [[Call("look", text="a"), Call("look", text="b")], "Done."]
    async with limited(url, "calls=2/1h", moves=moves, shelf=shelf) as host:
        row = await host.session()
        assert await said(host, row) is None
        other = await host.session()
        turn = await host.say(other, "go")
        assert "may use 2 calls within 1h, and would have used 4" in (await host.last(other))[1]["error"]["message"]
        await host.resume(other, turn)
        assert (await host.last(other))[1]["error"]["code"] == "budget_exceeded"
        assert shelf.done == ["look a", "look b"]
        async with limited(url, "calls=2/1h", moves=["Hello."]) as second_host:
            assert await said(second_host) is None, "who calls nothing is not refused"
    async with limited(url, "calls=4/1h", moves=moves, shelf=shelf, agent=host.agent) as second_host:
        await second_host.resume(other, turn)
        assert await second_host.last(other) == ("turn.ended", {"output": "Done."})
        assert shelf.done == ["look a", "look b"] * 2
        assert "would have used 6" in str(await said(second_host))


@pytest.mark.spec("R24")
async def test_money_under_an_unknown_price_is_refused(url: str) -> None:
    model = TestModel(call_tools=[], custom_output_text="Hi.")
    async with limited(url, "cost=5/1d", model=model) as host:
        error = await said(host)
        assert error is not None
        assert error["code"] == "budget_exceeded"
        assert "the price of 'test' is not known" in error["message"]
    async with limited(url, "tokens=5000/1d", "steps=2/1d", model=model) as host:
        assert await said(host) is None
        assert "has used 2" in str(await said(host)), "what was refused for its price was used, too"

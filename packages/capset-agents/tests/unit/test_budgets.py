"""What one turn may use: steps, calls, tokens and money, also where it is continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from capset.definitions.governance.usage import AgentUsage, usage_of
from capset.errors import BudgetExceeded, DefinitionError
from capset.stores.base import AuditQuery
from capset_agents.budgets import TurnBudget
from capset_agents.playback.scripts import Call
from tests.helpers.agents.support import Moves, Shelf, site
from tests.waiting import until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'capset.db'}"


@pytest.mark.spec("R14")
@pytest.mark.parametrize(
    ("budget", "done", "expected"),
    [
        (TurnBudget(calls=1), ["look a"], "3 calls, and may use 1"),
        (TurnBudget(steps=1), ["look a"], "2 steps, and may use 1"),
        (TurnBudget(tokens=60), [], "tokens, and may use 60"),
    ],
)
async def test_what_a_turn_may_use_is_bounded(url: str, budget: TurnBudget, done: list[str], expected: str) -> None:
    """Before the calls are made that would be too many."""
    shelf = Shelf()
    moves: Moves = [Call("look", text="a"), [Call("look", text="b"), Call("look", text="c")], "Done."]
    if budget.tokens:
        moves = [Call("look", text="word " * 50)]
    async with site(url, shelf, moves, budget=budget) as host:
        row = await host.session()
        await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "budget_exceeded")
        assert expected in data["error"]["message"]
        assert shelf.done == done
        await host.kernel.audit.flush()
        records = (await host.kernel.audit.query(AuditQuery(session=row.id))).items
        limited = [str(record.outcome) for record in records if record.tool == "look" and record.phase == "outcome"]
        refused = 2 if budget.calls else 1 if budget.tokens else 0
        assert sorted(limited) == ["limited"] * refused + ["succeeded"] * len(done), "also on record"


@pytest.mark.spec("R14")
async def test_a_final_answer_stands_though_it_used_more_than_was_left(url: str) -> None:
    async with site(url, Shelf(), ["word " * 50], budget=TurnBudget(tokens=60)) as host:
        row = await host.session()
        await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, data["output"]) == ("turn.ended", "word " * 50)


@pytest.mark.spec("R14")
async def test_what_was_used_before_counts_where_it_is_continued(url: str) -> None:
    shelf = Shelf()
    moves: Moves = [Call("look", text="a"), Call("burn", text="b"), Call("look", text="c"), "Done."]
    async with site(url, shelf, moves, budget=TurnBudget(steps=3)) as host:
        row = await host.session()
        await host.say(row, "go")
        assert (await host.last(row))[0] == "turn.suspended"
    async with site(url, shelf, moves, agent=host.agent, budget=TurnBudget(steps=3)) as second_host:
        await second_host.approve()
        await second_host.go_on()
        kind, data = await second_host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "budget_exceeded")
        assert shelf.done == ["look a", "burn b", "look c"]


@pytest.mark.spec("R14")
async def test_money_under_an_unknown_price_is_refused(url: str) -> None:
    """A script costs nothing; the price of a model that nobody knows is not guessed."""
    for model, code in ((None, None), (TestModel(call_tools=[], custom_output_text="Hi."), "budget_exceeded")):
        async with site(url, Shelf(), ["Hi."], budget=TurnBudget(cost=1), model=model) as host:
            row = await host.session()
            await host.say(row, "go")
            kind, data = await host.last(row)
            assert data.get("error", {}).get("code") == code, kind
            usage = next(data for kind, data in await host.told(row) if kind == "usage")
            assert usage["cost"] == (0.0 if model is None else None)


@pytest.mark.parametrize("limits", [{"steps": 0}, {"cost": -1.0}, {"tokens": float("nan")}, {"calls": -3}])
def test_a_budget_is_a_number_above_0(limits: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="above 0"):
        TurnBudget(**limits)


def test_a_usage_comes_back_as_it_was() -> None:
    used = AgentUsage() + AgentUsage(steps=2, calls=3, tokens=4, cost=0.5)
    assert usage_of(used.plain()) == used
    with pytest.raises(BudgetExceeded, match=r"0\.5 cost, and may use 0\.4"):
        TurnBudget(cost=0.4).check(used)


@pytest.mark.spec("R5", "R14")
async def test_what_closes_a_cancelled_turn_uses_nothing_of_the_next(url: str) -> None:
    """Its price is not known either, where money is bounded."""
    shelf, budget = Shelf(), TurnBudget(steps=1, cost=1.0)
    async with site(url, shelf, [Call("hang"), "Done."], budget=budget) as host:
        row = await host.session()
        turn = await host.begin(row, "hang")
        await until(lambda: bool(shelf.done))
        await host.turns.cancel(row, turn, by="user:ada")
        following = await host.say(row, "go on")
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        kinds = [event.type for event in await host.events(row) if event.turn == following]
        assert kinds == ["turn.started", "text.delta", "usage", "turn.ended"]

"""The contract of every adapter: the same tools, refusals, approvals and records, with the real framework.

A test module of a framework has a class that inherits these tests and names its driver. What does not hold there stands
in ``misses`` of the driver, with a reason; a miss that holds after all fails. The table in ``docs/guide/frameworks.md``
is made of what these tests find.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import ClassVar

import pytest

from tests.helpers.frameworks.driver import Driver
from tests.helpers.frameworks.kit import INSTRUCTIONS, MOOD, TOOLS, decide, notes, office, paid, waiting
from tests.helpers.kernel.support import Desk
from tests.waiting import until

ROWS = {
    "allowed": "a call that is allowed",
    "shown": "tools with capset's own schemas",
    "system_text": "the session's system text, with its context",
    "denied": "a tool that is not in play is not shown, and refused",
    "limited": "a limit refuses, and says when to come again",
    "invalid": "wrong arguments are refused by field",
    "no_object": "arguments that are not a JSON object are refused",
    "failed": "a tool's own error is read",
    "streamed": "progress while a call runs",
    "long_result": "a long result is cut, and its whole is kept",
    "parallel": "several calls in one step",
    "dynamic": "tools that come into play during a run",
    "approved_later": "a call that needs an approval fails, and goes through once it has it",
    "suspended": "such a call suspends the run, by the framework's own means",
    "suspended_rejected": "and is refused if the request is rejected",
    "suspended_undecided": "and does nothing while the request is undecided",
    "cancelled": "a cancelled run cancels its calls",
    "correlated": "records have the framework's ids of the run and the call",
    "twice": "a call that is made twice has two records, and one approval allows it once",
    "ended": "a call after the end of the session is refused",
}
"""The tests, by their names without ``test_``, and what the table says of them."""


class AdapterContract:
    """What holds of every adapter."""

    driver: ClassVar[type[Driver]]

    @pytest.fixture(autouse=True)
    def _misses(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname.removeprefix("test_")
        if (reason := self.driver.misses.get(name)) is not None:
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    async def here(self) -> AsyncGenerator[Desk]:
        async with office() as desk:
            yield desk

    @pytest.mark.spec("W1")
    async def test_allowed(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("add", {"a": 1, "b": 2})], [("pay", {"sum": 7})])
        assert [json.loads(reply.text) for reply in ran.read] == [3, {"paid": 7}]
        assert not any(reply.failed for reply in ran.read)
        assert (ran.output, paid) == ("done", [7])
        records = await here.records()
        assert [(record.tool, record.outcome) for record in records] == [("add", "succeeded"), ("pay", "succeeded")]

    @pytest.mark.spec("W1")
    async def test_shown(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("add", {"a": 1})])
        schemas = {tool.name: tool.arguments.json_schema for tool in TOOLS if tool.name != "note"}
        for request in ran.shown:
            assert {name: dict(schema) for name, schema in request.tools.items()} == schemas

    @pytest.mark.spec("W1")
    async def test_system_text(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("add", {"a": 1})])
        for request in ran.shown:
            assert INSTRUCTIONS in request.system
            assert MOOD in request.system

    @pytest.mark.spec("W2")
    async def test_denied(self, here: Desk) -> None:
        """A framework may refuse such a tool itself, and then there is no record; it is never run."""
        ran = await self.driver(here.session).run([("add", {"a": 1})])
        assert all("note" not in request.tools for request in ran.shown)
        with suppress(Exception):  # some frameworks end the run
            await self.driver(here.session).run([("note", {"text": "x"})])
        assert notes == []
        assert {record.outcome for record in await here.records(tool="note")} <= {"denied"}

    @pytest.mark.spec("W2")
    async def test_limited(self, here: Desk) -> None:
        ran = await self.driver(here.session).run(*[[("look", {})]] * 3)
        assert [reply.failed for reply in ran.read] in ([False, False, True], [None] * 3)
        assert "Rate limit exceeded" in ran.read[-1].text
        assert [record.outcome for record in await here.records()] == ["succeeded", "succeeded", "limited"]

    @pytest.mark.spec("W2")
    async def test_invalid(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("add", {"a": "one", "c": 2})], [("add", {"a": 1})])
        wrong, right = ran.read
        assert "Invalid arguments for 'add'" in wrong.text
        assert "a: " in wrong.text
        assert "c: no such parameter" in wrong.text
        assert wrong.failed in (True, None)
        assert json.loads(right.text) == 2
        assert (await here.records())[0].outcome == "invalid"

    @pytest.mark.spec("W2")
    async def test_no_object(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("add", "[1, 2")])
        assert "Invalid arguments for 'add'" in ran.read[0].text
        assert [record.outcome for record in await here.records()] == ["invalid"]

    @pytest.mark.spec("W2")
    async def test_failed(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("fail", {})])
        assert "the shelf is empty; order first" in ran.read[0].text
        assert "empty_shelf" in ran.read[0].text
        assert ran.read[0].failed in (True, None)
        assert ran.output == "done"

    @pytest.mark.spec("W3")
    async def test_streamed(self, here: Desk) -> None:
        driver = self.driver(here.session)
        ran = await driver.run([("count", {"texts": ["one two", "three"]})])
        assert json.loads(ran.read[0].text) == 3
        assert driver.events == [(0.5, "one two"), (1.0, "three")]

    @pytest.mark.spec("W1")
    async def test_long_result(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("recite", {})])
        text, (record,) = ran.read[0].text, await here.records()
        assert len(text) < 100_000
        assert f"/results/{record.id}" in text
        _, content = await here.session.files.read(f"/results/{record.id}.txt")
        assert content == b"word " * 50_000

    @pytest.mark.spec("W1")
    async def test_parallel(self, here: Desk) -> None:
        ran = await self.driver(here.session).run([("add", {"a": 1}), ("pay", {"sum": 1}), ("add", {"a": 3})])
        assert [json.loads(reply.text) for reply in ran.read] == [2, {"paid": 1}, 4]

    @pytest.mark.spec("W1")
    async def test_dynamic(self) -> None:
        async with office(dynamic=True) as desk:
            ran = await self.driver(desk.session).run([("hurry", {})], [("run", {})])
            assert ["run" in request.tools for request in ran.shown] == [False, True, True]
            assert ran.read[1].text in ("running", '"running"')

    @pytest.mark.spec("W4")
    async def test_approved_later(self, here: Desk) -> None:
        first = await self.driver(here.session).run([("pay", {"sum": 500})])
        assert "this needs an approval first: more than 100" in first.read[0].text
        assert paid == []
        (record,) = await here.records()
        assert (record.outcome, record.code) == ("pending", "approval_required")
        assert record.approval is not None
        assert record.approval in first.read[0].text
        await decide(here, record.approval)
        repeated = await self.driver(here.session).run([("pay", {"sum": 500})])
        assert json.loads(repeated.read[0].text) == {"paid": 500}
        assert paid == [500]

    @pytest.mark.spec("W5")
    async def test_suspended(self, here: Desk) -> None:
        driver = self.driver(here.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500}), ("add", {"a": 1})])
        assert suspended.output is None
        (record,) = await here.records(tool="pay")
        assert suspended.waiting == [record.approval]
        assert paid == []
        await decide(here, suspended.waiting[0])
        ended = await driver.resume()
        assert (ended.output, paid) == ("done", [500])
        assert {"paid": 500} in [json.loads(reply.text) for reply in ended.read]

    @pytest.mark.spec("W5")
    async def test_suspended_rejected(self, here: Desk) -> None:
        driver = self.driver(here.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500})])
        await decide(here, suspended.waiting[0], approved=False)
        ended = await driver.resume()
        assert (ended.output, paid) == ("done", [])
        assert "the request was rejected" in ended.read[-1].text

    @pytest.mark.spec("W5")
    async def test_suspended_undecided(self, here: Desk) -> None:
        """An approval on the framework's side alone never counts as one of capset's."""
        driver = self.driver(here.session, defers=True)
        suspended = await driver.run([("pay", {"sum": 500})])
        resumed = await driver.resume()
        assert paid == []
        if resumed.output is None:
            assert resumed.waiting == suspended.waiting
        else:
            assert "needs an approval first" in resumed.read[-1].text

    @pytest.mark.spec("W6")
    async def test_cancelled(self, here: Desk) -> None:
        task = asyncio.create_task(self.driver(here.session).run([("wait", {})]))
        await until(lambda: waiting or task.done())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [record.outcome for record in await here.records()] == ["cancelled"]

    @pytest.mark.spec("W6")
    async def test_correlated(self, here: Desk) -> None:
        driver = self.driver(here.session)
        await driver.run([("add", {"a": 1}), ("add", {"a": 2})], [("fail", {})])
        records = await here.records()
        run_id = await driver.run_id()
        assert run_id
        assert {record.correlation for record in records} == {run_id}
        if not driver.has_own_ids:
            assert {record.causation for record in records} == {"call-1-1", "call-1-2", "call-2-1"}
        assert len({record.causation for record in records}) == 3

    @pytest.mark.spec("W4")
    async def test_twice(self, here: Desk) -> None:
        await self.driver(here.session).run([("pay", {"sum": 500})])
        await decide(here, str((await here.records())[0].approval))
        pay = await self.driver(here.session).take("pay")
        first = await pay({"sum": 500}, "call-1-1")
        second = await pay({"sum": 500}, "call-1-1")
        assert json.loads(first.text) == {"paid": 500}
        assert "needs an approval first" in second.text
        assert paid == [500]
        assert [record.outcome for record in await here.records()] == ["pending", "succeeded", "pending"]

    @pytest.mark.spec("W6")
    async def test_ended(self) -> None:
        async with office() as desk:
            pay = await self.driver(desk.session).take("pay")
        read = await pay({"sum": 1}, "call-1-1")
        assert "The store is not available" in read.text
        assert paid == []

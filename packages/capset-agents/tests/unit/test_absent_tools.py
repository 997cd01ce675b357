"""Calls of tools that a model was not offered."""

from __future__ import annotations

import pytest

from capset.stores.base import ApprovalQuery, AuditQuery
from capset_agents.playback.scripts import Call
from tests.helpers.agents.support import Shelf, site


@pytest.mark.spec("R1")
async def test_a_tool_by_a_name_that_was_not_offered_is_not_called(url: str, shelf: Shelf) -> None:
    """``capability.tool`` is for people: a model that is told that there is none such would call it again."""
    moves = [Call("shelf.put", text="a"), Call("shelf.burn", text="b"), Call("put", text="a"), "Done."]
    async with site(url, shelf, [*moves]) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        assert shelf.done == ["put a"]
        tool_results = [data for kind, data in await host.told(row) if kind == "tool.result"]
        assert [(data["tool"], data["code"]) for data in tool_results] == [
            ("shelf.put", "not_found"),
            ("shelf.burn", "not_found"),
            ("put", None),
        ]
        assert "unknown tool 'shelf.put'" in tool_results[0]["text"]
        page = await host.kernel.audit.query(AuditQuery(correlation=turn))
        assert sorted(str(record.outcome) for record in page.items) == ["not_found", "not_found", "succeeded"]
        assert not (await host.kernel.store.approvals.list(ApprovalQuery(None))).items

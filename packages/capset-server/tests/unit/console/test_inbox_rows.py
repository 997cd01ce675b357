"""Rows of the inbox: which requests share one, and what a form of the list says."""

from __future__ import annotations

from typing import Any

from capset_server.console.inbox_rows import rows_of, selected_requests


def requested(id: str, **changes: Any) -> dict[str, Any]:
    """Return a request as REST shows it, made at a time of its own and approved once."""
    rule = {"permission": "boss", "escalates_at": f"2026-01-01T00:00:0{id}Z"}
    approval = {"by": "user:ada", "on_behalf_of": None, "at": f"2026-01-01T01:00:0{id}Z", "note": None, "scope": "once"}
    same = dict.fromkeys(("tool", "tool_hash", "code_hash", "digest", "status", "agent", "principal", "reason"), "x")
    return {
        **same,
        **dict.fromkeys(("on_behalf_of", "refusal", "decided_by", "modified")),
        "id": id,
        "arguments": {"to": "bob"},
        "masked": False,
        "files": [],
        "round": 0,
        "policies": [],
        "decidable": True,
        "needs": {"approvals": 2, "forbid_own": False, "rules": [rule], "text": "two different approvers"},
        "approvals": [approval],
        **changes,
    }


def test_requests_that_differ_only_in_times_share_a_row() -> None:
    alike = rows_of([requested("2"), requested("1")])
    partly_masked = rows_of([requested("2"), requested("1", masked=True)])
    assert [row.selection for row in alike] == ["2:0 1:0"]
    assert [row.selection for row in partly_masked] == ["2:0", "1"]
    needs = {"approvals": 1, "forbid_own": False, "rules": [], "text": "one approver"}
    others = [requested("2"), requested("1", needs=needs), requested("3", needs=None, approvals=[])]
    assert len(rows_of(others)) == 3


def test_a_crafted_selection_names_no_round() -> None:
    selected = selected_requests([f"a:7 b c:{'9' * 5_000}", "d:x"])
    assert [request.round for request in selected] == [7, None, None, None]

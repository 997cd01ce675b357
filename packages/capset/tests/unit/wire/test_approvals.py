"""Requests for approvals, and errors that name one, on the wire (spec 4, G16, G24)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from capset.errors import ApprovalRequired, LimitExceeded, StoreError, ToolError
from capset.ext import ApprovalRow
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery, Page
from capset.wire.approvals import ApprovalShape, ApproveInput, RejectInput, approval_page_shape, approval_shape
from capset.wire.calls import CallShape, call_data
from capset.wire.errors import error_shape, problem_of
from capset_testing.store_suite.support import approval_row

ROW = replace(approval_row("a-1"), arguments='{"amount":5,"to":"bob"}', policies='["money"]')


@pytest.mark.spec("G16")
async def test_a_request_says_what_is_to_be_decided() -> None:
    body = approval_shape(ROW).plain()
    assert (body["arguments"], body["policies"], body["status"]) == ({"amount": 5, "to": "bob"}, ["money"], "pending")
    assert not {"org", "modified"} & body.keys()
    assert ApprovalShape.model_validate_json(json.dumps(body)) == approval_shape(ROW)

    async def read(query: ApprovalQuery) -> Page[ApprovalRow]:
        return Page((ROW,), "a-1")

    page = await approval_page_shape(read, ApprovalQuery(None, limit=1))
    assert page.plain() == {"items": [body], "next": "a-1"}


def test_what_was_put_in_the_place_of_arguments_hides_secrets_too() -> None:
    row = replace(ROW, modified='{"to":"bob","password":"hunter2"}')
    assert "hunter2" not in json.dumps(approval_shape(row).plain())
    assert approval_shape(row).modified["to"] == "bob"


def test_a_request_that_was_tampered_with_is_named() -> None:
    with pytest.raises(StoreError, match="a-1 was changed"):
        approval_shape(replace(ROW, arguments="{"))


@pytest.mark.spec("G17")
def test_an_answer_is_strict() -> None:
    assert ApproveInput.model_validate({}).plain() == {"scope": "once"}
    for wrong in (
        *({"scope": "ever"}, {"arguments": []}, {"note": "\0"}, {"note": "x" * 1001}, {"note": 1}, {"yes": True}),
    ):
        with pytest.raises(ValidationError):
            ApproveInput.model_validate(wrong)
    with pytest.raises(ValidationError):
        RejectInput.model_validate({"scope": "once"})


@pytest.mark.spec("G24")
def test_errors_say_when_to_come_back_and_what_is_to_be_approved() -> None:
    for error, expected in (
        (LimitExceeded("too often", retry_after=0.5), {"retry_after": 0.5}),
        (ApprovalRequired("ask", approval="a-1"), {"approval": "a-1"}),
        (ToolError("no"), {}),
    ):
        for body in (error_shape(error).plain(), problem_of(error, "c").plain()):
            assert {key: value for key, value in body.items() if key in ("retry_after", "approval")} == expected


@pytest.mark.spec("G18", "P9")
def test_a_call_that_has_to_be_approved_names_the_request() -> None:
    result = Result(False, None, ApprovalRequired("ask", approval="a-1"), "r", "h", "p", True)
    payload = call_data(result, None, "s")
    assert (payload["approval"], payload["refused"], payload["error"]["approval"]) == ("a-1", True, "a-1")
    assert CallShape.model_validate(payload).plain() == payload
    assert "approval" not in call_data(Result(False, None, ApprovalRequired("ask"), "r", "h", "p"), None, "s")
    assert "approval" not in call_data(Result(True, 1, None, "r", "h", "p"), 1, "s")

"""The arguments that approvers see: only what a schema says is secret is hidden for good (spec 4, G51)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from capset import Agent, Capability, Kernel, Principal, tool
from capset.definitions.governance.settings import Governance
from capset.definitions.secrets import MASK
from capset.errors import ApprovalRequired
from capset.ext import Answer, ApprovalRow
from capset.kernel.governance.marked_values import without_secrets
from capset.schemas.json_schema import compile_json_schema
from capset.stores.base import AuditQuery
from tests.helpers.kernel.governance.approving import till

BOSS = Principal("boss", org="acme")
COMMAND = "curl https://ok/?token=abc;{rm,-rf,/srv/data}"
OPTIONS: dict[str, Any] = {"token": {"then": "rm -rf /srv"}, "note": "sk-1234"}


class Account(BaseModel):
    user: str
    pin: SecretStr


@tool(effect="write", approval="ask")
async def run(command: str, options: dict[str, Any], account: Account) -> str:
    """Run a command."""
    return command


async def requested(kernel: Kernel, command: str = COMMAND, options: dict[str, Any] = OPTIONS) -> ApprovalRow:
    """Ask for a run, and return the request."""
    agent = Agent("operator", uses=[Capability("shell", tools=[run])])
    async with kernel.open(agent, principal=Principal("ada", org="acme")) as session:
        account = Account(user="root", pin=SecretStr("hunter2"))
        result = await session.options(approvals="defer").try_call(run, command, options, account)
        assert isinstance(result.error, ApprovalRequired)
        return await kernel.approvals.get(result.error.approval or "", org="acme")


@pytest.mark.spec("G51", "T49")
async def test_what_is_masked_like_a_record_is_shown_on_request_and_a_declared_secret_never(store: str) -> None:
    async with Kernel(store=store, governance=Governance(redact=[r"sk-\d+"])) as kernel:
        row = await requested(kernel)
        masked = json.loads(row.arguments)
        assert masked["command"] == f"curl https://ok/?token={MASK};{{rm,-rf,/srv/data}}", "what runs is legible"
        assert masked["options"] == {"token": MASK, "note": MASK}
        arguments = (await kernel.approvals.show_arguments(row, by=BOSS)).arguments
        assert (arguments["command"], arguments["options"]) == (COMMAND, OPTIONS)
        assert arguments["account"] == {"user": "root", "pin": MASK}
        assert "hunter2" not in f"{row.arguments}{row.unmasked}"
        (act,) = (await kernel.audit.query(AuditQuery(act="approval.show", approval=row.id))).items
        assert (act.principal, json.loads(act.arguments)) == ("boss", {"id": row.id, "shown": "arguments"})


@pytest.mark.spec("G51")
async def test_what_was_masked_is_kept_only_while_it_has_to_be_decided(store: str) -> None:
    async with Kernel(store=store) as kernel:
        plain = await requested(kernel, "ls", {})
        assert plain.unmasked is None, "nothing is masked but what the schema says is secret"
        for answer in (Answer(approved=True), Answer(approved=False)):
            row = await requested(kernel, f"{COMMAND} {answer.approved}")
            assert row.unmasked is not None
            await kernel.approvals.decide(row.id, answer, by=BOSS)
            ended = await kernel.approvals.get(row.id, org="acme")
            assert (ended.unmasked, ended.arguments) == (None, row.arguments)
            shown = await kernel.approvals.show_arguments(ended, by=BOSS)
            assert shown.arguments == json.loads(row.arguments)


@pytest.mark.spec("G51")
async def test_a_second_approver_is_shown_what_the_first_one_wrote() -> None:
    async with till() as harness:
        approvals = harness.kernel.approvals
        row = await approvals.get(await harness.asked(await harness.session()), org="acme")
        shown_arguments = await approvals.show_arguments(replace(row, modified='{"to":"//a:b@c"}'), by=BOSS)
        assert shown_arguments == ({"to": "bob", "amount": 5}, {"to": "//a:b@c"})


NAMES = st.sampled_from(["secret", "open", "x-key-1", "y"])
ITEM = {
    "type": "object",
    "properties": {"secret": {"type": "integer", "writeOnly": True}},
    "patternProperties": {"^x-key": {"writeOnly": True}},
    "additionalProperties": True,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "secret": {"type": "string", "writeOnly": True},
        "either": {"anyOf": [{"type": "string", "writeOnly": True}, {"type": "object"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "$defs": {"item": ITEM},
}


@pytest.mark.spec("G51")
@given(
    secret=st.text(),
    either=st.text() | st.dictionaries(NAMES, st.text(max_size=3)),
    items=st.lists(st.dictionaries(NAMES, st.integers())),
    more=st.dictionaries(st.sampled_from(["token", "password"]), st.text()),
)
def test_exactly_what_a_schema_says_is_secret_is_masked(secret: str, either: Any, items: Any, more: Any) -> None:
    root = compile_json_schema("it", SCHEMA).root
    arguments = {"secret": secret, "either": either, "list": items, **more}
    hidden = {"secret", "x-key-1"}
    assert without_secrets(root, arguments) == {
        "secret": MASK,
        "either": MASK if isinstance(either, str) else either,
        "list": [{name: MASK if name in hidden else value for name, value in item.items()} for item in items],
        **more,
    }
    assert arguments == {"secret": secret, "either": either, "list": items, **more}, "nothing is changed in place"


def test_arguments_that_are_secret_as_a_whole_are_masked_one_by_one() -> None:
    root = compile_json_schema("it", {"type": "object", "writeOnly": True}).root
    assert without_secrets(root, cast("dict[str, Any]", {"a": 1, "b": []})) == {"a": MASK, "b": MASK}

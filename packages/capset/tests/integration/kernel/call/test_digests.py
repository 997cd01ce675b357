"""A text whose SHA-256 stands in the record, however much of the text does (spec 4, G20, G23; spec 5, P18)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any

import pytest
from pydantic import Field

from capset import Agent, Capability, Kernel, Principal, tool
from capset.ext import Governance, digested
from capset.kernel.governance.redaction import MASK
from tests.helpers.kernel.support import desk, records_of


@tool
async def execute(
    code: Annotated[str, Field(json_schema_extra=digested())] = "",
    more: list[str] | None = None,
) -> int:
    """Execute."""
    return 1


def of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.spec("G20", "P18")
@pytest.mark.parametrize(
    ("code", "digested_as"),
    [
        ("1 + 1", "1 + 1"),
        ("x = 'ü'\n" * 1_000, "x = 'ü'\n" * 1_000),
        ("token = 'hush-1234'" + " " * 3_000, f"token = '{MASK}'" + " " * 3_000),  # or 10,000 tries would tell it
    ],
)
async def test_the_digest_of_the_text_is_on_record_however_much_of_it_is(
    code: str, digested_as: str, store: str
) -> None:
    agent = Agent("tester", uses=[Capability("kit", tools=[execute])])
    rules = Governance(redact=["hush-[0-9]+"])
    async with (
        Kernel(store=store, governance=rules) as kernel,
        kernel.open(agent, principal=Principal("user-1")) as session,
    ):
        await session.call(execute, code=code)
        (record,) = await records_of(kernel.audit)
    arguments = json.loads(record.arguments)
    assert arguments["code#sha256"] == of(digested_as)
    assert "hush-1234" not in record.arguments
    assert len(arguments["code"]) < 2_100


@pytest.mark.spec("G20")
async def test_it_stays_where_arguments_are_too_large_to_be_kept(store: str) -> None:
    async with desk(execute, store=store) as opened:
        await opened.session.call(execute, code="1", more=["x" * 1_000] * 50)
        record = await opened.record()
    arguments = json.loads(record.arguments)
    assert arguments["code#sha256"] == of("1")
    assert arguments.keys() == {"omitted", "code#sha256"}


@pytest.mark.spec("G20")
async def test_a_refused_call_has_it_too_where_there_is_a_text(store: str) -> None:
    async with desk(execute, store=store) as opened:
        await opened.session.try_call(execute, code="1", nothing=1)  # pyright: ignore[reportCallIssue]
        await opened.session.try_call(execute, code=7)  # pyright: ignore[reportArgumentType]
        wrong, none = [json.loads(record.arguments) for record in await opened.records()]
    assert wrong["code#sha256"] == of("1")
    assert none.keys() == {"code"}


@pytest.mark.spec("G20")
async def test_nobody_puts_one_of_their_own_there(store: str) -> None:
    forged: dict[str, Any] = {"code": 7, "code#sha256": of("innocent")}
    async with desk(execute, store=store) as opened:
        await opened.session.try_call(execute, **forged)
        record = await opened.record()
    assert json.loads(record.arguments) == {"code": 7}

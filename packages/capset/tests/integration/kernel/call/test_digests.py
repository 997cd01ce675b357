"""A text whose SHA-256 stands in the record, however much of the text does (spec 4, G20, G23; spec 5, P18)."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Annotated, Any
from unittest.mock import ANY

import pytest
from pydantic import Field

from capset import Agent, Capability, tool
from capset.ext import Governance, digested
from capset.kernel.governance.redaction import MASK
from tests.helpers.kernel.support import opened


@tool
async def execute(code: Annotated[str, Field(json_schema_extra=digested())] = "", more: list[str] | None = None) -> int:
    """Execute."""
    return 1


def of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


async def recorded(store: str, **arguments: Any) -> dict[str, Any]:
    """Make a call, and return its arguments as they are on record."""
    agent = Agent("tester", uses=[Capability("kit", tools=[execute])])
    async with opened(agent, store=store, governance=Governance(redact=["hush-[0-9]+"])) as desk:
        await desk.session.try_call(execute, **arguments)
        return json.loads((await desk.records())[-1].arguments)


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
    arguments = await recorded(store, code=code)
    assert arguments["code#sha256"] == of(digested_as)
    assert "hush-1234" not in repr(arguments)
    assert len(arguments["code"]) < 2_100


@pytest.mark.spec("G20")
async def test_the_digest_stays_where_arguments_are_too_large_to_be_kept(store: str) -> None:
    assert await recorded(store, code="1", more=["x" * 1_000] * 50) == {"omitted": ANY, "code#sha256": of("1")}


@pytest.mark.spec("G20")
async def test_a_refused_call_has_a_digest_too_where_there_is_a_text(store: str) -> None:
    assert (await recorded(store, code="1", nothing=1))["code#sha256"] == of("1")
    assert await recorded(store, code=7) == {"code": 7}


@pytest.mark.spec("G20")
async def test_nobody_puts_a_digest_of_their_own_there(store: str) -> None:
    assert await recorded(store, **{"code": 7, "code#sha256": of("innocent")}) == {"code": 7}

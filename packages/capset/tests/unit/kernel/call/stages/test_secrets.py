"""Calls that differ in a secret alone: other digests, other approvals, and masks wherever they are shown (spec 4)."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from capset import Agent, Capability, Json, Kernel, Message, Principal, tool
from capset.errors import ApprovalRequired, ApprovalVoid
from capset.ext import Answer
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery
from tests.helpers.kernel.support import desk, first_request, read

WHO, BOSS = Principal("ada", org="acme"), Principal("boss", org="acme")
ONE, OTHER = "hunter2-of-ada", "hunter3-of-bob"
MASK = "**********"


class Login(BaseModel):
    name: str
    key: SecretStr
    former: list[Login] = []


@dataclass
class Badge:
    code: SecretBytes


@tool(effect="write", approval="ask")
async def sign_in(login: Login) -> str:
    """Sign in."""
    return (login.former or [login])[0].key.get_secret_value()[-3:]


@tool(effect="write", approval="ask")
async def unlock(password: SecretStr, doors: list[str]) -> str:
    """Unlock doors."""
    return password.get_secret_value()[-3:]


@tool(effect="read")
async def keep(
    logins: dict[str, Login] | None = None,
    badges: list[Badge] | None = None,
    pins: tuple[Secret[int], Secret[int]] | None = None,
    either: SecretStr | list[int] | None = None,
    several: frozenset[SecretStr] = frozenset(),
    anything: object = None,
) -> int:
    """Keep."""
    return 1


AGENT = Agent("clerk", uses=[Capability("kit", tools=[sign_in, unlock, keep])])


def arguments_of(name: str, secret: str) -> dict[str, Any]:
    if name == "unlock":
        return {"password": secret, "doors": ["front"]}
    return {"login": {"name": "n", "key": "same", "former": [{"name": "m", "key": secret}]}}


@pytest.mark.spec("G16", "G17", "G18", "G20")
@pytest.mark.parametrize("name", ["sign_in", "unlock"])
async def test_an_approval_is_for_one_secret_alone(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "kept.db"
    async with Kernel(store=f"sqlite:///{path}") as kernel, kernel.open(AGENT, principal=WHO) as session:

        async def attempt(secret: str, approval: str | None = None) -> Result[Any]:
            text = json.dumps(arguments_of(name, secret)).encode()
            ready = session.options(approvals="defer", approval=approval)
            return await ready.try_message(Message("command", name, Json(text)))

        async def request_for(secret: str) -> str:
            error = (await attempt(secret)).error
            assert isinstance(error, ApprovalRequired)
            return str(error.approval)

        request = await request_for(ONE)
        assert (await session.suspended(request)).arguments is None, "the store has masks alone"
        assert await request_for(ONE) == request, "an equal call meets the same request"
        row = await kernel.approvals.decide(request, Answer(approved=True), by=BOSS)
        assert MASK in row.arguments or "[redacted]" in row.arguments
        assert await request_for(OTHER) != request
        for secret in (OTHER, MASK):  # what is shown of a secret is not the secret
            assert isinstance((await attempt(secret, request)).error, ApprovalVoid)
        assert (await attempt(ONE)).data == ONE[-3:]

        rows = (await kernel.approvals.list(ApprovalQuery("acme"))).items
        assert len({request.digest for request in rows}) == len(rows) == 2
        assert len({request.arguments for request in rows}) == 1
    files = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert path in files
    for text in (ONE, OTHER):
        assert text not in caplog.text
        assert not [file for file, content in files.items() if text.encode() in content]


@pytest.mark.spec("G17")
async def test_a_secret_that_changes_while_its_call_waits_voids_the_approval() -> None:
    async with Kernel(store="memory://") as kernel, kernel.open(AGENT, principal=WHO) as session:
        login = Login(name="n", key=SecretStr(ONE))
        waits = asyncio.ensure_future(session.try_message(session.message("sign_in", {"login": login})))
        request = await first_request(kernel)
        login.key = SecretStr(OTHER)
        await kernel.approvals.decide(request.id, Answer(approved=True), by=BOSS)
        assert isinstance((await waits).error, ApprovalVoid)


@pytest.mark.spec("G20")
async def test_digests_cover_secrets_wherever_they_are(store: str) -> None:
    def differing(secret: str) -> list[dict[str, Any]]:
        return [
            {"logins": {"a": Login(name="n", key=SecretStr(secret))}},
            {"logins": {"b": Login(name="n", key=SecretStr(secret))}},
            {"badges": [Badge(SecretBytes(secret.encode()))]},
            {"pins": (Secret(1), Secret(len(secret) + ord(secret[6])))},
            {"either": SecretStr(secret)},
            {"several": frozenset({SecretStr("x"), SecretStr(secret)})},
            {"anything": [{"deep": SecretStr(secret)}, object]},
        ]

    calls = [*differing(ONE), *differing(OTHER), *differing(ONE)]
    async with desk(keep, store=store) as opened:
        for arguments in calls:
            await opened.session.call(keep, **arguments)
        text = json.dumps({"logins": {"a": {"name": "n", "key": ONE}}}).encode()
        await read(opened.session.invoke(Message("query", "keep", Json(text))))
        *records, from_the_wire = await opened.records()
        count = len(calls) // 3
        digests = [record.arguments_digest for record in records]
        assert digests[:count] == digests[-count:], "equal calls have equal digests"
        assert from_the_wire.arguments_digest == digests[0], "wherever they come from"
        assert len(set(digests)) == 2 * count
        shown = [record.arguments for record in records]
        assert shown[:count] == shown[count : 2 * count]
        assert "hunter" not in repr(records)

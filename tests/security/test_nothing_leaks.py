"""What leaves the process, and what is kept of it: no path of the host, no stack, no SQL, no secret (spec 4, G24)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from capset import Decision, Progress, Reply, Request, Tool, allow, policy, tool
from capset.errors import CapsetError
from tests.helpers.kernel.support import ask, desk, read

SECRET = "hunter2"


class Checked(BaseModel):
    """A model whose validator says too much."""

    pin: int

    @field_validator("pin")
    @classmethod
    def check(cls, pin: int) -> int:
        if pin == 1:
            raise RuntimeError(f"{SECRET} at {__file__}")
        return pin


async def open_missing() -> int:
    """Open a file that is not there."""
    return len(Path(f"/srv/{SECRET}/key.pem").read_bytes())


async def query() -> int:
    """Run SQL that fails."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute(f"SELECT {SECRET} FROM nowhere").fetchone()


async def divide() -> int:
    """Divide by zero, with a local that nobody should see."""
    password = SECRET
    return len(password) // 0


def divide_in_a_thread() -> int:
    """Divide by zero in a thread."""
    raise ZeroDivisionError(f"{SECRET} in {__file__}")


async def decode() -> str:
    """Decode what is no text."""
    return f"{SECRET}\ud800".encode().decode()


async def misshape() -> int:
    """Give what does not fit."""
    return SECRET  # pyright: ignore[reportReturnType]


async def chained() -> int:
    """Fail with a cause and a context."""
    try:
        return await divide()
    except ZeroDivisionError as error:
        raise LookupError(SECRET) from error


async def noted() -> int:
    """Fail with notes."""
    error = ValueError(SECRET)
    error.add_note(f"{SECRET} at {__file__}")
    raise error


async def grouped() -> int:
    """Fail in two tasks."""
    async with asyncio.TaskGroup() as group:
        group.create_task(divide())
        group.create_task(open_missing())
    return 0


async def stream() -> AsyncIterator[Progress | Reply[int]]:
    """Fail after an event."""
    yield Progress(0.5)
    raise OSError(5, SECRET, f"/srv/{SECRET}")


HANDLERS: list[Callable[[], Any]] = [
    *(open_missing, query, divide, divide_in_a_thread, decode, misshape, chained, noted, grouped, stream)
]
FORBIDDEN = (SECRET, "Traceback", 'File "', "line ", ".py", "/srv", "SELECT", "site-packages", "0x", str(Path.home()))


def check(text: str) -> None:
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.spec("G24", "G4", "T17")
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_nothing_of_a_failure_gets_out_or_into_the_record(
    handler: Callable[[], Any], effect: Any, tmp_path: Path
) -> None:
    failing: Tool[[], Any] = tool(name="fail", effect=effect)(handler)
    async with desk(failing, store=f"sqlite:///{tmp_path}/capset.db") as opened:
        for message in await ask(opened.session, "fail"):
            check(json.dumps(message.data))
        result = await opened.session.try_call(failing)
        with pytest.raises(CapsetError) as raised:
            await opened.session.call(failing)
        for error in (result.error, raised.value):
            assert error
            assert error.status == 500
            check(f"{error} {error!r} {error.message} {error.hint} {error.fields} {error.args}")
        records = await opened.records()
        assert len(records) == 3
        for record in records:
            check(json.dumps(asdict(record)))


@pytest.mark.spec("G24", "F15")
async def test_nothing_of_a_failing_policy_or_validator_gets_out() -> None:
    @policy
    def leaky(request: Request) -> Decision:
        if request.arguments and request.arguments["checked"].pin == 2:
            raise RuntimeError(f"{SECRET} at {__file__}")
        return allow()

    @tool(policies=[leaky])
    async def guarded(checked: Checked) -> int:
        """Take a pin."""
        return 1

    async with desk(guarded) as opened:
        statuses: list[int] = []
        for pin in (1, 2):
            (message,) = await ask(opened.session, "guarded", {"checked": {"pin": pin}})
            statuses.append(message.data["status"])
            check(json.dumps(message.data))
        assert statuses == [500, 403]
        for record in await opened.records():
            check(json.dumps(asdict(record)))


@pytest.mark.spec("G24")
async def test_where_the_store_lies_stays_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"private-{SECRET}"
    folder.mkdir()

    @tool
    async def act() -> int:
        """Act."""
        return 1

    async with desk(act, store=f"sqlite:///{folder}/capset.db") as opened:
        pass
    # Closed, so the store refuses, naming its file.
    for messages in (opened.session.stream(act), opened.session.invoke(opened.session.message("act", {}))):
        (error,) = await read(messages)
        assert error.data["status"] == 503
        check(json.dumps(error.data))
    result = await opened.session.try_call(act)
    assert result.error
    check(result.error.message)


@pytest.mark.spec("G12")
@settings(max_examples=60, deadline=None)
@given(
    secret=st.from_regex(r"[a-z0-9]{12,30}", fullmatch=True),
    field=st.sampled_from(["password", "apiKey", "text", "pin"]),
)
async def test_what_a_caller_sent_is_not_echoed_when_it_is_refused(secret: str, field: str) -> None:
    @tool(effect="read")
    async def login(password: int, apiKey: int, text: bool, pin: list[int]) -> int:
        """Log in."""
        return 1

    arguments: dict[str, Any] = {"password": 1, "apiKey": 2, "text": True, "pin": [1]} | {field: secret}
    async with desk(login) as opened:
        (error,) = await ask(opened.session, "login", arguments)
        assert error.data["status"] == 422
        assert secret not in json.dumps(error.data)
        record = await opened.record()
        assert (secret in record.arguments) is (field in ("text", "pin"))
        assert secret not in record.arguments_digest

"""Files that arguments name: an approval is for their content, and another content needs another one (spec 4, G52)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from capset import Agent, Capability, Context, Kernel, Principal, Session, Tool, tool
from capset.errors import ApprovalRequired, ApprovalVoid, Conflict, FileError, InvalidArguments, NotFound
from capset.ext import Answer, ApprovalRow, session_file
from capset.kernel.governance.approval_requests import FILES
from capset.kernel.governance.file_arguments import files_of
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery, AuditQuery
from tests.waiting import until

ADA, BOSS = Principal("ada", org="acme"), Principal("boss", org="acme")
HARMLESS, CUSTOMERS = b"the harmless report", b"the customer list"
YES = Answer(approved=True)
HiddenPath = Annotated[SecretStr, Field(json_schema_extra=session_file())]
SecretPath = Annotated[str, Field(json_schema_extra={**session_file(), "writeOnly": True})]


async def waiting(kernel: Kernel) -> ApprovalRow:
    """Return the one open request, once it is there."""

    async def pending() -> tuple[ApprovalRow, ...]:
        return (await kernel.approvals.list(ApprovalQuery("acme", "pending"))).items

    (row,) = await until(pending, "an open request")
    return row


@dataclass
class Office:
    """A session that sends files, each with an approval, and all that was sent."""

    kernel: Kernel
    session: Session
    send: Tool[..., int]
    sent: list[bytes] = field(default_factory=list[bytes])
    before_reading: list[bytes] = field(default_factory=list[bytes])
    """The content that somebody else writes into ``/report`` as the handler starts."""

    async def asked(self, *paths: str) -> ApprovalRow:
        """Ask for the sending of files, and return the request."""
        error = (await self.made(*paths)).error
        assert isinstance(error, ApprovalRequired)
        return await self.kernel.approvals.get(error.approval or "", org="acme")

    async def made(self, *paths: str, approval: str | None = None) -> Result[Any]:
        """Send files, if that is approved."""
        return await self.session.options(approvals="defer", approval=approval).try_call(self.send, paths=list(paths))


@asynccontextmanager
async def office(store: str = "memory://") -> AsyncGenerator[Office]:
    @tool(effect="external", approval="ask")
    async def send(ctx: Context, paths: list[Annotated[str, Field(json_schema_extra=session_file())]]) -> int:
        """Send files to a partner."""
        for content in harness.before_reading:
            await harness.session.files.write("/report", content)
        harness.sent += [(await ctx.files.read(path))[1] for path in paths]
        return len(paths)

    agent = Agent("clerk", uses=[Capability("office", tools=[send])])
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=ADA) as session:
        harness = Office(kernel, session, send)
        await session.files.write("/report", HARMLESS)
        yield harness


@pytest.mark.spec("G52", "T50")
async def test_what_was_approved_as_harmless_is_not_sent_with_another_content(store: str) -> None:
    async with office(store) as harness:
        row = await harness.asked("/report")
        await harness.kernel.approvals.decide(row.id, YES, by=BOSS)
        await harness.session.files.write("/report", CUSTOMERS)
        assert isinstance((await harness.made("/report", approval=row.id)).error, ApprovalVoid)
        repeated = await harness.asked("/report")
        assert repeated.id != row.id, "it needs a new approval"
        assert harness.sent == []
        await harness.session.files.write("/report", HARMLESS)
        assert (await harness.made("/report")).data == 1
        assert harness.sent == [HARMLESS]


@pytest.mark.spec("G52", "T50")
async def test_a_call_that_waits_goes_on_with_the_content_that_was_shown_or_not_at_all() -> None:
    async with office() as harness:
        for content, kind in ((HARMLESS, type(None)), (CUSTOMERS, ApprovalVoid)):
            waits = asyncio.ensure_future(harness.session.try_call(harness.send, paths=["/report"]))
            row = await waiting(harness.kernel)
            await harness.session.files.write("/report", content)
            await harness.kernel.approvals.decide(row.id, YES, by=BOSS)
            assert isinstance((await waits).error, kind)
        assert harness.sent == [HARMLESS]


@pytest.mark.spec("G52", "T50")
async def test_a_file_that_changes_as_the_handler_starts_is_not_read() -> None:
    async with office() as harness:
        row = await harness.asked("/report")
        await harness.kernel.approvals.decide(row.id, YES, by=BOSS)
        harness.before_reading.append(CUSTOMERS)
        error = (await harness.made("/report")).error
        assert isinstance(error, FileError)
        assert (error.code, error.status) == ("approval_void", 409)
        assert harness.sent == []


@pytest.mark.spec("G52")
async def test_a_file_that_was_not_there_is_not_there_when_it_is_read() -> None:
    async with office() as harness:
        row = await harness.asked("/later")
        (file,) = files_of(row)
        assert (file.path, file.size_bytes, file.sha256) == ("/later", None, None)
        await harness.session.files.write("/later", CUSTOMERS)
        assert (await harness.asked("/later")).id != row.id


@pytest.mark.spec("G52")
async def test_a_handler_reads_what_it_has_written_itself() -> None:
    @tool(effect="write", approval="ask")
    async def stamp(ctx: Context, path: Annotated[str, Field(json_schema_extra=session_file())]) -> str:
        """Put a stamp on a file."""
        _, content = await ctx.files.read(path)
        await ctx.files.write(path, content + b", seen")
        return (await ctx.files.read(path))[1].decode()

    agent = Agent("clerk", uses=[Capability("office", tools=[stamp])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        await session.files.write("/report", HARMLESS)
        waits = asyncio.ensure_future(session.call(stamp, "/report"))
        await kernel.approvals.decide((await waiting(kernel)).id, YES, by=BOSS)
        assert await waits == "the harmless report, seen"


@pytest.mark.spec("G52")
async def test_the_files_are_shown_with_their_size_and_hash_and_on_request_with_their_content(store: str) -> None:
    async with office(store) as harness:
        row = await harness.asked("/report")
        (file,) = files_of(row)
        assert (file.argument, file.path, file.name) == ("paths.0", "/report", "report")
        assert (file.size_bytes, file.sha256) == (len(HARMLESS), sha256(HARMLESS).hexdigest())
        reader = await harness.kernel.approvals.show_file(row, 0, by=BOSS)
        assert (await reader.read())[1] == HARMLESS
        assert (await reader.read(start=4, size=8))[1] == HARMLESS[4:12]
        (act,) = (await harness.kernel.audit.query(AuditQuery(act="approval.show", approval=row.id))).items
        assert (act.principal, json.loads(act.arguments)) == ("boss", {"id": row.id, "shown": "/report"})
        with pytest.raises(NotFound):
            await harness.kernel.approvals.show_file(row, 1, by=BOSS)
        await harness.session.files.write("/report", CUSTOMERS)
        with pytest.raises(Conflict, match="has changed since"):
            await harness.kernel.approvals.show_file(row, 0, by=BOSS)
        with pytest.raises(Conflict, match="has changed since"):
            await reader.read()


@pytest.mark.spec("G52", "G17")
async def test_other_arguments_name_files_of_the_request_alone() -> None:
    async with office() as harness:
        await harness.session.files.write("/customers", CUSTOMERS)
        await harness.session.files.write("/second", HARMLESS)
        row = await harness.asked("/report", "/second")
        other = Answer(approved=True, arguments={"paths": ["/customers"]})
        with pytest.raises(InvalidArguments, match=r"paths\.0 names a file that the request does not name"):
            await harness.kernel.approvals.decide(row.id, other, by=BOSS)
        fewer = Answer(approved=True, arguments={"paths": ["/second"]})
        await harness.kernel.approvals.decide(row.id, fewer, by=BOSS)
        await harness.session.files.write("/report", CUSTOMERS)
        assert isinstance((await harness.made("/report", "/second")).error, ApprovalRequired), (
            "it was for another content"
        )
        await harness.session.files.write("/report", HARMLESS)
        assert (await harness.made("/report", "/second")).data == 1
        assert harness.sent == [HARMLESS]


class Letter(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    to_whom: str
    enclosed_file: Annotated[str, Field(json_schema_extra=session_file())]


@pytest.mark.spec("G52")
async def test_a_file_is_found_under_the_alias_of_its_field_too() -> None:
    @tool(effect="external", approval="ask")
    async def post(letters: list[Letter]) -> int:
        """Post letters."""
        return len(letters)

    agent = Agent("clerk", uses=[Capability("office", tools=[post])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        await session.files.write("/report", HARMLESS)
        letters = [Letter(to_whom="bob", enclosed_file="/report")]
        refused = await session.options(approvals="defer").try_call(post, letters)
        assert isinstance(refused.error, ApprovalRequired)
        (file,) = files_of(await waiting(kernel))
        assert (file.path, file.sha256) == ("/report", sha256(HARMLESS).hexdigest())


@pytest.mark.spec("G52")
async def test_the_files_of_one_request_are_bounded() -> None:
    async with office() as harness:
        error = (await harness.made(*["/report"] * (FILES + 1))).error
        assert error is not None
        assert error.code == "arguments_too_large"
        assert len(files_of(await harness.asked(*["/report"] * FILES))) == FILES


@pytest.mark.spec("G52", "G51")
async def test_the_path_of_a_file_that_the_schema_says_is_secret_is_not_shown() -> None:
    @tool(effect="external", approval="ask")
    async def back_up(ctx: Context, key: SecretPath) -> int:
        """Store a key file elsewhere."""
        return len((await ctx.files.read(key))[1])

    agent = Agent("clerk", uses=[Capability("office", tools=[back_up])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        await session.files.write("/id_of_ada", HARMLESS)
        ready = session.options(approvals="defer")
        assert isinstance((await ready.try_call(back_up, "/id_of_ada")).error, ApprovalRequired)
        row = await waiting(kernel)
        assert "id_of_ada" not in f"{row.arguments}{row.unmasked}{row.files}"
        with pytest.raises(NotFound):
            await kernel.approvals.show_file(row, 0, by=BOSS)
        await kernel.approvals.decide(row.id, YES, by=BOSS)
        assert (await ready.try_call(back_up, "/id_of_ada")).data == len(HARMLESS)


@pytest.mark.spec("G52", "T50")
async def test_a_path_that_is_a_secret_is_covered_by_its_content_too() -> None:
    @tool(effect="external", approval="ask")
    async def back_up(ctx: Context, key: HiddenPath) -> int:
        """Store a key file elsewhere."""
        return len((await ctx.files.read(key.get_secret_value()))[1])

    agent = Agent("clerk", uses=[Capability("office", tools=[back_up])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        await session.files.write("/id_of_ada", HARMLESS)
        ready = session.options(approvals="defer")
        assert isinstance((await ready.try_call(back_up, SecretStr("/id_of_ada"))).error, ApprovalRequired)
        await kernel.approvals.decide((await waiting(kernel)).id, YES, by=BOSS)
        await session.files.write("/id_of_ada", CUSTOMERS)
        assert isinstance((await ready.try_call(back_up, SecretStr("/id_of_ada"))).error, ApprovalRequired)


@pytest.mark.spec("G52", "T50")
async def test_a_file_that_changes_before_the_handler_moves_it_is_not_read() -> None:
    @tool(effect="external", approval="ask")
    async def post(ctx: Context, path: Annotated[str, Field(json_schema_extra=session_file())]) -> int:
        """Move a file to the outbox, and send it."""
        await session.files.write(path, CUSTOMERS)  # as somebody else does
        await ctx.files.move(path, "/outbox")
        return len((await ctx.files.read("/outbox"))[1])

    agent = Agent("clerk", uses=[Capability("office", tools=[post])])
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        await session.files.write("/report", HARMLESS)
        waits = asyncio.ensure_future(session.try_call(post, "/report"))
        await kernel.approvals.decide((await waiting(kernel)).id, YES, by=BOSS)
        error = (await waits).error
        assert error is not None
        assert error.code == "approval_void"

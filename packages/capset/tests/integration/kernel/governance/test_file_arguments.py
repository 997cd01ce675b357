"""Files that arguments name: an approval is for their content, and another content needs another one (spec 4, G52)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from capset import Agent, Capability, Context, Kernel, Principal, tool
from capset.definitions.tools.definition import AnyTool
from capset.errors import ApprovalRequired, ApprovalVoid, Conflict, FileError, InvalidArguments, NotFound
from capset.ext import Answer, ApprovalRow, session_file
from capset.kernel.governance.approval_requests import MAX_FILES
from capset.kernel.governance.file_arguments import files_of
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery, AuditQuery
from tests.helpers.kernel.support import Desk, opened
from tests.waiting import until

ADA, BOSS = Principal("ada", org="acme"), Principal("boss", org="acme")
HARMLESS, CUSTOMERS = b"the harmless report", b"the customer list"
YES = Answer(approved=True)
FilePath = Annotated[str, Field(json_schema_extra=session_file())]
HiddenPath = Annotated[SecretStr, Field(json_schema_extra=session_file())]
SecretPath = Annotated[str, Field(json_schema_extra={**session_file(), "writeOnly": True})]


SENT: list[bytes] = []


@tool(effect="external", approval="ask")
async def send(ctx: Context, paths: list[FilePath]) -> int:
    """Send files to a partner."""
    SENT.extend([(await ctx.files.read(path))[1] for path in paths])
    return len(paths)


@asynccontextmanager
async def clerk(called: AnyTool = send, store: str = "memory://") -> AsyncGenerator[Desk]:
    """Open a session that has a tool, and the harmless report; nothing was sent yet."""
    SENT.clear()
    agent = Agent("clerk", uses=[Capability("office", tools=[called])])
    async with opened(agent, store=store, principal=ADA) as desk:
        await desk.session.files.write("/report", HARMLESS)
        yield desk


async def pending(kernel: Kernel) -> ApprovalRow:
    """Return the one open request, once it is there."""

    async def requests() -> tuple[ApprovalRow, ...]:
        return (await kernel.approvals.list(ApprovalQuery("acme", "pending"))).items

    (row,) = await until(requests, "an open request")
    return row


async def approve(kernel: Kernel) -> None:
    """Approve the one open request, once it is there."""
    await kernel.approvals.decide((await pending(kernel)).id, YES, by=BOSS)


async def asked(desk: Desk, *paths: str) -> ApprovalRow:
    """Ask for the sending of files, and return the request."""
    error = (await made(desk, *paths)).error
    assert isinstance(error, ApprovalRequired)
    return await desk.kernel.approvals.get(error.approval or "", org="acme")


async def made(desk: Desk, *paths: str, approval: str | None = None) -> Result[Any]:
    """Send files, if that is approved."""
    return await desk.session.options(approvals="defer", approval=approval).try_call(send, paths=list(paths))


@pytest.mark.spec("G52", "T50")
async def test_what_was_approved_as_harmless_is_not_sent_with_another_content(store: str) -> None:
    async with clerk(store=store) as desk:
        row = await asked(desk, "/report")
        await approve(desk.kernel)
        await desk.session.files.write("/report", CUSTOMERS)
        assert isinstance((await made(desk, "/report", approval=row.id)).error, ApprovalVoid)
        assert (await asked(desk, "/report")).id != row.id, "it needs a new approval"
        assert SENT == []
        await desk.session.files.write("/report", HARMLESS)
        assert (await made(desk, "/report")).data == 1
        assert SENT == [HARMLESS]


@pytest.mark.spec("G52", "T50")
async def test_a_call_that_waits_goes_on_with_the_content_that_was_shown_or_not_at_all() -> None:
    async with clerk() as desk:
        for content, kind in ((HARMLESS, type(None)), (CUSTOMERS, ApprovalVoid)):
            waits = asyncio.ensure_future(desk.session.try_call(send, paths=["/report"]))
            await pending(desk.kernel)
            await desk.session.files.write("/report", content)
            await approve(desk.kernel)
            assert isinstance((await waits).error, kind)
        assert SENT == [HARMLESS]


@pytest.mark.spec("G52", "T50")
@pytest.mark.parametrize("moves", [False, True])
async def test_a_file_that_changes_as_the_handler_starts_is_not_read_even_if_it_was_moved(moves: bool) -> None:
    @tool(effect="external", approval="ask")
    async def post(ctx: Context, path: FilePath) -> int:
        """Send a file, perhaps from the outbox."""
        await desk.session.files.write(path, CUSTOMERS)  # as somebody else does
        if moves:
            await ctx.files.move(path, "/outbox")
        return len((await ctx.files.read("/outbox" if moves else path))[1])

    async with clerk(post) as desk:
        waits = asyncio.ensure_future(desk.session.try_call(post, "/report"))
        await approve(desk.kernel)
        error = (await waits).error
        assert isinstance(error, FileError)
        assert (error.code, error.status) == ("approval_void", 409)


@pytest.mark.spec("G52")
async def test_a_file_that_was_not_there_is_not_there_when_it_is_read() -> None:
    async with clerk() as desk:
        row = await asked(desk, "/later")
        (file,) = files_of(row)
        assert (file.path, file.size_bytes, file.sha256) == ("/later", None, None)
        await desk.session.files.write("/later", CUSTOMERS)
        assert (await asked(desk, "/later")).id != row.id


@pytest.mark.spec("G52")
async def test_a_handler_reads_what_it_has_written_itself() -> None:
    @tool(effect="write", approval="ask")
    async def stamp(ctx: Context, path: FilePath) -> str:
        """Put a stamp on a file."""
        _, content = await ctx.files.read(path)
        await ctx.files.write(path, content + b", seen")
        return (await ctx.files.read(path))[1].decode()

    async with clerk(stamp) as desk:
        waits = asyncio.ensure_future(desk.session.call(stamp, "/report"))
        await approve(desk.kernel)
        assert await waits == "the harmless report, seen"


@pytest.mark.spec("G52")
async def test_the_files_are_shown_with_their_size_and_hash_and_on_request_with_their_content(store: str) -> None:
    async with clerk(store=store) as desk:
        approvals, row = desk.kernel.approvals, await asked(desk, "/report")
        (file,) = files_of(row)
        assert (file.argument, file.path, file.name) == ("paths.0", "/report", "report")
        assert (file.size_bytes, file.sha256) == (len(HARMLESS), sha256(HARMLESS).hexdigest())
        reader = await approvals.show_file(row, 0, by=BOSS)
        assert (await reader.read())[1] == HARMLESS
        assert (await reader.read(start=4, size=8))[1] == HARMLESS[4:12]
        (act,) = (await desk.kernel.audit.query(AuditQuery(act="approval.show", approval=row.id))).items
        assert (act.principal, json.loads(act.arguments)) == ("boss", {"id": row.id, "shown": "/report"})
        with pytest.raises(NotFound):
            await approvals.show_file(row, 1, by=BOSS)
        await desk.session.files.write("/report", CUSTOMERS)
        for late in (approvals.show_file(row, 0, by=BOSS), reader.read()):
            with pytest.raises(Conflict, match="has changed since"):
                await late


@pytest.mark.spec("G52", "G17")
async def test_other_arguments_name_files_of_the_request_alone() -> None:
    async with clerk() as desk:
        await desk.session.files.write("/customers", CUSTOMERS)
        await desk.session.files.write("/second", HARMLESS)
        row = await asked(desk, "/report", "/second")
        other = Answer(approved=True, arguments={"paths": ["/customers"]})
        with pytest.raises(InvalidArguments, match=r"paths\.0 names a file that the request does not name"):
            await desk.kernel.approvals.decide(row.id, other, by=BOSS)
        fewer = Answer(approved=True, arguments={"paths": ["/second"]})
        await desk.kernel.approvals.decide(row.id, fewer, by=BOSS)
        await desk.session.files.write("/report", CUSTOMERS)
        assert await asked(desk, "/report", "/second"), "it was for another content"
        await desk.session.files.write("/report", HARMLESS)
        assert (await made(desk, "/report", "/second")).data == 1
        assert SENT == [HARMLESS]


class Letter(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    to_whom: str
    enclosed_file: FilePath


@pytest.mark.spec("G52")
async def test_a_file_is_found_under_the_alias_of_its_field_too() -> None:
    @tool(effect="external", approval="ask")
    async def post(letters: list[Letter]) -> int:
        """Post letters."""
        return len(letters)

    async with clerk(post) as desk:
        letters = [Letter(to_whom="bob", enclosed_file="/report")]
        assert not (await desk.session.options(approvals="defer").try_call(post, letters)).success
        (file,) = files_of(await pending(desk.kernel))
        assert (file.path, file.sha256) == ("/report", sha256(HARMLESS).hexdigest())


@pytest.mark.spec("G52")
async def test_the_files_of_one_request_are_bounded() -> None:
    async with clerk() as desk:
        error = (await made(desk, *["/report"] * (MAX_FILES + 1))).error
        assert error is not None
        assert error.code == "arguments_too_large"
        assert len(files_of(await asked(desk, *["/report"] * MAX_FILES))) == MAX_FILES


@pytest.mark.spec("G52", "G51", "T50")
async def test_a_path_that_is_secret_is_not_shown_and_is_covered_by_its_content_too() -> None:
    @tool(effect="external", approval="ask")
    async def back_up(ctx: Context, key: SecretPath, other: HiddenPath) -> int:
        """Store key files elsewhere."""
        paths = (key, other.get_secret_value())
        return sum([len((await ctx.files.read(path))[1]) for path in paths])

    async with clerk(back_up) as desk:
        ready, paths = desk.session.options(approvals="defer"), ("/id_of_ada", "/id_of_bob")
        for path in paths:
            await ready.files.write(path, HARMLESS)
        arguments = (paths[0], SecretStr(paths[1]))
        assert isinstance((await ready.try_call(back_up, *arguments)).error, ApprovalRequired)
        row = await pending(desk.kernel)
        assert "id_of" not in f"{row.arguments}{row.unmasked}{row.files}"
        with pytest.raises(NotFound):
            await desk.kernel.approvals.show_file(row, 0, by=BOSS)
        await approve(desk.kernel)
        for path in paths:
            await ready.files.write(path, CUSTOMERS)
            assert isinstance((await ready.try_call(back_up, *arguments)).error, ApprovalRequired)
            await ready.files.write(path, HARMLESS)
        assert (await ready.try_call(back_up, *arguments)).data == 2 * len(HARMLESS)

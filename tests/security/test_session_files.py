"""A session never reaches another's files, whatever path it asks for (spec 5, P22, P25)."""

from __future__ import annotations

import contextlib
import string
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, Context, Kernel, Principal, Session, tool
from capset.definitions.calls.files import MAX_PATH_BYTES, MAX_PATH_LEVELS, normalise_path
from capset.errors import FileError, InvalidArguments, ToolError

PARTS = st.sampled_from(
    ["", ".", "..", "...", "a", "A", "ä", "a\u0308", " ", "~", "%2e%2e", "..\\", "C:", "*", "con", "\0", "\ud800"]
)
PATHS = (
    st.lists(PARTS | st.text(max_size=8), max_size=8).map(lambda parts: "/" + "/".join(parts))
    | st.text(max_size=40)
    | st.text(alphabet="/.a", max_size=30).map("/".__add__)
)


@pytest.mark.spec("P22")
@settings(max_examples=400, deadline=None)
@given(path=PATHS)
@example("/")
@example("//")
@example("/./.")
@example("/a/..")
@example("/" + "a" * MAX_PATH_BYTES)
@example("/a" * (MAX_PATH_LEVELS + 1))
@example("/ä" * 600)
def test_a_normalised_path_is_absolute_bounded_and_has_no_way_up(path: str) -> None:
    try:
        clean = normalise_path(path)
    except FileError:
        assert (
            not path.startswith("/")
            or ".." in path.split("/")
            or "\0" in path
            or any("\ud800" <= letter <= "\udfff" for letter in path)
            or len(path.encode()) > MAX_PATH_BYTES
            or path.count("/") > MAX_PATH_LEVELS
        )
        return
    parts = clean.split("/")[1:]
    assert clean == "/" or all(part not in ("", ".", "..") for part in parts)
    assert clean.startswith("/")
    assert "\0" not in clean
    assert len(clean.encode()) <= MAX_PATH_BYTES
    assert len(parts) <= MAX_PATH_LEVELS
    assert normalise_path(clean) == clean
    assert [part for part in path.split("/") if part not in ("", ".")] == [part for part in parts if part]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "./a",
        "../a",
        "/..",
        "/../a",
        "/a/../../b",
        "/a/..",
        "~/a",
        "file:///a",
        "C:/a",
        "/a\0",
        "/\ud800",
        "\\a",
    ],
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(FileError):
        normalise_path(path)


def test_a_refused_path_can_be_shown() -> None:
    for path in ("\ud800", "/\ud800", "/a/../\ud800"):
        with pytest.raises(FileError) as raised:
            normalise_path(path)
        raised.value.message.encode()


@asynccontextmanager
async def two_sessions(store: str) -> AsyncGenerator[tuple[Session, Session]]:
    agent = Agent("tester", uses=[Capability("kit", tools=[peek])])
    principal = Principal("user-1", org="org-1")
    async with (
        Kernel(store=store) as kernel,
        kernel.open(agent, principal=principal) as first,
        kernel.open(agent, principal=principal) as other,
    ):
        yield first, other


@tool(effect="read")
async def peek(ctx: Context, path: str) -> str:
    """Read any file of the session."""
    return (await ctx.files.read(path))[1].decode()


@pytest.mark.spec("P25")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS, tries=st.lists(PATHS, max_size=5))
async def test_no_path_of_one_session_leads_to_anothers_files(path: str, tries: list[str]) -> None:
    """One writes, the other looks everywhere: at the same path, at any other, and at ways to it by the session's id."""
    async with two_sessions("memory://") as (first, other):
        with contextlib.suppress(FileError):
            await first.files.write(path, b"secret of one")
        await first.files.write("/known.txt", b"secret of one")
        ways = [f"/{first.id}/known.txt", f"/../{first.id}/known.txt", f"{first.id}/known.txt", f"/{first.id}"]
        for attempt in [path, "/known.txt", *ways, *tries]:
            with contextlib.suppress(FileError):
                assert await other.files.stat(attempt) in (None, await other.files.stat("/"))
            with pytest.raises(FileError):
                await other.files.read(attempt)
            with pytest.raises((ToolError, InvalidArguments)):
                await other.call(peek, attempt)
            with pytest.raises(FileError):
                await other.files.move(attempt, "/taken", overwrite=True)
            with contextlib.suppress(FileError):
                assert list(await other.files.read_many([attempt])) == []
            with contextlib.suppress(FileError):
                assert await other.files.delete(attempt, recursive=True) == 0
        assert await other.files.list("/", recursive=True) == []
        assert (await first.files.read("/known.txt"))[1] == b"secret of one"


@pytest.mark.spec("P25")
async def test_sessions_on_sqlite_are_apart_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with two_sessions(f"sqlite:///{tmp_path_factory.mktemp('apart')}/capset.db") as (first, other):
        names = ["/a", "/a'b", '/a"b', "/a%b", "/a_b", "/A", "/ä", "/x/y/z", f"/{first.id}", f"/{other.id}/x"]
        for name in names:
            await first.files.write(name, name.encode())
            assert await other.files.stat(name) is None
        assert await other.files.list("/", recursive=True) == []
        for name in names:
            assert (await other.files.write(name, b"mine"))[1] is True
        for name in names:
            assert (await first.files.read(name))[1] == name.encode()
        assert await other.files.delete("/", recursive=True) > len(names)
        assert {stat.path for stat in await first.files.list("/", recursive=True) if not stat.is_directory} == set(
            names
        )


@pytest.mark.spec("P25")
@pytest.mark.parametrize("letter", [*"%_*?[]'\"\\;-", *string.whitespace])
async def test_no_letter_is_a_pattern(letter: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is listed, moved or deleted below a directory is below that, and not below one that is like it."""
    async with two_sessions(f"sqlite:///{tmp_path_factory.mktemp('letters')}/capset.db") as (first, _):
        for name in (f"/{letter}/x", "/aa/x", "/a/x", f"/{letter}{letter}/x"):
            await first.files.write(name, b"")
        paths = [stat.path for stat in await first.files.list(f"/{letter}", recursive=True)]
        assert paths == [f"/{letter}/x"]
        await first.files.move(f"/{letter}", f"/moved/{letter}")
        paths = [stat.path for stat in await first.files.list("/moved", recursive=True) if not stat.is_directory]
        assert paths == [f"/moved/{letter}/x"]
        assert await first.files.delete(f"/moved/{letter}", recursive=True) == 2
        assert await first.files.delete("/moved") == 1
        assert len(await first.files.list("/", recursive=True)) == 6

"""Every built-in passes the suite that third parties run, with examples of everything that it can do."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from capset import Capability, Session
from capset_testing import capability_suite
from capset_testing.capability_suite import Arguments, Check, Example
from capset_tools.current_time import current_time
from capset_tools.database import DatabaseConfig, DatabaseConnection, database
from capset_tools.files import FilesConfig, files
from capset_tools.memory import MemoryConfig, memory, memory_for, memory_user
from capset_tools.noop import noop
from capset_tools.sandbox import sandbox
from capset_tools.session_file_system import session_file_system
from capset_tools.stateless_todo_list import stateless_todo_list
from capset_tools.syscall import syscall
from capset_tools.test_math import test_math
from capset_tools.test_weather import test_weather
from tests.helpers.tools.memory.support import MemoryCapability, remember
from tests.helpers.tools.sandbox.support import need_jails

Examples = Mapping[str, Sequence[Example]]

TODOS = [
    {"content": "Write the tests", "activeForm": "Writing the tests", "status": "in_progress"},
    {"content": "Run them", "activeForm": "Running them", "status": "pending"},
]


def with_files(**arguments: Any) -> Callable[[Session], Awaitable[Arguments]]:
    async def prepare(session: Session) -> Arguments:
        await session.files.write("/in/notes.txt", b"one\ntwo\nthree\n")
        await session.files.write("/in/photo.bin", bytes(range(256)))
        return arguments

    return prepare


def about(capability: MemoryCapability) -> Examples:
    async def recalled(session: Session) -> Arguments:
        await remember(session, capability, "The user likes green tea.", "The user has a cat.")
        return {"query": "user", "limit": 1}

    async def forgotten(session: Session) -> Arguments:
        (stored,) = await remember(session, capability, "The user has no cat.")
        return {"id": stored["id"]}

    return {
        "remember": [{"text": "The user likes green tea."}, {"text": "Grüße, 世界 🌍"}],
        "recall": [recalled, {"query": "tea"}],
        "forget": [forgotten, {"id": "unknown"}],
    }


NUMBERS = [{"a": 7, "b": 2}, {"a": 0.5, "b": -3}]
EXAMPLES: dict[Capability[Any, Any], Examples] = {
    noop: {},
    current_time: {"get_current_time": [{}, {"timezone": "Europe/Paris", "format": "unix"}, {"format": "human"}]},
    test_math: dict.fromkeys(("add", "subtract", "multiply", "divide"), NUMBERS),
    test_weather: {
        "get_weather": [{"city": "Paris"}, {"city": "São Paulo", "unit": "fahrenheit"}],
        "get_forecast": [{"city": "Oslo"}, {"city": "東京", "days": 7, "unit": "fahrenheit"}],
    },
    syscall: {
        "Syscall_Describe": [{"names": ["*"]}, {"names": ["Syscall.Ping", "nothing"]}],
        "Syscall_Ping": [{"data": None}, {"data": {"a": [1, 2.5, True, "ß"]}}],
        "Syscall_List": [{}],
    },
    stateless_todo_list: {"write_todos": [{"todos": []}, {"todos": TODOS}]},
    session_file_system: {
        "read_file": [
            with_files(path="/in/notes.txt", offset=1, limit=1),
            with_files(path="/in/notes.txt", offset=1, limit=5, unit="characters"),
            with_files(path="/in/photo.bin"),
        ],
        "write_file": [
            {"path": "/out/a.txt", "content": "new"},
            {"path": "/out/b", "content": "AAEC", "encoding": "base64", "version": 0},
        ],
        "edit_file": [
            with_files(path="/in/notes.txt", old_text="two", new_text="2"),
            with_files(path="/in/notes.txt", old_text="two", new_text="", replace_all=True),
        ],
        "move_file": [
            with_files(source="/in/notes.txt", target="/out/notes.txt"),
            with_files(source="/in/notes.txt", target="/in/photo.bin", overwrite=True),
        ],
        "list_directory": [{}, with_files(path="/in", recursive=True)],
        "grep_files": [with_files(pattern="t[a-z]+", path_pattern="*.txt", context_lines=1, max_matches=1)],
        "delete_file": [{"path": "/nothing"}, with_files(path="/in", recursive=True)],
        "stat_file": [{"path": "/"}, with_files(path="/in/notes.txt")],
    },
    sandbox: {
        "execute_code": [
            {"language": "python", "code": "sum(range(10))"},
            {"language": "python", "code": "open('/out.txt', 'w').write('Grüße')\n1 / 0"},
            {"language": "bash", "code": "echo hi > /out.txt; ls /; exit 3"},
            with_files(language="bash", code="rm /in/photo.bin; sort -r /in/notes.txt > /in/sorted.txt"),
        ]
    },
    memory: about(memory),
    memory_user: about(memory_user),
}


LONG = ("hashes_are_the_same_in_every_process", "invalid_arguments_are_refused")


def every_check() -> Iterator[Any]:
    for capability, examples in EXAMPLES.items():
        for check in capability_suite(capability, examples=examples):
            # They start interpreters, and make up a hundred arguments for each tool: enough here for the simplest one.
            is_long = check.__name__ in LONG and capability is not test_math
            marks = [pytest.mark.nightly] if is_long else []
            marks += [pytest.mark.realtime] if capability is sandbox else []
            yield pytest.param(check, id=f"{capability.name}-{check.__name__}", marks=marks)


@pytest.mark.spec("P17", "C2", "C3", "C26", "C30")
@pytest.mark.parametrize("check", list(every_check()))
async def test_every_builtin_keeps_every_promise(check: Check, request: pytest.FixtureRequest) -> None:
    if "sandbox-every_example_runs" in request.node.name:
        need_jails()  # of bash
    await check()


FOLDER = TemporaryDirectory(prefix="capset-suite-")
PEOPLE = DatabaseConnection(url=f"sqlite:///{FOLDER.name}/people.db", description="Who there is.")


@pytest.fixture(scope="module")
def workspace() -> Iterator[None]:
    """Fill the folder that the suites of database and files were made for."""
    with FOLDER:
        (Path(FOLDER.name) / "notes.txt").write_text("Grüße")
        with closing(sqlite3.connect(f"{FOLDER.name}/people.db")) as connection:
            connection.executescript("CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('ada'), ('bob')")
        yield


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    "check",
    [
        *capability_suite(
            database,
            examples={
                "db_query": [
                    {"query": "SELECT count(*) AS people FROM people"},
                    {"query": "SELECT * FROM people WHERE name = ?", "params": ["ada"], "connection": "people"},
                ]
            },
            config=DatabaseConfig(connections={"people": PEOPLE}),
        ),
        *capability_suite(
            files,
            examples={"file_read": [{"path": "notes.txt"}, {"path": "notes.txt", "encoding": "base64"}]},
            config=FilesConfig(max_bytes=100),
            workspace=FOLDER.name,
        ),
    ],
    ids=lambda check: f"{check.__name__}",
)
async def test_what_reaches_out_of_the_session_keeps_them_too(check: Check) -> None:
    await check()


@pytest.mark.parametrize(
    "check",
    capability_suite(
        memory_user.with_presets(full_context=True),
        examples=about(memory_user),
        config=MemoryConfig(recent=1, full=2, max_length=50, capacity=10),
    ),
    ids=lambda check: check.__name__,
)
async def test_a_memory_with_a_config_keeps_them_too(check: Check) -> None:
    await check()


def test_the_memory_of_an_org_is_one_too() -> None:
    assert memory_for("org").config is MemoryConfig

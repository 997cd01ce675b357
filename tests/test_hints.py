"""Hints: what messages tell their readers to type or to call is there, and is taken as it is written."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from capset import Context, Hooks, Kernel, Message, Session
from capset.agents.runner import AgentRunner
from capset.cli.app import app
from capset.kernel.governance.checkpoints import CheckpointKey
from capset.kernel.hosting.host import SessionHost
from capset.testing import CassetteRecorder

SOURCE = Path(__file__).parents[1] / "src" / "capset"
VALUE = "VALUE"
"""What stands for what a message fills in."""


def said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every text of a module but its documentation, with its line; what is filled in is ``VALUE``."""
    left_out = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            left_out |= {id(part) for part in one.values}
    for one in ast.walk(tree):
        if id(one) in left_out:
            continue
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.lineno, one.value
        elif isinstance(one, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else VALUE for part in one.values)
            yield one.lineno, "".join(map(str, parts))


TEXTS = [
    (f"{path.relative_to(SOURCE)}:{line}", text)
    for path in sorted(SOURCE.rglob("*.py"))
    for line, text in said(ast.parse(path.read_text(encoding="utf-8")))
]


@cache
def root() -> Any:  # a group of typer's own
    return typer.main.get_command(app)


_OTHERS = (
    *("stores/sql/postgres/store.py", "builtin/sandbox/jail.py", "builtin/sandbox/child/jail_files.py"),
    "adapters/interop/bundle.py",
)
"""Modules with options of other programs: pg_dump, bubblewrap, a loader, uv."""


@cache
def options() -> frozenset[str]:
    """Return the options of all commands."""

    def of(command: Any) -> Iterator[str]:
        for one in command.params:
            yield from (*one.opts, *one.secondary_opts)
        for inner in getattr(command, "commands", {}).values():
            yield from of(inner)

    return frozenset((*of(root()), "--help"))


def commands() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each command in a message: where, the text, and its words up to what is no part of it."""
    for where, text in TEXTS:
        for found in re.finditer(r"(?<![\w/.-])(?<!from )capset (?=[a-z])", text):
            words = re.split(r"(?<=\S) ", re.split(r"[;,)`]|[.:](?: |$)|\n", text[found.end() :])[0])
            command, path = root(), list[str]()
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words[0]]
                path.append(words.pop(0))
            if not path:
                continue  # capset itself, which does something
            taken = list[str]()
            needs_value = False
            for word in words:
                if not (word.startswith("--") or needs_value or re.fullmatch(r"(?:[a-z]+:)?[A-Z]+|.*VALUE.*", word)):
                    break
                taken.append(word)
                needs_value = any(word in one.opts and not one.is_flag for one in command.params)
            yield where, text, [*path, *taken]


COMMANDS = list(commands())


def test_commands_are_found() -> None:
    """Otherwise the next test would show nothing."""
    assert len(COMMANDS) > 30
    assert ["mcp", "lock", "FILE"] in [words for _, _, words in COMMANDS]


@pytest.mark.parametrize(("where", "text", "words"), COMMANDS, ids=[f"{one[0]} {' '.join(one[2])}" for one in COMMANDS])
def test_a_command_in_a_message_is_taken_as_it_is_written(where: str, text: str, words: list[str]) -> None:
    command, path = root(), list[str]()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        path.append(words[0])
        words = words[1:]
    # By way of click's own parser, which refuses unknown options and missing arguments; nothing is run.
    command.make_context(" ".join(path), [re.sub(r"^[A-Z]+$", "1", word) for word in words])

    if path[0] == "mcp" and path[1:] in (["list"], ["diff"], ["approve"]):
        assert {"--config", "--agent"} & {*words} or VALUE in words[-1], "it needs the file that declares them"


@pytest.mark.parametrize(("where", "text"), [one for one in TEXTS if re.search(r"(?<!\w)--[a-z]", one[1])])
def test_an_option_in_a_message_is_an_option_of_a_command(where: str, text: str) -> None:
    if where.startswith(_OTHERS):
        return
    for one in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
        assert one in options(), text


API: dict[str, Any] = {
    "AgentRunner": AgentRunner,
    "CassetteRecorder": CassetteRecorder,
    "CheckpointKey": CheckpointKey,
    "Hooks": Hooks,
    "Kernel": Kernel,
    "Message": Message,
    "ctx": Context,
    "host": SessionHost,
    "kernel": Kernel,
    "session": Session,
}
"""What names in messages stand for."""
_CALL = re.compile(rf"\b({'|'.join(API)})(?:\.(\w+))?\(((?:[^()]|\([^()]*\))*)\)")
CALLS = [(where, text, *found.groups()) for where, text in TEXTS for found in _CALL.finditer(text)]


@pytest.mark.parametrize(("where", "text", "owner", "name", "arguments"), CALLS, ids=[one[0] for one in CALLS])
def test_a_call_in_a_message_is_one_that_there_is(
    where: str, text: str, owner: str, name: str | None, arguments: str
) -> None:
    called = API[owner] if name is None else getattr(API[owner], name)
    parameters = inspect.signature(called).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for one in re.findall(r"(\w+)=(?!=)", re.sub(r"\([^()]*\)", "", arguments)):
        assert takes_any or one in parameters, text

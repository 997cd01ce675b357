"""Hints: what messages tell their readers to type or to call is there, and is taken as it is written."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from capset import Context, Hooks, Kernel, Message, Session
from capset.kernel.governance.checkpoints import CheckpointKey
from capset.kernel.hosting.host import SessionHost
from capset_agents.runner import AgentRunner
from capset_cli.app import app
from capset_testing import CassetteRecorder

SOURCE = Path(__file__).parents[1] / "packages"
VALUE = "VALUE"
"""What stands for what a message fills in."""


def said(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every text of a module but its documentation, with its line; what is filled in is ``VALUE``."""
    nodes = list(ast.walk(tree))
    left_out = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in node.values}
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
            yield node.lineno, "".join(map(str, parts))


_PLACEHOLDER = re.compile(r"(?:[a-z]+:)?[A-Z]+|.*VALUE.*|\w+[.]yaml|[a-z]+_[a-z]+")


@cache
def texts() -> list[tuple[str, str]]:
    """Return the texts of all modules, each with its place. It takes seconds: not while tests are collected."""
    return [
        (f"{Path(*path.relative_to(SOURCE).parts[2:])}:{line}", text)
        for path in sorted(SOURCE.glob("*/src/**/*.py"))
        for line, text in said(ast.parse(path.read_text(encoding="utf-8")))
    ]


@cache
def root() -> Any:  # a group of typer's own
    return typer.main.get_command(app)


_OTHERS = (
    *("capset/stores/sql/postgres/store.py", "capset_tools/sandbox/jail", "capset_tools/sandbox/child/jail_files.py"),
    "capset_connect/interop/bundle.py",
)
"""Modules with options of other programs: pg_dump, bubblewrap, a loader, uv."""


@cache
def options() -> frozenset[str]:
    """Return the options of all commands."""

    def of(command: Any) -> Iterator[str]:
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        for inner in getattr(command, "commands", {}).values():
            yield from of(inner)

    return frozenset((*of(root()), "--help"))


def commands() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each command in a message: where, the text, and its words up to what is no part of it."""
    for where, text in texts():
        for match in re.finditer(r"(?<![\w/.-])(?<!from )capset (?=[a-z])", text):
            words = re.split(r"(?<=\S) ", re.split(r"[;,)`]|[.:](?: |$)|\n", text[match.end() :])[0])
            command, path = root(), list[str]()
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words[0]]
                path.append(words.pop(0))
            if not path:
                continue  # capset itself, which does something
            taken = list[str]()
            needs_value = False
            for word in words:
                if not (word.startswith("--") or needs_value or _PLACEHOLDER.fullmatch(word)):
                    break
                taken.append(word)
                needs_value = any(word in parameter.opts and not parameter.is_flag for parameter in command.params)
            yield where, text, [*path, *taken]


def test_a_command_in_a_message_is_taken_as_it_is_written() -> None:
    typed_commands = list(commands())
    assert len(typed_commands) > 30, "otherwise this would show nothing"
    assert ["mcp", "lock", "FILE"] in [words for _, _, words in typed_commands]
    for where, text, typed in typed_commands:
        command, path, words = root(), list[str](), typed
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words[0]]
            path.append(words[0])
            words = words[1:]
        # By way of click's own parser, which refuses unknown options and missing arguments; nothing is run.
        try:
            command.make_context(" ".join(path), [re.sub(r"^[A-Z]+$", "1", word) for word in words])
        except Exception as error:
            raise AssertionError(f"{where}: {text}") from error

        if path[0] == "mcp" and path[1:] in (["list"], ["diff"], ["approve"]):
            named = {"--agent"} & {*words} or VALUE in words[-1]
            assert named, f"{where}: {text}: it needs the file that declares them"


def test_an_option_in_a_message_is_an_option_of_a_command() -> None:
    named_options = [
        (where, text, option)
        for where, text in texts()
        if not where.startswith(_OTHERS)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)
    ]
    assert len(named_options) > 30, "otherwise this would show nothing"
    assert [entry for entry in named_options if entry[2] not in options()] == []


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


def test_a_call_in_a_message_is_one_that_there_is() -> None:
    calls = [(where, text, *call.groups()) for where, text in texts() for call in _CALL.finditer(text)]
    assert len(calls) > 10, "otherwise this would show nothing"
    for where, text, owner, name, arguments in calls:
        called = API[owner] if name is None else getattr(API[owner], name)
        parameters = inspect.signature(called).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        for keyword in re.findall(r"(\w+)=(?!=)", re.sub(r"\([^()]*\)", "", arguments)):
            assert takes_any or keyword in parameters, f"{where}: {text}"

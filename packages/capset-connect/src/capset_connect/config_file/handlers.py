"""Handlers that a configuration file references: files below its folder, or installed modules (spec 4, G27, G28)."""

from __future__ import annotations

import hashlib
import importlib
import posixpath
import re
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple

from capset.errors import DefinitionError, closest

FUNCTION: Final = "handler"
"""The default name of a handler function."""
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_FOREIGN: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx")
_LOADS: Final = count(1)


class FoundHandler(NamedTuple):
    """The object that a reference resolves to, and the digest of its file; ``None`` for an installed package."""

    value: Any  # any value from a module
    digest: str | None


class Handlers:
    """Loads the handlers for one reading of a configuration file. Each Python file is executed once."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is that of the configuration file; paths outside it, after resolving symlinks, are refused."""
        self._folder = folder.resolve()
        self._prefix = f"_capset_configuration_{next(_LOADS)}"
        self._loaded: dict[Path, tuple[ModuleType, str] | DefinitionError] = {}
        self.files: dict[str, str] = {}
        """The SHA-256 of each loaded file, by its place in the configuration file."""

    def resolve(self, reference: str) -> FoundHandler:
        """Load a handler: ``./handlers/weather.py``, with or without ``:function``, or ``package.module:function``.

        Raises ``DefinitionError`` if the handler does not exist, is outside the folder, or cannot be loaded.
        """
        place, name = _parts(reference)
        if _is_file(place):
            module, digest = self._file(place)
        else:
            module, digest = _installed(place), None
        if not hasattr(module, name):
            meant = closest(name, [attribute for attribute in vars(module) if callable(getattr(module, attribute))])
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise DefinitionError(f"{place} has no {name!r}{hint}")
        return FoundHandler(getattr(module, name), digest)

    def forget(self) -> None:
        """Remove the loaded modules, because the configuration file was refused."""
        for loaded in self._loaded.values():
            if not isinstance(loaded, DefinitionError):
                sys.modules.pop(loaded[0].__name__, None)

    def _file(self, place: str) -> tuple[ModuleType, str]:
        path = self._inside(place)
        if path not in self._loaded:
            try:
                self._loaded[path] = self._load(path, place)
            except DefinitionError as error:
                self._loaded[path] = error
        loaded = self._loaded[path]
        if isinstance(loaded, DefinitionError):
            raise DefinitionError(loaded.message)
        self.files[place] = loaded[1]
        return loaded

    def _inside(self, place: str) -> Path:
        try:
            path = (self._folder / place).resolve()
            is_inside = path.is_relative_to(self._folder)
            is_file = is_inside and path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, circular symlinks
            is_inside, is_file, path = True, False, self._folder
        if not is_inside:
            raise DefinitionError(f"{place!r} is outside the configuration file's folder: move it below that folder")
        if not is_file:
            raise DefinitionError(f"there is no file {place!r} below the configuration file's folder")
        if path.suffix != ".py":
            raise DefinitionError(f"handlers are Python files with the suffix .py; got {place!r}")
        return path

    def _load(self, path: Path, place: str) -> tuple[ModuleType, str]:
        """Execute a file as a module in ``sys.modules``, where dataclasses and annotations look up their module."""
        name = f"{self._prefix}.{len(self._loaded)}_{path.stem}"
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        try:
            source = path.read_bytes()
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - a handler
        except SyntaxError as error:
            sys.modules.pop(name, None)
            raise DefinitionError(f"{place} cannot be loaded: {error.msg}, on line {error.lineno}") from None
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            raise DefinitionError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from None
        return module, hashlib.sha256(source).hexdigest()


class Unloaded:
    """Replaces ``Handlers`` where no code may be loaded. It accepts every well-formed reference.

    It reads no file and imports nothing, so it cannot tell whether a handler exists. ``taken`` collects the references.
    """

    files: Final[Mapping[str, str]] = MappingProxyType({})

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def resolve(self, reference: str) -> FoundHandler:
        """Return a placeholder for a handler. Raises ``DefinitionError`` for a malformed reference."""
        place, _ = _parts(reference)
        if not _is_file(place):
            _check_dotted(place)
        elif is_outside(place):
            raise DefinitionError(f"{place!r} is outside the configuration file's folder: move it below that folder")
        elif not place.endswith(".py"):
            raise DefinitionError(f"handlers are Python files with the suffix .py; got {place!r:.80}")
        self.taken.add(reference)
        return FoundHandler(not_loaded, None)

    def forget(self) -> None:
        """Do nothing: nothing was loaded."""


def not_loaded(params: object, context: object) -> None:
    """Serve as a placeholder for a handler that was not loaded. It is never called."""
    raise DefinitionError("this handler was not loaded")


def is_outside(place: str) -> bool:
    """Return whether a path is outside its folder, judging by its text alone."""
    parts = posixpath.normpath(place.replace("\\", "/"))
    return "\0" in place or parts == ".." or parts.startswith(("../", "/")) or place[1:2] == ":"


def _parts(reference: str) -> tuple[str, str]:
    """Split a reference into the file or module and the function. Raises ``DefinitionError`` if it is invalid."""
    if any("\ud800" <= letter <= "\udfff" for letter in reference):
        raise DefinitionError(f"a handler must be text without lone surrogates; got {reference!r:.80}")
    place, colon, name = reference.rpartition(":")
    if not colon:
        place, name = reference, FUNCTION
    if not name.isidentifier():
        raise DefinitionError(f"expected the name of a function after the colon; got {name!r:.80}")
    if place.lower().endswith(_FOREIGN):
        raise DefinitionError(
            f"handlers are Python files; got {place!r}: write it as {str(Path(place).with_suffix('.py'))!r}"
        )
    return place, name


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or "\\" in place


def _check_dotted(name: str) -> None:
    if not _DOTTED.fullmatch(name):
        raise DefinitionError(
            f"a handler is ./FILE.py, with or without :function, or package.module:function; got {name!r:.80}"
        )


def _installed(name: str) -> ModuleType:
    _check_dotted(name)
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise DefinitionError(f"{name} cannot be imported: {type(error).__name__}: {error}") from None

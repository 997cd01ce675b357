"""Handlers named by a configuration file: files below its folder, or installed modules (spec 4, G27, G28)."""

from __future__ import annotations

import hashlib
import importlib
import posixpath
import re
import sys
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from capset.errors import DefinitionError, closest

FUNCTION: Final = "handler"
"""The default name of a handler function."""
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_FOREIGN: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx")
_LOADS: Final = count(1)


class FoundHandler(NamedTuple):
    """The object behind a reference, and a digest of its file; an installed package has no digest."""

    value: Any  # any value from a module
    digest: str | None


class Handlers:
    """Loader of handlers for one reading of a file: each Python file is run once per reading."""

    def __init__(self, folder: Path) -> None:
        """Set the ``folder`` of the configuration file; paths that lead out of it, after symlinks, are refused."""
        self._folder = folder.resolve()
        self._prefix = f"_capset_configuration_{next(_LOADS)}"
        self._loaded: dict[Path, tuple[ModuleType, str] | DefinitionError] = {}

    def resolve(self, reference: str) -> FoundHandler:
        """Load ``./handlers/weather.py``, with or without ``:function``, or ``package.module:function``.

        Raises ``DefinitionError`` for a handler that does not exist, is not below the folder, or cannot be loaded.
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
        """Discard the loaded modules: the file that names them is refused."""
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
        return loaded

    def _inside(self, place: str) -> Path:
        try:
            path = (self._folder / place).resolve()
            is_inside = path.is_relative_to(self._folder)
            is_file = is_inside and path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, circular symlinks
            is_inside, is_file, path = True, False, self._folder
        if not is_inside:
            raise DefinitionError(f"{place!r} leads out of the configuration file's folder, below which handlers stand")
        if not is_file:
            raise DefinitionError(f"there is no file {place!r} below the configuration file's folder")
        if path.suffix != ".py":
            raise DefinitionError(f"handlers are Python files, ending in .py; got {place!r}")
        return path

    def _load(self, path: Path, place: str) -> tuple[ModuleType, str]:
        """Run a file as a module with a private name: annotations and dataclasses look up their module by that."""
        name = f"{self._prefix}.{len(self._loaded)}_{path.stem}"
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        try:
            source = path.read_bytes()
            exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - it is a handler
        except SyntaxError as error:
            sys.modules.pop(name, None)
            raise DefinitionError(f"{place} cannot be loaded: {error.msg}, on its line {error.lineno}") from None
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            raise DefinitionError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from None
        return module, hashlib.sha256(source).hexdigest()


class Unloaded:
    """Replacement for ``Handlers`` where no code may be loaded: it accepts every well-formed reference.

    It reads no file and imports nothing, so it cannot tell what exists. ``taken`` are the references so far.
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def resolve(self, reference: str) -> FoundHandler:
        """Return a placeholder for a reference. Raises ``DefinitionError`` for one that is malformed."""
        place, _ = _parts(reference)
        if not _is_file(place):
            _check_dotted(place)
        elif is_outside(place):
            raise DefinitionError(f"{place!r} leads out of the configuration file's folder, below which handlers stand")
        elif not place.endswith(".py"):
            raise DefinitionError(f"handlers are Python files, ending in .py; got {place!r:.80}")
        self.taken.add(reference)
        return FoundHandler(not_loaded, None)

    def forget(self) -> None:
        """Do nothing: nothing was loaded."""


def not_loaded(params: object, context: object) -> None:
    """Stand in for a handler that was not loaded; it is never called."""
    raise DefinitionError("this handler was not loaded")


def is_outside(place: str) -> bool:
    """Return whether a path leads out of its folder, judging by its text alone."""
    parts = posixpath.normpath(place.replace("\\", "/"))
    return "\0" in place or parts == ".." or parts.startswith(("../", "/")) or place[1:2] == ":"


def _parts(reference: str) -> tuple[str, str]:
    """Return the place of a handler, and the name of its function. Raises ``DefinitionError`` for an invalid name."""
    if any("\ud800" <= letter <= "\udfff" for letter in reference):
        raise DefinitionError(f"a handler is text without lone surrogates; got {reference!r:.80}")
    place, colon, name = reference.rpartition(":")
    if not colon:
        place, name = reference, FUNCTION
    if not name.isidentifier():
        raise DefinitionError(f"what follows the colon is the name of a function; got {name!r:.80}")
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

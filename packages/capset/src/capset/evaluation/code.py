"""The code behind tools, hashed separately from their declarations (spec 2, F35).

Each source is read once per process, on first use. A few hundred files take tens of milliseconds, so ``read_code``
reads them in a thread. Opening a session awaits it; calls and records never wait.
"""

from __future__ import annotations

import asyncio
import csv
import functools
import hashlib
import inspect
import os
import posixpath
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from capset.composition.compose import Composition
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.handlers import ADAPTED, is_adapted
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.canonical import canonical
from capset.fingerprint.payloads import code_payload

if TYPE_CHECKING:
    from importlib.metadata import Distribution

CodeKind = Literal["distribution", "package", "module"]
SUFFIXES: Final = (".py", ".pyw", ".pyc", ".pyd", ".so")
"""Suffixes of source files, extension modules, and compiled modules without source."""
_CACHE_FOLDER: Final = "__pycache__"


class NoSource(Exception):
    """Raised if a handler has no source to hash. The message gives the reason, but no path."""


class CodeModule(NamedTuple):
    """A module's file, its import ``name`` if it has one, and the name it was loaded under."""

    file: Path
    name: str | None
    loaded: str


@dataclass(frozen=True, slots=True)
class CodeSource:
    """The files to hash: those in a distribution's RECORD, those below a package's folder, or one module.

    ``base`` is the ``dist-info`` folder, the package's folder or the module's file; paths are relative to ``root``.
    ``name`` and ``version`` are the distribution's, if there is one; otherwise ``name`` is the package's or the file's.
    ``loaded`` distinguishes two loads of one file.
    """

    kind: CodeKind
    root: Path
    base: Path
    name: str
    version: str | None = None
    loaded: str | None = None


def module_of(handler: object) -> CodeModule:
    """Return the module that defines a handler.

    Looks through partials, bound methods, callable objects and decorators that use ``functools.wraps``. Raises
    ``NoSource`` if the handler is compiled, was typed in, or was created at run time.
    """
    definition = _innermost(handler)
    if isinstance(definition, FunctionType):
        if (file := definition.__code__.co_filename).startswith("<"):
            raise NoSource(f"it was typed in, or made at run time ({file:.80}), and has no source file")
        namespace = definition.__globals__
    elif isinstance(definition, type) and (module := sys.modules.get(definition.__module__)) is not None:
        namespace = vars(module)
    else:
        raise NoSource("it is not a Python function: it is compiled, and has no source")
    spec: Any = namespace.get("__spec__")
    loaded = str(namespace.get("__name__"))
    if spec is not None and spec.has_location:
        return CodeModule(Path(spec.origin).absolute(), str(spec.name), loaded)
    file = namespace.get("__file__")
    if not isinstance(file, str):
        raise NoSource("it was typed in, or is part of the interpreter, and has no source file")
    return CodeModule(Path(file).absolute(), None, loaded)


def _innermost(handler: Any) -> object:
    """Return the innermost function or class behind a handler's wrappers."""
    for _ in range(100):  # wrappers may form a cycle
        inner = _wrapped(handler)
        if inner is None:
            break
        handler = inner
    return cast("object", handler)


def _wrapped(handler: Any) -> object:
    """Return the object that a partial, method, wrapper or callable object wraps, or ``None``."""
    if isinstance(handler, functools.partial):
        return cast("functools.partial[object]", handler).func
    if isinstance(handler, MethodType):
        return handler.__func__
    for name in (ADAPTED, "__wrapped__"):  # static lookup: ordinary attribute access may run code
        if (inner := inspect.getattr_static(handler, name, None)) is not None:
            return inner
    if isinstance(handler, FunctionType | type):
        return None
    call_method = inspect.getattr_static(cast("type[object]", type(handler)), "__call__", None)
    return call_method if isinstance(call_method, FunctionType) else None


def source_of(module: CodeModule) -> CodeSource:
    """Return the source whose hash covers a module. Raises ``OSError`` if files cannot be read.

    This is the distribution whose RECORD lists the module; otherwise the outermost package that contains it, as in an
    editable install; otherwise the module alone.
    """
    file, name, loaded = module
    module_source = CodeSource("module", file.parent, file, file.name, loaded=loaded)
    if name is None:
        return module_source
    parts = name.split(".")
    is_package = file.name.partition(".")[0] == "__init__"
    expected = "/".join([*parts, "__init__"] if is_package else parts)
    root = Path(*file.parts[: -len(parts) - is_package])
    path = file.relative_to(root).as_posix()
    if not path.startswith(f"{expected}."):  # loaded under a name that does not match its path
        return module_source
    if (distribution := _find_distribution(root, path, parts[0])) is not None:
        return distribution
    for depth in range(1, len(parts) + is_package):
        folder = root.joinpath(*parts[:depth])
        if (folder / "__init__.py").is_file():
            name, version = _editable_install(folder) or (".".join(parts[:depth]), None)
            return CodeSource("package", root, folder, name, version)
    return module_source


def files_of(source: CodeSource) -> dict[str, str]:
    """Return the SHA-256 of each file of a source, by its relative path. Raises ``OSError`` if files cannot be read.

    Omits files that a RECORD lists but that no longer exist.
    """
    if source.kind == "module":
        return {source.base.name: _digest(source.base)}
    if source.kind == "package":
        return {path: _digest(source.root / path) for path in _package_files(source)}
    digests: dict[str, str] = {}
    for path in _record_paths(_read_record(source.base)):
        try:
            digests[path] = _digest(source.root / path)
        except FileNotFoundError:
            continue
    return digests


def _find_distribution(root: Path, path: str, top_level: str) -> CodeSource | None:
    """Return the distribution in ``root`` whose RECORD lists the file at ``path``."""
    from importlib.metadata import Distribution

    try:
        folders = [folder for folder in root.iterdir() if folder.suffix == ".dist-info"]
    except NotADirectoryError:  # an archive
        return None
    top_level = top_level.lower()
    # Most distributions have the name of the package they install.
    for base in sorted(folders, key=lambda folder: (not folder.name.lower().startswith(top_level), folder)):
        try:
            record = _read_record(base)
        except OSError:  # a broken installation does not concern this handler
            continue
        if path in record and path in _record_paths(record):
            name, version = _name_and_version(Distribution.at(base)) or (base.name.partition("-")[0], None)
            return CodeSource("distribution", root, base, name, version)
    return None


def _read_record(base: Path) -> str:
    return (base / "RECORD").read_text(encoding="utf-8", errors="surrogateescape")


def _record_paths(record: str) -> Iterator[str]:
    """Yield each code path in a RECORD once, without files outside the root, such as scripts."""
    yielded: set[str] = set()
    for row in csv.reader(record.splitlines()):
        path = posixpath.normpath(row[0].replace("\\", "/")) if row else ""
        if _is_code(path) and not path.startswith(("../", "/")) and path not in yielded:
            yielded.add(path)
            yield path


def _package_files(source: CodeSource) -> Iterator[str]:
    def reraise(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(source.base, onerror=reraise):
        folders[:] = [name for name in folders if name != _CACHE_FOLDER and not name.startswith(".")]
        for file in files:
            if _is_code(file):
                yield Path(folder, file).relative_to(source.root).as_posix()


def _is_code(path: str) -> bool:
    return path.endswith(SUFFIXES) and _CACHE_FOLDER not in path.split("/")


@functools.cache
def _editable_install(folder: Path) -> tuple[str, str | None] | None:
    """Return the name and version of the editable install that contains a folder."""
    from importlib.metadata import distributions
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    from pydantic_core import from_json

    best: tuple[int, Distribution] | None = None
    for distribution in distributions():
        try:
            text = distribution.read_text("direct_url.json")
            origin: Any = from_json(text) if text else {}
            if not origin.get("dir_info", {}).get("editable"):
                continue
            project = Path(url2pathname(urlsplit(str(origin["url"])).path)).resolve()
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # not valid under PEP 610
        depth = len(project.parts)
        if folder.resolve().is_relative_to(project) and (best is None or depth > best[0]):
            best = depth, distribution
    return None if best is None else _name_and_version(best[1])


def _name_and_version(distribution: Distribution) -> tuple[str, str | None] | None:
    """Return a distribution's name and version, or ``None`` if its metadata is missing."""
    from email.parser import HeaderParser

    headers = HeaderParser().parsestr(distribution.read_text("METADATA") or "")
    return (str(headers["Name"]), headers["Version"]) if headers["Name"] else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Code:
    """The code behind a tool. ``hash`` is the SHA-256 of ``covers``, a ``code_payload`` as canonical JSON.

    If there is no hash, ``reason`` says why. ``name`` and ``version`` are the distribution's; without a distribution,
    ``name`` is that of the package or of the module's file.
    """

    hash: str | None
    kind: CodeKind | None = None
    name: str | None = None
    version: str | None = None
    reason: str | None = None
    covers: str | None = field(default=None, repr=False, compare=False)


class _KeyedCache(Generic[K, V]):
    """A thread-safe function that computes the value for each key once. Exceptions are not cached."""

    def __init__(self, compute: Callable[[K], V]) -> None:
        self.values: dict[K, V] = {}
        self._compute = compute
        self._locks: dict[K, Lock] = {}

    def __call__(self, key: K) -> V:
        if key not in self.values:
            with self._locks.setdefault(key, Lock()):
                if key not in self.values:
                    self.values[key] = self._compute(key)
        return self.values[key]


def code_of(tool: AnyTool) -> Code:
    """Return the code behind a tool, read on first use, with its hash or the reason why it has none."""
    code = _CODE_BY_TOOL.get(tool)
    if code is None:
        code = _CODE_BY_TOOL[tool] = _compute_code(tool)
    return code


async def read_code(snapshot: Snapshot) -> None:
    """Read the code behind all tools of a snapshot, in play or not, in a thread. Skips code already read."""
    if not is_code_read(snapshot):
        await read_code_of(installed.tool for installed in snapshot.installed.values())


async def read_code_of(tools: Iterable[AnyTool]) -> None:
    """Read the code behind some tools in a thread. Skips code already read."""
    if pending := [tool for tool in tools if tool not in _CODE_BY_TOOL]:
        await asyncio.to_thread(lambda: list(map(code_of, pending)))


def is_code_read(snapshot: Snapshot) -> bool:
    """Whether the code behind all tools of a snapshot has been read."""
    if snapshot.plan is not plan_of(snapshot.composition):  # it has tools that exist only in this snapshot
        return all(installed.tool in _CODE_BY_TOOL for installed in snapshot.installed.values())
    if snapshot.composition not in _READ_COMPOSITIONS:
        if not all(installed.tool in _CODE_BY_TOOL for installed in snapshot.installed.values()):
            return False
        _READ_COMPOSITIONS.add(snapshot.composition)
    return True


def known_code(hash: str | None) -> Code | None:
    """Return the code with a given hash, or ``None`` if this process has not read it."""
    return None if hash is None else _CODE_BY_HASH.get(hash)


def _compute_code(tool: AnyTool) -> Code:
    if tool.block is not None and not is_adapted(tool.handler):
        block = f"the {tool.block.kind} {tool.block.name!r}"
        return Code(None, reason=f"it runs {block}, whose code is in more than one place")
    try:
        return _read_source(_find_source(module_of(tool.handler)))
    except NoSource as error:
        return Code(None, reason=str(error))
    except (OSError, ValueError, csv.Error) as error:
        cause = error.strerror if isinstance(error, OSError) else type(error).__name__
        return Code(None, reason=f"its files cannot be read: {cause}")


def _hash_source(source: CodeSource) -> Code:
    covers = canonical(code_payload(files_of(source)))
    code_hash = sha256(covers).hexdigest()
    code = Code(code_hash, source.kind, source.name, source.version, covers=covers.decode())
    _CODE_BY_HASH.setdefault(code_hash, code)
    return code


# These values never change, or are deliberately read only once: a process runs the code that it has imported.
_find_source: Final = _KeyedCache[CodeModule, CodeSource](source_of)
_read_source: Final = _KeyedCache[CodeSource, Code](_hash_source)
_CODE_BY_HASH: Final[dict[str, Code]] = {}
_CODE_BY_TOOL: Final[WeakKeyDictionary[AnyTool, Code]] = WeakKeyDictionary()
_READ_COMPOSITIONS: Final[WeakSet[Composition]] = WeakSet()

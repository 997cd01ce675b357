"""The code behind a tool, and the hash of its bytes, beside the hashes of what is declared (spec 2, F35).

Each source is read once in a process, when it is first asked for. That takes milliseconds for each hundred files, so
``read_code`` does it in a thread; whatever opens a session awaits it, and nothing that calls or records has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from capset.composition.compose import Composition
from capset.definitions.handlers import is_adapted
from capset.definitions.tools import AnyTool
from capset.evaluation.code_sources import CodeKind, Module, NoSource, Source, files_of, module_of, source_of
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot import Snapshot
from capset.fingerprint.canonical import canonical
from capset.fingerprint.payloads import code_payload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Code:
    """The code behind a tool: the SHA-256 of ``covers``, a ``code_payload`` as canonical JSON, is its ``hash``.

    Without a hash there is a ``reason``. ``name`` is that of the distribution, with its ``version``; else that of the
    package or of the module's file.
    """

    hash: str | None
    kind: CodeKind | None = None
    name: str | None = None
    version: str | None = None
    reason: str | None = None
    covers: str | None = field(default=None, repr=False, compare=False)


class _Once(Generic[K, V]):
    """A function whose value is computed once for each key, whichever threads ask; an exception is not kept."""

    def __init__(self, compute: Callable[[K], V]) -> None:
        self.known: dict[K, V] = {}
        self._compute = compute
        self._locks: dict[K, Lock] = {}

    def __call__(self, key: K) -> V:
        if key not in self.known:
            with self._locks.setdefault(key, Lock()):
                if key not in self.known:
                    self.known[key] = self._compute(key)
        return self.known[key]


def code_of(tool: AnyTool) -> Code:
    """Return the code behind a tool, read at the first use: with a hash, or with the reason why there is none."""
    known = _TOOLS.get(tool)
    if known is None:
        known = _TOOLS[tool] = _found(tool)
    return known


async def read_code(snapshot: Snapshot) -> None:
    """Read the code behind all tools of a snapshot, in play or not, in a thread, unless that is done already."""
    if not is_read(snapshot):
        await read_code_of(one.tool for one in snapshot.installed.values())


async def read_code_of(tools: Iterable[AnyTool]) -> None:
    """Read the code behind some tools, in a thread, where that is not done already."""
    if pending := [tool for tool in tools if tool not in _TOOLS]:
        await asyncio.to_thread(lambda: list(map(code_of, pending)))


def is_read(snapshot: Snapshot) -> bool:
    """Whether the code behind all tools of a snapshot has been read."""
    if snapshot.plan is not plan_of(snapshot.composition):  # tools were made for this snapshot alone
        return all(one.tool in _TOOLS for one in snapshot.installed.values())
    if snapshot.composition not in _COMPOSITIONS:
        if not all(one.tool in _TOOLS for one in snapshot.installed.values()):
            return False
        _COMPOSITIONS.add(snapshot.composition)
    return True


def known_code(hash: str | None) -> Code | None:
    """Return the code that has a hash, if this process has read it."""
    return None if hash is None else next((one for one in [*_read.known.values()] if one.hash == hash), None)


def _found(tool: AnyTool) -> Code:
    if tool.block is not None and not is_adapted(tool.handler):
        where = "whose code stands in more than one place"
        return Code(None, reason=f"it runs the {tool.block.kind} {tool.block.name!r}, {where}")
    try:
        return _read(_source(module_of(tool.handler)))
    except NoSource as error:
        return Code(None, reason=str(error))
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else type(error).__name__
        return Code(None, reason=f"its files cannot be read: {told}")


def _hashed(source: Source) -> Code:
    covers = canonical(code_payload(files_of(source)))
    return Code(sha256(covers).hexdigest(), source.kind, source.name, source.version, covers=covers.decode())


# Memos over what does not change, or is read once on purpose: a process runs what it has imported.
_source: Final = _Once[Module, Source](source_of)
_read: Final = _Once[Source, Code](_hashed)
_TOOLS: Final[WeakKeyDictionary[AnyTool, Code]] = WeakKeyDictionary()
_COMPOSITIONS: Final[WeakSet[Composition]] = WeakSet()

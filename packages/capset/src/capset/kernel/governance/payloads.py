"""The payloads behind the hashes that records name, so that every hash on record resolves (spec 2, F36)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from capset.clock import iso
from capset.composition.compose import Composition
from capset.composition.statics import static_parts
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError
from capset.evaluation.code import code_of, read_code
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot.snapshot import Snapshot, covered_payloads
from capset.fingerprint.canonical import PROFILE, canonical
from capset.fingerprint.payloads import Payload
from capset.stores.base import PayloadKind, PayloadRow
from capset.stores.base.lineage import RENEWAL_SECONDS

if TYPE_CHECKING:
    from capset.kernel.runtime import KernelRuntime

_SNAPSHOTS: Final = 10_000
"""How many snapshots are remembered as stored."""
_HASHES: Final = 100_000
"""How many hashes are remembered as stored."""
_RENEWAL_NS: Final = RENEWAL_SECONDS * 1_000_000_000
_SnapshotKey = tuple[str | None, str, str, str, frozenset[str]]
_HashKey = tuple[str | None, str]
_Key = TypeVar("_Key")
_log = logging.getLogger("capset.kernel")


class PayloadKeeper:
    """Stores the payload of each hash once a day and process, in the background. Calls never wait for it.

    The records of a session's first calls may be written before its payloads. If the process dies in between, they are
    stored when the same is next opened.
    """

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._day = 0
        """The day that is remembered, in UTC: what was stored on another day is stored again."""
        self._snapshots = _RecentKeys[_SnapshotKey](_SNAPSHOTS)
        self._hashes = _RecentKeys[_HashKey](_HASHES)

    def keep(self, snapshot: Snapshot) -> None:
        """Store those payloads of a snapshot in the background that were not stored today."""
        now = self._runtime.clock.time_ns()
        if (day := now // _RENEWAL_NS) != self._day:
            self._day = day
            self._snapshots.clear()
            self._hashes.clear()
        if self._snapshots.add(_snapshot_key(snapshot)):
            self._runtime.spawn(self._store(snapshot, iso(now)))

    async def keep_definition(self, org: str | None, composition: Composition) -> None:
        """Store the payloads of a definition that an act names. Raises ``StoreError``."""
        rows = await _rows(org, [(part.hash, part.payload) for part in static_parts(composition)])
        await self._runtime.store.lineage.record_payloads(rows, named_at=iso(self._runtime.clock.time_ns()))

    async def _store(self, snapshot: Snapshot, now: str) -> None:
        org, added = snapshot.principal.org, list[_HashKey]()

        def is_new(payload_hash: str) -> bool:
            key = org, payload_hash
            if not self._hashes.add(key):
                return False
            added.append(key)
            return True

        try:
            await read_code(snapshot)
            payloads = [item for item in covered_payloads(snapshot).items() if is_new(item[0])]
            code = _code_rows(org, [installed.tool for installed in snapshot.installed.values()])
            rows = [*await _rows(org, payloads), *[row for row in code if is_new(row.hash)]]
            if rows:
                await self._runtime.store.lineage.record_payloads(rows, named_at=now)
        except BaseException as error:
            # The next session tries again. Others may have relied on these hashes, so they are checked again, too.
            self._hashes.remove(added)
            self._snapshots.clear()
            if not isinstance(error, Exception):
                raise
            unexpected = None if isinstance(error, CapsetError) else error
            name = snapshot.composition.block.name
            _log.warning("the payloads of the agent %r were not stored: %s", name, error, exc_info=unexpected)


class _RecentKeys(Generic[_Key]):
    """The keys that were added last. Beyond ``maximum``, the least recently used are forgotten."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._keys: OrderedDict[_Key, None] = OrderedDict()

    def add(self, key: _Key) -> bool:
        """Add or renew a key, and return whether it is new."""
        if key in self._keys:
            self._keys.move_to_end(key)
            return False
        self._keys[key] = None
        if len(self._keys) > self._maximum:
            self._keys.popitem(last=False)
        return True

    def remove(self, keys: Iterable[_Key]) -> None:
        """Forget some keys."""
        for key in keys:
            self._keys.pop(key, None)

    def clear(self) -> None:
        """Forget all keys."""
        self._keys.clear()


def _snapshot_key(snapshot: Snapshot) -> _SnapshotKey:
    """Return what determines the payloads of a snapshot. Tools that only it has may not be in its hashes."""
    own: frozenset[str] = frozenset()
    if snapshot.plan is not plan_of(snapshot.composition):
        own = frozenset([entry.ref.hash for entry in snapshot.plan.entries])
    return snapshot.principal.org, snapshot.static_hash, snapshot.runtime_hash, snapshot.prompt_hash, own


async def _rows(org: str | None, payloads: Iterable[tuple[str, Payload]]) -> list[PayloadRow]:
    rows: list[PayloadRow] = []
    for payload_hash, payload in payloads:
        kind = cast("PayloadKind", payload["kind"])
        rows.append(PayloadRow(org, payload_hash, PROFILE, kind, canonical(payload).decode()))
        await asyncio.sleep(0)  # let others run: an agent may have a thousand tools
    return rows


def _code_rows(org: str | None, tools: Iterable[AnyTool]) -> Iterator[PayloadRow]:
    """Yield the payloads of the code behind some tools, each once."""
    for code in {code.hash: code for code in map(code_of, tools)}.values():
        if code.hash is not None and code.covers is not None:
            yield PayloadRow(org, code.hash, PROFILE, "code", code.covers)

"""The payloads behind the hashes that records name, so that every hash on record resolves (spec 2, F36)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, cast

from capset.clock import iso
from capset.composition.compose import Composition
from capset.composition.statics import static_parts
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError
from capset.evaluation.code import code_of, read_code
from capset.evaluation.plan import plan_of
from capset.evaluation.snapshot.snapshot import Snapshot, covered_payloads
from capset.fingerprint.canonical import PROFILE, canonical
from capset.fingerprint.hashes import tool_hash
from capset.fingerprint.payloads import Payload
from capset.stores.base import PayloadKind, PayloadRow
from capset.stores.base.lineage import RENEWAL_SECONDS

if TYPE_CHECKING:
    from capset.kernel.runtime import KernelRuntime

_REMEMBERED: Final = 10_000
"""How many snapshots are remembered as stored."""
_Key = tuple[str | None, str, str, str, frozenset[str]]
_log = logging.getLogger("capset.kernel")


class PayloadKeeper:
    """Stores the payloads of snapshots, each once a day and process. Calls never wait for it, and write nothing."""

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._stored: dict[_Key, int] = {}
        """When the payloads of a snapshot were stored, in nanoseconds of the clock."""

    def keep(self, snapshot: Snapshot) -> None:
        """Store the payloads of a snapshot in the background, before the records that name their hashes."""
        key, now = _key(snapshot), self._runtime.clock.time_ns()
        stored_at = self._stored.get(key)
        # A clock that was set back counts as a day, too.
        if stored_at is not None and 0 <= now - stored_at < RENEWAL_SECONDS * 1_000_000_000:
            return
        self._stored.pop(key, None)
        if len(self._stored) >= _REMEMBERED:
            del self._stored[next(iter(self._stored))]
        self._stored[key] = now
        self._runtime.spawn(self._store(snapshot, key, iso(now)))

    async def keep_definition(self, org: str | None, composition: Composition) -> None:
        """Store the payloads of a definition that an act names. Raises ``StoreError``."""
        rows = await _rows(org, [(part.hash, part.payload) for part in static_parts(composition)])
        await self._runtime.store.lineage.record_payloads(rows, named_at=iso(self._runtime.clock.time_ns()))

    async def _store(self, snapshot: Snapshot, key: _Key, now: str) -> None:
        try:
            await read_code(snapshot)
            org, tools = snapshot.principal.org, [installed.tool for installed in snapshot.installed.values()]
            rows = [*await _rows(org, covered_payloads(snapshot).items()), *_code_rows(org, tools)]
            await self._runtime.store.lineage.record_payloads(rows, named_at=now)
        except CapsetError as error:
            self._stored.pop(key, None)  # the next session tries again
            _log.warning("the payloads of the agent %r were not stored: %s", snapshot.composition.block.name, error)


def _key(snapshot: Snapshot) -> _Key:
    """Return what determines the payloads of a snapshot. Tools that only it has may not be in its hashes."""
    own: frozenset[str] = frozenset()
    if snapshot.plan is not plan_of(snapshot.composition):
        own = frozenset([tool_hash(installed.tool) for installed in snapshot.installed.values()])
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

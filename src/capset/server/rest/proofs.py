"""Verification of the chain for callers: in parts, and of single records (spec 4, G21; spec 5, P52, P53)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from capset.errors import NotFound
from capset.fingerprint.checkpoints import Checkpoint, PublicKey
from capset.kernel.kernel import Kernel
from capset.stores.base import AuditQuery
from capset.wire.audit import ChainPartShape, CheckpointShape, LinkProofShape, RecordProofShape, record_data

SLICE: Final = 500
"""Number of links that are verified in one go; others come to their turn in between."""
FOLLOWED: Final = 2_000
"""Number of links from a record on among which a checkpoint over it is looked for: servers make one every 1,000."""

_HELD: Final = " holds what no record can hold: "


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the chain, as a cursor says it: the last verified link, and its hash."""

    PATTERN: ClassVar[str] = r"^\d{1,18}\.[0-9a-f]{64}$"

    seq: int
    hash: str

    @classmethod
    def of(cls, cursor: str) -> Self:
        """Return the place that a cursor stands for; it matches the pattern."""
        seq, _, digest = cursor.partition(".")
        return cls(int(seq), digest)

    def __str__(self) -> str:
        return f"{self.seq}.{self.hash}"


class AuditProofs:
    """Verification of one kernel's record. Signatures are checked of what the key of this server has signed."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._audit = kernel.audit

    async def part(self, org: str | None, cursor: str | None, limit: int) -> ChainPartShape:
        """Verify up to ``limit`` links from a place on, and return what was found, for a caller of this org."""
        own = await self._own_key()
        place = None if cursor is None else Place.of(cursor)
        checked, since, covered = 0, 0, None
        while True:
            part = await self._audit.verify_part(
                place and place.seq, place and place.hash, limit=min(SLICE, limit - checked), own=own
            )
            found, place = part.found, Place(part.last, part.hash)
            checked, since, covered = checked + found.checked, since or found.since, found.covered or covered
            if not found.ok or part.is_end or checked >= limit:
                break
            await asyncio.sleep(0)
        return ChainPartShape(
            ok=found.ok,
            checked=checked,
            last=part.last,
            since=since,
            problem=_told(org, part.found.problem),
            seq=found.seq,
            covered=covered,
            key=own and own.id,
            next=None if part.is_end or not found.ok else str(place),
        )

    async def record(self, org: str | None, id: str) -> RecordProofShape:
        """Return a record of this org by its id, with its place in the chain. Raises ``NotFound``."""
        page = await self._audit.query(AuditQuery(id=id, org=org or "", kind="all", limit=1))
        if not page.items:
            raise NotFound(f"there is no record {id!r}")
        record = page.items[0]
        own = await self._own_key()
        after, previous, checked = max(record.seq - 2, 0), None, 0
        mark: Checkpoint | None = None
        while True:
            part = await self._audit.verify_part(after, previous, limit=SLICE, own=own)
            after, previous, checked = part.last, part.hash, checked + part.found.checked
            mark = next((one for one in part.checkpoints if one.seq >= record.seq), None)
            if mark is not None or not part.found.ok or part.is_end or checked >= FOLLOWED:
                break
            await asyncio.sleep(0)
        chain = LinkProofShape(
            ok=part.found.ok,
            seq=record.seq,
            hash=record.hash,
            previous=record.previous,
            checked=checked,
            problem=_told(org, part.found.problem),
            at=part.found.seq,
            checkpoint=mark and _checkpoint(mark, own),
        )
        return RecordProofShape(record=record_data(record), chain=chain)

    async def _own_key(self) -> PublicKey | None:
        """Return the public half of the key that this server signs with; the database alone vouches for no key."""
        signer = await self._audit.signer()
        return signer if signer is not None and signer.id == self._kernel.signing.key else None


def _told(org: str | None, problem: str | None) -> str | None:
    """Return a problem of the chain; to a caller of an org, without the content that no record can hold."""
    if problem is None or org is None:
        return problem
    told, separator, _ = problem.partition(_HELD)
    return told + separator.removesuffix(": ")


def _checkpoint(mark: Checkpoint, own: PublicKey | None) -> CheckpointShape:
    is_own = own is not None and mark.key == own.id
    return CheckpointShape(number=mark.number, seq=mark.seq, time=mark.time, key=mark.key, vouched=is_own)

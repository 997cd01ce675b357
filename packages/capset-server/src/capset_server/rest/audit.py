"""``/v1/audit``: the records of the caller's organisation, and their proofs (spec 5, P12, P52–P54, P97, P98)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from fastapi import APIRouter, Query, Request, Response

from capset.clock import iso_of
from capset.definitions.calls.records import Outcome
from capset.definitions.governance.acts import ActName
from capset.definitions.governance.limits import format_window
from capset.errors import Conflict, InvalidArguments, NotFound
from capset.fingerprint.checkpoints import Checkpoint, PublicKey
from capset.kernel.governance.acts import ActEntry
from capset.kernel.kernel import Kernel
from capset.stores.base import AuditQuery
from capset.stores.base.audit import FILTERS, Kind
from capset.wire.audit import (
    ChainPartShape,
    CheckpointShape,
    LinkProofShape,
    LogKeyShape,
    RecordPageShape,
    RecordProofShape,
    SummaryShape,
    record_data,
    record_page_shape,
    summary_shape,
)
from capset.wire.chain_files import chain_pages, first_exported
from capset.wire.shapes import Moment
from capset_server.auth.callers import Caller
from capset_server.http.record_exports import MEDIA_TYPES, ExportFormat, ExportResponse, record_pages
from capset_server.rest.routing import (
    Administers,
    Asked,
    Audits,
    Id,
    Served,
    StrictRoute,
    check_operator,
    problems,
)
from capset_server.service import Service

SLICE: Final = 500
"""The number of links that are verified before other tasks get a turn."""
FOLLOWED: Final = 2_000
"""How many links after a record are searched for a checkpoint over it; servers make one every 1,000."""

_HELD: Final = " holds what no record can hold: "


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the chain, which a cursor encodes: the last verified link, and its hash."""

    PATTERN: ClassVar[str] = r"^\d{1,18}\.[0-9a-f]{64}$"

    seq: int
    hash: str

    @classmethod
    def of(cls, cursor: str) -> Self:
        """Decode a cursor, which must match ``PATTERN``."""
        seq, _, digest = cursor.partition(".")
        return cls(int(seq), digest)

    def __str__(self) -> str:
        return f"{self.seq}.{self.hash}"


class AuditProofs:
    """Verifies the audit log of one kernel. Only signatures by this server's own key are checked."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._audit = kernel.audit

    async def part(self, org: str | None, cursor: str | None, limit: int) -> ChainPartShape:
        """Verify up to ``limit`` links after ``cursor``, and return the result for a caller of ``org``."""
        own_key = await self._own_key()
        place = None if cursor is None else Place.of(cursor)
        checked, since, covered = 0, 0, None
        while True:
            part = await self._audit.verify_part(
                place and place.seq, place and place.hash, limit=min(SLICE, limit - checked), own_key=own_key
            )
            verification, place = part.verification, Place(part.last, part.hash)
            checked, since, covered = (
                checked + verification.checked,
                since or verification.since,
                verification.covered or covered,
            )
            if not verification.ok or part.is_end or checked >= limit:
                break
            await asyncio.sleep(0)
        return ChainPartShape(
            ok=verification.ok,
            checked=checked,
            last=part.last,
            since=since,
            problem=_told(org, part.verification.problem),
            seq=verification.seq,
            covered=covered,
            key=own_key and own_key.id,
            next=None if part.is_end or not verification.ok else str(place),
        )

    async def record(self, org: str | None, id: str) -> RecordProofShape:
        """Return a record of ``org`` by its id, with its place in the chain. Raises ``NotFound``."""
        page = await self._audit.query(AuditQuery(id=id, org=org or "", kind="all", limit=1))
        if not page.items:
            raise NotFound(f"there is no record {id!r}")
        record = page.items[0]
        own_key = await self._own_key()
        after, previous, checked = max(record.seq - 2, 0), None, 0
        mark: Checkpoint | None = None
        while True:
            part = await self._audit.verify_part(after, previous, limit=SLICE, own_key=own_key)
            after, previous, checked = part.last, part.hash, checked + part.verification.checked
            mark = next((checkpoint for checkpoint in part.checkpoints if checkpoint.seq >= record.seq), None)
            if mark is not None or not part.verification.ok or part.is_end or checked >= FOLLOWED:
                break
            await asyncio.sleep(0)
        chain = LinkProofShape(
            ok=part.verification.ok,
            seq=record.seq,
            hash=record.hash,
            previous=record.previous,
            checked=checked,
            problem=_told(org, part.verification.problem),
            at=part.verification.seq,
            checkpoint=mark and _checkpoint(mark, own_key),
        )
        return RecordProofShape(record=record_data(record), chain=chain)

    async def _own_key(self) -> PublicKey | None:
        """Return the public key of this server's signing key. A key that is only in the database is not trusted."""
        signer = await self._audit.signer()
        return signer if signer is not None and signer.id == self._kernel.signing.key else None


def _told(org: str | None, problem: str | None) -> str | None:
    """Return a problem of the chain. Callers of an organisation do not see the invalid content of a record."""
    if problem is None or org is None:
        return problem
    text, separator, _ = problem.partition(_HELD)
    return text + separator.removesuffix(": ")


def _checkpoint(mark: Checkpoint, own_key: PublicKey | None) -> CheckpointShape:
    is_own = own_key is not None and mark.key == own_key.id
    return CheckpointShape(number=mark.number, seq=mark.seq, time=mark.time, key=mark.key, vouched=is_own)


router = APIRouter(prefix="/audit", tags=["audit"], route_class=StrictRoute)
_Text = Annotated[str | None, Query(max_length=200)]
_BUCKETS: Final = {
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "1h": 3_600,
    "6h": 21_600,
    "1d": 86_400,
    "7d": 604_800,
    "30d": 2_592_000,
}
"""The lengths of buckets in seconds, by name."""
FEW_BUCKETS: Final = 100
"""The default bucket is the shortest one that results in at most this many buckets."""
MOST_BUCKETS: Final = 500
"""The maximum number of buckets in a summary."""
_DAY: Final = timedelta(days=1)


class RecordFilter(Asked):
    """Records that match all given filters."""

    id: _Text = None
    tool: _Text = None
    outcome: Outcome | None = None
    principal: Annotated[_Text, Query(description="Its id alone: `ada`, not `user:ada`")] = None
    session: _Text = None
    correlation: _Text = None
    agent: _Text = None
    approval: _Text = None
    code: _Text = None
    act: ActName | None = None
    kind: Kind | None = None
    text: Annotated[_Text, Query(description="Part of the name of a tool, act or agent, or of a principal's id")] = None
    since: Moment = None
    until: Moment = None


class AuditFilter(RecordFilter):
    """Records that match all given filters. ``limit`` is 1–200, and ``cursor`` the ``next`` of the previous page."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(pattern="^[1-9][0-9]{0,17}$")] = None


class ExportFilter(RecordFilter):
    """Records that match all given filters. ``format`` defaults to what ``Accept`` prefers, or else NDJSON."""

    format: ExportFormat | None = None


class ChainFilter(Asked):
    """Where the exported part of the chain begins: at a position, at a time, or by default with the first record."""

    first: Annotated[int | None, Query(ge=1, le=2**53)] = None
    since: Moment = None


class SummaryFilter(Asked):
    """Calls that match all given filters, by default of the last day. ``bucket`` is the length of the time buckets."""

    tool: _Text = None
    agent: _Text = None
    principal: Annotated[_Text, Query(description="Its id alone: `ada`, not `user:ada`")] = None
    outcome: Outcome | None = None
    session: _Text = None
    since: Moment = None
    until: Moment = None
    bucket: Literal["1m", "5m", "15m", "1h", "6h", "1d", "7d", "30d"] | None = None


class VerifyFilter(Asked):
    """Where to continue (``cursor`` is the ``next`` of the previous part), and how many links to check."""

    cursor: Annotated[str | None, Query(pattern=Place.PATTERN)] = None
    limit: Annotated[int, Query(ge=1, le=10_000)] = 5_000


@router.get("", responses=problems(422), operation_id="list_records")
async def list_records(service: Served, caller: Audits, params: Annotated[AuditFilter, Query()]) -> RecordPageShape:
    """List the records of calls by all principals of the organisation, newest first.

    With ``kind=act`` or the name of an ``act``, list acts of administration; with ``kind=all``, both. A ``text`` is
    searched in the newest 10,000 records before the cursor: such a page may have few records, or none, and a next one.
    Each request is recorded as an act ``log.read``.
    """
    query = _query(caller, params, limit=params.limit, before=int(params.cursor) if params.cursor else None)
    audit = service.kernel.audit
    await audit.flush()  # a call already reported to a client must be readable
    page = await record_page_shape(audit, query)
    await audit.commit(_read_act(service, caller, "query", params))
    return page


@router.get("/summary", responses=problems(422), operation_id="summarize_records")
async def summarize_records(service: Served, caller: Audits, params: Annotated[SummaryFilter, Query()]) -> SummaryShape:
    """Count the outcomes and latencies of calls: in total, by time, and by tool.

    At most the newest 6,000 matches are counted, among the organisation's newest 20,000 records in that time. No record
    is shown, and no act is recorded.
    """
    until = _whole_second(params.until or datetime.fromisoformat(service.kernel.now()), up=True)
    since = _whole_second(params.since or shifted(until, -_DAY))
    bucket = _bucket(since, until, params.bucket)
    names = ("tool", "agent", "principal", "outcome", "session")
    query = AuditQuery(
        **{name: getattr(params, name) for name in names},
        org=caller.principal.org or "",
        since=iso_of(since),
        until=iso_of(until),
    )
    audit = service.kernel.audit
    await audit.flush()
    measured = await audit.measure(query)
    ends = {"since": int(since.timestamp()), "until": int(until.timestamp())}
    counts_pending = query.outcome == "pending"
    # It takes some milliseconds.
    return await asyncio.to_thread(summary_shape, measured, **ends, bucket=bucket, counts_pending=counts_pending)


def _whole_second(time: datetime, *, up: bool = False) -> datetime:
    inside = datetime.fromisoformat(iso_of(time))
    floor = inside.replace(microsecond=0)
    return shifted(floor, timedelta(seconds=1)) if up and inside.microsecond else floor


def shifted(time: datetime, by: timedelta) -> datetime:
    """Return a time shifted by a difference, or unchanged if the result would be out of range."""
    try:
        return time + by
    except OverflowError:
        return time


def _bucket(since: datetime, until: datetime, named: str | None) -> int:
    """Return the length of buckets in seconds. Raises ``InvalidArguments`` if there would be none, or too many."""
    if since >= until:
        raise InvalidArguments("Invalid request: since must be before until")
    seconds = (until - since).total_seconds()
    fitting = [
        length for length in _BUCKETS.values() if seconds / length <= (FEW_BUCKETS if named is None else MOST_BUCKETS)
    ]
    bucket = _BUCKETS[named] if named is not None else min(fitting, default=_BUCKETS["30d"])
    if seconds / bucket > MOST_BUCKETS:
        more = f"; {format_window(min(fitting))} would do" if fitting else ""
        raise InvalidArguments(f"Invalid request: a summary has at most {MOST_BUCKETS} buckets{more}")
    return bucket


@router.get("/verify", responses=problems(422), operation_id="verify_records")
async def verify_records(service: Served, caller: Audits, params: Annotated[VerifyFilter, Query()]) -> ChainPartShape:
    """Verify the next part of the chain: its hashes, and that it agrees with the checkpoints over it.

    All organisations of a database share one chain, so all of it is verified. Begin without a ``cursor``, and continue
    with ``next`` until there is none. No record is shown, and no act is recorded.
    """
    await service.kernel.audit.flush()
    return await AuditProofs(service.kernel).part(caller.principal.org, params.cursor, params.limit)


@router.get(
    "/export",
    operation_id="export_records",
    response_class=Response,
    responses={
        **problems(422),
        200: {
            "description": "Every matching record, newest first, one per line",
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            },
        },
    },
)
async def export_records(
    service: Served, caller: Audits, params: Annotated[ExportFilter, Query()], request: Request
) -> Response:
    """Export every matching record, newest first, with all columns as they are hashed.

    The format is NDJSON or CSV. In CSV, texts that a spreadsheet would read as a formula begin with an apostrophe. If
    the export fails midway, the connection is closed without the end of the body. The request is recorded as one act
    ``log.read``.
    """
    audit = service.kernel.audit
    await audit.flush()
    await audit.commit(_read_act(service, caller, "export", params))
    export_format = params.format or ("csv" if _prefers_csv(request.headers.get("accept", "")) else "ndjson")
    pages = record_pages(audit, _query(caller, params, limit=1), export_format)
    media_type, file_name = MEDIA_TYPES[export_format], f"records.{export_format}"
    return ExportResponse(service, caller, _authorization(request), pages, media_type, file_name)


def _authorization(request: Request) -> str:
    return request.headers.get("authorization", "")


def _prefers_csv(accept: str) -> bool:
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return "text/csv" in kinds and "application/x-ndjson" not in kinds


@router.get(
    "/chain",
    operation_id="export_chain",
    response_class=Response,
    responses={
        **problems(404, 409, 422),
        200: {
            "description": "The records in chain order, then the checkpoints over them, one per line",
            # As text: generators of clients leave out what is only NDJSON, and the file is for ``capset audit verify``.
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def export_chain(
    service: Served, caller: Administers, params: Annotated[ChainFilter, Query()], request: Request
) -> Response:
    """Export the chain, for verification with ``capset audit verify FILE``. Only for operators, who are of none.

    All organisations of a database share one chain. Its records, with intents, come in order, with all columns as they
    are hashed, then the checkpoints over them. The last line is a new checkpoint, over the last record of the file. If
    the export fails midway, the connection is closed without the end of the body. The request is recorded as an act
    ``log.read``, which the export contains. A server that does not sign answers 409.
    """
    check_operator(caller, "export the chain, which has the records of all organisations")
    kernel = service.kernel
    if kernel.signing.key is None:
        raise Conflict(f"the log is not signed here: {kernel.signing.reason}")
    await kernel.audit.commit(_read_act(service, caller, "chain", params))
    end = await kernel.checkpoint()
    since = params.since and iso_of(params.since)
    start = await first_exported(kernel.audit, first=params.first, since=since)
    pages = chain_pages(kernel.audit, start, end)
    return ExportResponse(service, caller, _authorization(request), pages, "text/plain; charset=utf-8", "chain.ndjson")


@router.get("/key", responses=problems(404, 422), operation_id="get_log_key")
async def get_log_key(service: Served, _: Audits) -> LogKeyShape:
    """Return the public key that signs the log. It comes from the server that it vouches for: compare its id.

    No record is shown, and no act is recorded.
    """
    key = await service.kernel.audit.signer()
    if key is None:
        raise NotFound("the log has no checkpoint key")
    return LogKeyShape(id=key.id, public=key.pem())


@router.get("/{id}", responses=problems(404, 422), operation_id="get_record")
async def get_record(service: Served, caller: Audits, id: Id) -> RecordProofShape:
    """Return a record in full, with its place in the chain, verified up to the first checkpoint that covers it.

    The request is recorded as an act ``log.read``.
    """
    audit = service.kernel.audit
    await audit.flush()
    proof = await AuditProofs(service.kernel).record(caller.principal.org, id)
    about = {"by": "record", "id": id}
    await audit.commit(service.kernel.act("log.read", about, by=caller.principal, org=caller.principal.org))
    return proof


def _query(caller: Caller, params: RecordFilter, *, limit: int, before: int | None = None) -> AuditQuery:
    return AuditQuery(
        **{name: getattr(params, name) for name in FILTERS},
        limit=limit,
        before=before,
        org=caller.principal.org or "",
        kind=params.kind,
        text=params.text,
        since=params.since and iso_of(params.since),
        until=params.until and iso_of(params.until),
    )


def _read_act(service: Service, caller: Caller, by: str, params: Asked) -> ActEntry:
    """Return the act for a request for records. If it cannot be stored, no records are shown."""
    about: dict[str, Any] = {"by": by, **params.model_dump(mode="json", exclude_none=True)}
    return service.kernel.act("log.read", about, by=caller.principal, org=caller.principal.org)

"""Records on the wire."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final, get_type_hints

from pydantic import Field, TypeAdapter, create_model

from capset.clock import iso_of
from capset.definitions.calls.records import COLUMNS, Record
from capset.errors import StoreError
from capset.fingerprint.chain import Verification
from capset.stores.base import AuditLog, AuditQuery, Measured, MeasuredCall
from capset.wire.pages import read_page
from capset.wire.shapes import PageShape, Shape

_EARLIEST: Final = int(datetime.min.replace(tzinfo=UTC).timestamp())


@cache
def record_shape() -> type[Shape]:
    """Return the shape of ``record_data``, for documentation only: other versions may have written other records."""
    described = TypeAdapter(Record).json_schema()["properties"]
    types = get_type_hints(Record) | {"arguments": Any, "policies": list[str]}
    columns: dict[str, Any] = {
        name: (types[name], Field(description=described[name]["description"])) for name in COLUMNS
    }
    return create_model("RecordShape", __base__=Shape, __doc__="One link of the chain of records.", **columns)


class AuditPageShape(Shape):
    """A page of records, and the ``before`` of the next page, if any."""

    items: list[dict[str, Any]]
    next: int | None = None


class RecordPageShape(PageShape[dict[str, Any]]):
    """A page of records, and the cursor of the next page, if any."""


class VerificationShape(Shape):
    """The result of a verification: whether the chain is valid, how many links are, and the first invalid one.

    ``since`` is the first record of the log, if earlier ones were pruned. ``covered`` is the last record covered by a
    signed checkpoint, if a key was given. ``keys`` are the ids of the keys that the caller gave or has pinned. Unless
    the log is ``vouched`` for by one of them, or by a checkpoint stored elsewhere, it is only consistent in itself.
    """

    ok: bool
    checked: int
    problem: str | None = None
    seq: int | None = None
    since: int | None = None
    covered: int | None = None
    keys: tuple[str, ...] | None = None
    vouched: bool | None = None


class ChainPartShape(Shape):
    """One part of a verification: the number of links checked, the last of them, and the cursor of the ``next`` part.

    Without ``next``, the end of the chain was reached, or a problem was found. ``problem`` is about the link ``seq``,
    the first invalid one. ``since`` is the first link of this part. ``covered`` is the last link in it that is covered
    by a checkpoint signed with this server's ``key``; it is absent without such a checkpoint, or if the server does not
    sign.
    """

    ok: bool
    checked: int
    last: int
    since: int
    problem: str | None = None
    seq: int | None = None
    covered: int | None = None
    key: str | None = None
    next: str | None = None


class CheckpointShape(Shape):
    """A signed statement about the log. ``vouched`` says whether this server's key signed it."""

    number: int
    seq: int
    time: str
    key: str
    vouched: bool


class LinkProofShape(Shape):
    """The position of a record in the chain, and the result of verifying it.

    The check covers the record's link, its connection to the previous link, and the following links up to the first
    ``checkpoint`` that covers the record; without one, up to the end of the log or a limit. ``checked`` is the number
    of links. ``problem`` is about the link ``at``.
    """

    ok: bool
    seq: int
    hash: str
    previous: str
    checked: int
    problem: str | None = None
    at: int | None = None
    checkpoint: CheckpointShape | None = None


class RecordProofShape(Shape):
    """A complete record, and its position in the chain."""

    record: dict[str, Any]
    chain: LinkProofShape


class LatencyShape(Shape):
    """The 50th, 95th and 99th percentiles of call durations in microseconds. Calls without one do not count."""

    p50_us: int | None = None
    p95_us: int | None = None
    p99_us: int | None = None


class CallCountsShape(LatencyShape):
    """The number of calls, also by decision and by outcome, and their latency."""

    calls: int
    decisions: dict[str, int]
    outcomes: dict[str, int]


class BucketShape(CallCountsShape):
    """The calls of one interval, which begins at ``start``."""

    start: str


class ToolCountsShape(CallCountsShape):
    """The calls of one tool."""

    tool: str


class AgentCountsShape(CallCountsShape):
    """The calls through one agent."""

    agent: str


class PrincipalCountsShape(CallCountsShape):
    """The calls of one principal, by its id."""

    principal: str


class SummaryShape(CallCountsShape):
    """How calls ended between two times: in total, for each bucket, and for the ten busiest tools, agents, principals.

    Only a limited number of the newest calls is counted. ``is_partial`` says whether older ones were left out, and
    ``covered_from`` is the time from which on all calls are counted.
    """

    since: str
    until: str
    covered_from: str
    is_partial: bool
    bucket_seconds: int
    buckets: list[BucketShape]
    tools: list[ToolCountsShape]
    agents: list[AgentCountsShape]
    principals: list[PrincipalCountsShape]


class PrunedShape(Shape):
    """The number of pruned records, and the first one that is left or will be written."""

    removed: int
    since: int


class ExportShape(Shape):
    """The numbers of exported records and of the checkpoints over them, and the first and last positions."""

    records: int
    checkpoints: int
    first: int | None = None
    last: int | None = None


class LogKeyShape(Shape):
    """The public key that signs a log, as PEM text, and its id."""

    id: str
    public: str


class KeyPairShape(Shape):
    """A key pair: its id, and the files of the private and the public key."""

    id: str
    private: str
    public: str


class PinShape(Shape):
    """A new pin: the id of the key, the last record that is pinned with it, and the file of the pins."""

    key: str
    seq: int | None = None
    pins: str


class SuccessionShape(Shape):
    """The ids of a key and of its predecessor, and whether the predecessor signed the succession."""

    key: str
    before: str
    signed: bool


async def audit_page_shape(log: AuditLog, query: AuditQuery) -> AuditPageShape:
    """Return the wire shape of a page of records. One that was searched for a text may have few, and a next page."""
    items, next_cursor = await read_page(log.query, query, record_data, attrgetter("seq"))
    return AuditPageShape(items=items, next=next_cursor)


async def record_page_shape(log: AuditLog, query: AuditQuery) -> RecordPageShape:
    """Return the wire shape of a page of records, in the REST API's paging format."""
    page = await audit_page_shape(log, query)
    return RecordPageShape(items=page.items, next=str(page.next) if page.next else None)


def summary_shape(
    measured: Measured, *, since: int, until: int, bucket: int, counts_pending: bool = False
) -> SummaryShape:
    """Return the wire shape of a summary of calls. Times are Unix time in seconds; ``bucket`` is in seconds, too.

    A call that waits for an approval or an answer is counted when it has been made again, unless ``counts_pending``.
    """
    calls = [call for call in measured.calls if counts_pending or call.outcome != "pending"]
    covered = since if measured.since is None else max(since, _seconds(measured.since))
    starts = range(covered // bucket * bucket, until, bucket)
    by_bucket: dict[int, list[MeasuredCall]] = {start: [] for start in starts}
    for call in calls:
        by_bucket.setdefault(_seconds(call.time) // bucket * bucket, []).append(call)
    return SummaryShape(
        since=iso_of_seconds(since),
        until=iso_of_seconds(until),
        covered_from=measured.since or iso_of_seconds(since),
        is_partial=measured.since is not None,
        bucket_seconds=bucket,
        buckets=[BucketShape(start=iso_of_seconds(start), **_counts(by_bucket[start])) for start in sorted(by_bucket)],
        tools=[ToolCountsShape(tool=tool, **counts) for tool, counts in _busiest(calls, "tool")],
        agents=[AgentCountsShape(agent=agent, **counts) for agent, counts in _busiest(calls, "agent")],
        principals=[PrincipalCountsShape(principal=name, **counts) for name, counts in _busiest(calls, "principal")],
        **_counts(calls),
    )


def _busiest(calls: Sequence[MeasuredCall], name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the ten most frequent values of a member, with the counts of their calls."""
    groups: dict[str, list[MeasuredCall]] = {}
    of = attrgetter(name)
    for call in calls:
        groups.setdefault(of(call), []).append(call)
    busiest = sorted(groups, key=lambda value: (-len(groups[value]), value))[:10]
    return [(value, _counts(groups[value])) for value in busiest]


def _counts(calls: Sequence[MeasuredCall]) -> dict[str, Any]:  # the members of CallCountsShape
    times = sorted(call.duration_us for call in calls if call.duration_us is not None)
    ranks = {f"p{percent}_us": times[-(-len(times) * percent // 100) - 1] for percent in (50, 95, 99) if times}
    decisions = Counter(call.decision or "none" for call in calls)
    outcomes = Counter(call.outcome or "none" for call in calls)
    return {"calls": len(calls), "decisions": dict(decisions), "outcomes": dict(outcomes), **ranks}


@lru_cache(4096)
def _minute(time: str) -> int:
    return int(datetime.fromisoformat(f"{time}:00+00:00").timestamp())


def _seconds(time: str) -> int:
    """Return a record's time as Unix time in seconds. Minutes are cached, since a summary reads thousands of times."""
    return _minute(time[:16]) + int(time[17:19])


def iso_of_seconds(seconds: int) -> str:
    """Return Unix time in seconds in the format of records; times before the year 1 become its beginning."""
    return iso_of(datetime.fromtimestamp(max(seconds, _EARLIEST), UTC))


def record_data(record: Record) -> dict[str, Any]:
    """Return a record as plain JSON data, with its arguments and policies as JSON instead of text.

    Raises ``StoreError`` if they are not JSON: the record was altered.
    """
    return asdict(record) | {name: _parsed(record, name) for name in ("arguments", "policies")}


def _parsed(record: Record, name: str) -> Any:  # JSON of every type
    try:
        return json.loads(getattr(record, name))
    except (ValueError, TypeError, RecursionError):
        raise StoreError(
            f"record {record.seq} was changed: its {name} are not JSON", hint="capset audit verify says more"
        ) from None


def verification_shape(
    verification: Verification, keys: Sequence[str] = (), *, is_vouched: bool | None = None
) -> VerificationShape:
    """Return the wire shape of a verification. ``keys`` are the ids of the keys that were used."""
    return VerificationShape(
        ok=verification.ok,
        checked=verification.checked,
        problem=verification.problem,
        seq=verification.seq,
        since=verification.since if verification.since > 1 else None,
        covered=verification.covered,
        keys=tuple(keys) or None,
        vouched=is_vouched,
    )

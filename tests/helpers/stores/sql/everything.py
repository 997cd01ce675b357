"""Every method of every port of a store, once or more: what the tests of upgrades and of indexes listen to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.usage import AgentUsage, UsageLimit
from capset.fingerprint.checkpoints import CheckpointKey
from capset.stores.base import (
    AgentQuery,
    AgentRow,
    ApprovalQuery,
    AuditQuery,
    CapabilityRow,
    DeliveryQuery,
    DocumentRow,
    KeyQuery,
    KeyRow,
    LinkQuery,
    ModelUser,
    NewEvent,
    NewMessage,
    PayloadRow,
    PersonQuery,
    RegistrationRow,
    ReplyRow,
    RunQuery,
    ScheduleQuery,
    ScopeKey,
    SessionQuery,
    SessionRow,
    StepClaim,
    Store,
    TurnRow,
    UsageQuery,
    UsageWindow,
    VersionQuery,
    Window,
    WorkerRow,
)
from capset.stores.sql.blobs import PART_BYTES
from capset_testing.store_suite.delivery_checks import PERSON, delivery_row
from capset_testing.store_suite.lineage_checks import envelope_row, link_row
from capset_testing.store_suite.run_checks import run_row
from capset_testing.store_suite.schedule_checks import schedule_row
from capset_testing.store_suite.support import LATER, NOW, entry, intent

Filters = tuple[dict[str, Any], ...]
"""Fields of queries, some together."""

ORG: Final = "acme"
SESSION: Final = SessionRow("s", "scribe", "{}", "1" * 64, "ada", "user", ORG, NOW, "agent-1", 1)
AGENT: Final = AgentRow(
    id="agent-1",
    org=ORG,
    name="scribe",
    description="Keeps notes.",
    system_prompt="Keep tidy notes.",
    instructions=("Be brief.",),
    capabilities=(CapabilityRow("b"), CapabilityRow("a", config={"limit": 5})),
    tags=("x",),
    status="active",
    version=1,
    static_hash="1" * 64,
    created_at=NOW,
    updated_at=NOW,
)
KEY: Final = KeyRow("key-1", "laptop", "0" * 64, ORG, "ada", "user", ("a:b",), ("capset:read",), NOW, None)
APPROVAL: Final = ApprovalRow(
    id="approval-1",
    call="call-1",
    org=ORG,
    session="s",
    agent="scribe",
    principal="user:ada",
    on_behalf_of=None,
    tool="save",
    tool_hash="2" * 64,
    runtime_hash="3" * 64,
    arguments="{}",
    digest="4" * 64,
    reason="because",
    policies="[]",
    created_at=NOW,
    expires_at=LATER,
)
LARGE: Final = bytes(PART_BYTES + 1)
NOTES: Final = ScopeKey("session", ORG, "s", "notes")
TEXTS: Final = ScopeKey("session", ORG, "s", "texts")
USAGE: Final = UsageWindow("s/window", None)
STEP: Final = StepClaim("step-1", ((UsageLimit(per="session", steps=9), USAGE),), AgentUsage(steps=1, tokens=9))


async def write_everything(store: Store) -> None:
    """Write, change and delete by every port, on an empty store."""
    await store.agents.create(AGENT)
    await store.agents.replace(replace(AGENT, version=2, capabilities=(CapabilityRow("c"),)))
    await store.sessions.create(SESSION)
    door = replace(SESSION, id="d", door="door-1")
    await store.sessions.upsert(door)
    await store.sessions.upsert(replace(door, agent_version=2))
    await store.sessions.move(replace(SESSION, agent_version=2), expected=1)
    turn = TurnRow("s", "turn-1", "here", LATER, "{}")
    await store.events.begin(turn, NewEvent("turn.started", "{}"), now=NOW, interrupted=NewEvent("turn.failed", "{}"))
    messages = [NewMessage("message", "{}"), NewMessage("summary", "{}"), NewMessage("message", "{}")]
    await store.events.append(turn, [], now=NOW, then=turn, messages=messages)
    await store.events.take(turn, turn)
    await store.events.append(turn, [NewEvent("turn.ended", "{}")], now=NOW, then=None)
    await store.events.copy("s", "d", to=1)
    await store.events.rewind("s", to=2)
    await store.keys.create(KEY)
    await store.keys.revoke("key-1", LATER)
    await store.approvals.open(
        APPROVAL, max_pending=9, deliveries=[delivery_row("d-1"), delivery_row("d-2", channel="mail")]
    )
    await store.approvals.move(replace(APPROVAL, escalated_at=NOW), "pending", previous=APPROVAL)
    await store.approvals.move(replace(APPROVAL, status="approved", decided_by="user:eve", decided_at=NOW), "pending")
    (claimed,) = await store.deliveries.claim("ops", "one", now=NOW, until=LATER, limit=1)
    await store.deliveries.settle(replace(claimed, state="failed", error="503", receipt="{}", ended_at=NOW))
    await store.deliveries.retry(ORG, "d-1", now=LATER)
    await store.deliveries.sweep(before=NOW)
    await store.runs.add(run_row("r-1", session="d"), max_unfinished=9)
    begun = TurnRow("d", "r-1", "here", LATER, "{}")
    started = NewEvent("turn.started", "{}")
    await store.events.begin(begun, started, now=NOW, interrupted=NewEvent("turn.failed", "{}"), is_queued=True)
    await store.events.append(begun, [NewEvent("turn.suspended", "{}")], now=NOW, then=begun)
    await store.events.append(begun, [NewEvent("turn.ended", "{}")], now=NOW, then=None)
    await store.runs.add(run_row("r-2", session="d"))
    await store.runs.change(run_row("r-2", session="d"), run_row("r-2", session="d", due_at=None))
    schedule = schedule_row("s-1", session="d")
    await store.schedules.add(schedule, max_schedules=9)
    queued = run_row("r-3", session="d")
    await store.schedules.change(schedule, replace(schedule, next_at=LATER, problem="x"), run=queued)
    await store.schedules.add(schedule_row("s-2"))
    await store.schedules.remove("s-2")
    worker = WorkerRow("w-1", ("default",), NOW, LATER)
    await store.workers.renew(worker)
    await store.workers.take(worker, until=NOW)
    await store.workers.renew(replace(worker, id="w-2"))
    await store.workers.remove("w-2")
    await store.usage.reserve(STEP, 1)
    await store.usage.settle(STEP, AgentUsage(steps=1, tokens=7), 2)
    await store.usage.count(ModelUser(ORG, "scribe", "ada", "user"), AgentUsage(steps=1, tokens=7), 2)
    await store.people.add(PERSON)
    await store.people.add(replace(PERSON, id="p-2", user="U2"))
    await store.people.remove(ORG, "p-2")
    for request in ("r-1", "r-2"):
        await store.replies.reserve(ReplyRow("s", request, "5" * 64, NOW, org=ORG), expired=NOW)
    await store.replies.complete("s", "r-1", 200, "{}", record="call-1")
    await store.replies.release("s", "r-2")
    await store.files.write("s", "/a/b.txt", b"content", org=ORG, now=NOW)
    await store.files.write("s", "/a/b.txt", b"another", org=ORG, now=NOW)
    await store.files.write("s", "/c.txt", b"content", org=ORG, now=NOW)
    await store.files.delete("s", "/c.txt", recursive=False)
    await store.files.write("s", "/d/e.txt", b"moved", org=ORG, now=NOW)
    await store.files.move("s", "/d", "/f/g", overwrite=False, now=NOW)
    await store.files.move("s", "/f/g/e.txt", "/a/b.txt", overwrite=True, now=NOW)
    await store.files.write("s", "/large", LARGE, org=ORG, now=NOW)
    await store.states.change(NOTES, lambda _: "1", now=NOW)
    await store.states.change(NOTES, lambda _: "2", now=NOW)
    await store.documents.add(TEXTS, DocumentRow("t-1", "Two words", NOW))
    await store.documents.add(TEXTS, DocumentRow("t-2", "Other words", NOW), known={"t-1"})
    await store.documents.delete(TEXTS, "t-2")
    await store.lineage.register(RegistrationRow("reg-1", ORG, "agent-1", "scribe", "1" * 64, "jcs-1", NOW))
    payload = PayloadRow(ORG, "6" * 64, "jcs-1", "tool", "{}")
    await store.lineage.record_turn(link_row("l-1", session="s"), envelope_row("e-1", "l-1"), payloads=[payload])
    await store.lineage.record_turn(link_row("l-2", session="s", runtime="b"), reason="other tools")
    await store.lineage.record_payloads([payload], named_at=LATER)
    await store.audit.commit(intent("call-1", org=ORG, session="s"))
    await store.audit.commit(entry("call-1", org=ORG, session="s", approval="approval-1", code="x"))
    await store.audit.commit(entry("call-2", org=ORG))
    await store.audit.digest_key()
    await store.audit.checkpoint(CheckpointKey.generate(), now=NOW)
    await store.sessions.delete("d")


@dataclass(frozen=True)
class Names:
    """What is asked for."""

    org: str = ORG
    agent_id: str = "agent-1"
    agent: str = "scribe"
    session: str = "s"
    principal: str = "ada"
    tool: str = "save_note"
    time: str = NOW
    link: str = "l-1"


async def read_everything(store: Store, names: Names = Names(), *, before: str = "zzzz") -> None:
    """Ask every question of every list and every detail, with each filter of each; no page is the first."""
    org, agent_id, session, principal = names.org, names.agent_id, names.session, names.principal
    notes, texts = replace(NOTES, owner=session, org=org), replace(TEXTS, owner=session, org=org)
    await store.agents.get(org, agent_id)
    filter_sets: Filters = (
        {},
        {"status": "active"},
        {"name": names.agent},
        {"text": "a"},
        {"capabilities": ("a", "b")},
        {"has_servers": True},
    )
    await store.agents.version(org, agent_id, 2)
    await store.agents.versions(VersionQuery(org, agent_id, before=3))
    await store.agents.by_hash(org, "0" * 64)
    for filters in filter_sets:
        await store.agents.list(AgentQuery(org, limit=50, before=before, **filters))
    await store.sessions.get(session)
    await store.sessions.find("door-1")
    principal_filter = {"principal": principal, "principal_kind": "user"}
    filter_sets = (
        {},
        {"principal": principal},
        principal_filter,
        {"agent_id": agent_id},
        principal_filter | {"agent_id": agent_id},
        principal_filter | {"text": "a"},
    )
    for filters in filter_sets:
        await store.sessions.list(SessionQuery(org, limit=50, before=before, max_bytes=None, **filters))
    await store.events.read(session, after=1, limit=100)
    await store.events.event_span(session, "turn-1")
    await store.events.due(NOW)
    await store.events.messages(session, limit=100, max_bytes=1_000)
    await store.events.messages(session, after=None, limit=100)
    await store.keys.any()
    await store.keys.find("0" * 64)
    await store.keys.get("key-1")
    await store.keys.revoked(["0" * 64])
    for owner in (org, "", None):
        await store.keys.page(KeyQuery(owner, before=before))
    await store.keys.page(KeyQuery(org, principal=principal, before=before))
    await store.directory.principals(org, after=(principal, "agent"), limit=3)
    await store.directory.principals(org, after=(principal, "agent"), limit=3, text="a", max_searched=100)
    await store.directory.orgs(limit=3)
    await store.admissions.counts([Window("window", 9, 60)], 1)
    await store.admissions.spent([session])
    await store.usage.read([USAGE], 1)
    await store.usage.totals(UsageQuery(org, "2026-01-01T00", "2026-01-02T00", "scribe", principal))
    await store.approvals.get(org, "approval-1")
    filter_sets = (
        {},
        {"status": "pending"},
        {"session": session},
        {"status": "approved", "session": session, "tool_hash": "2" * 64, "digest": "4" * 64},
        {"tool": "save_note"},
        {"agent": "scribe"},
        {"principal": "user:user-1"},
        {"status": "used", "tool": "save_note", "agent": "scribe"},
        {"status": "pending", "oldest_first": True},
    )
    for filters in filter_sets:
        await store.approvals.list(ApprovalQuery(org, limit=50, before=before, **filters))
    await store.approvals.overdue(NOW)
    await store.approvals.escalating(NOW)
    await store.approvals.summary(org, (NOW, LATER))
    await store.runs.get("r-1")
    await store.runs.due("default", now=LATER)
    await store.runs.decided(["default", "mail"], now=LATER)
    of_runs: Filters = ({}, {"state": "queued"}, {"queue": "mail"})
    for start in (None, "zzzz"):
        for run_filters in of_runs:
            await store.runs.list(RunQuery(org, "ada", limit=50, before=start, **run_filters))
    of_org: Filters = (*of_runs, {"session": session}, {"agent": names.agent}, {"since": "r-1"})
    for run_filters in of_org:
        await store.runs.list(RunQuery(org, limit=50, before=before, **run_filters))
    await store.workers.list()
    await store.schedules.get("s-1")
    await store.schedules.due("default", now=LATER)
    for start in (None, "zzzz"):
        await store.schedules.list(ScheduleQuery(org, "ada", limit=50, before=start))
    await store.deliveries.claim("other", "one", now=NOW, until=LATER, limit=1)
    await store.deliveries.find("ops", "approval.requested d-1")
    await store.deliveries.get(org, "d-1")
    filter_sets = ({}, {"state": "failed"}, {"channel": "ops"}, {"approval": "r-1"})
    for filters in filter_sets:
        await store.deliveries.list(DeliveryQuery(org, limit=50, before=before, **filters))
    await store.people.find("T1", "U1")
    await store.people.get(org, "p-1")
    await store.people.list(PersonQuery(org, limit=50, before=before))
    await store.files.stat(session, "/a/b.txt")
    for recursive in (False, True):
        await store.files.list(session, "/a", recursive=recursive)
    await store.files.read(session, "/a/b.txt")
    await store.files.read(session, "/large")
    await store.files.digest(session, "/a/b.txt")
    await store.files.read_many(session, ["/a/b.txt", "/a/c.txt"])
    await store.states.read([notes, ScopeKey("user", org, principal, "notes")])
    await store.documents.get(texts, "t-1")
    await store.documents.recent(texts, limit=9, before=before)
    await store.documents.search(texts, "two wor", limit=9)
    await store.lineage.latest_registration(org, agent_id)
    await store.lineage.link(org, names.link)
    await store.lineage.latest_link(org, session)
    filter_sets = ({}, {"session": session}, {"agent_id": agent_id})
    for filters in filter_sets:
        await store.lineage.links(LinkQuery(org, limit=50, before=before, **filters))
    await store.lineage.sightings(org, "1" * 64, max_searched=100)
    await store.lineage.envelope(org, "e-1")
    await store.lineage.envelope_of(org, names.link)
    await store.lineage.transitions(org, session)
    await store.lineage.payload(org, "6" * 64)
    await read_records(store, names)


async def read_records(store: Store, names: Names) -> None:
    """Ask for records by each filter, alone and within an organisation, and by time."""
    time = names.time
    fields: dict[str, Any] = {
        "id": "call-1",
        "tool": names.tool,
        "outcome": "succeeded",
        "principal": names.principal,
        "session": names.session,
        "correlation": "correlation-1",
        "agent": names.agent,
        "approval": "approval-1",
        "code": "x",
    }
    alone_and_within: Filters = ({}, {"org": names.org})
    for of_org in alone_and_within:
        await store.audit.query(AuditQuery(before=10**9, **of_org))
        await store.audit.query(AuditQuery(since=time, **of_org))
        await store.audit.query(AuditQuery(text="a", before=10**9, kind="all", **of_org))
        await store.audit.query(AuditQuery(until=time, **of_org))
        for name, value in fields.items():
            await store.audit.query(AuditQuery(**of_org | {name: value}))
        await store.audit.measure(AuditQuery(since=time, until=time[:17] + "59.000000Z", **of_org))
    await store.audit.measure(AuditQuery(org=names.org, since=time, tool="none"), max_examined=300)
    await store.audit.verify_part(1, None, limit=100)
    await store.audit.span(since=time, until=time)
    await store.audit.span()
    await store.audit.read(after=1, limit=100)
    await store.audit.checkpoints()

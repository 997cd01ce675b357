"""The storage protocols of the kernel. ``capset.testing.store_suite`` checks an implementation."""

from __future__ import annotations

from capset.stores.base.admissions import (
    AdmissionStore,
    ApprovalTaken,
    Claim,
    Quota,
    QuotaSpent,
    Refused,
    Window,
    WindowFull,
)
from capset.stores.base.agents import (
    AGENT_FIELDS,
    AgentField,
    AgentPage,
    AgentQuery,
    AgentRow,
    AgentStatus,
    AgentStore,
    CapabilityRow,
    VersionPage,
    VersionQuery,
)
from capset.stores.base.approvals import STANDING, ApprovalPage, ApprovalQuery, ApprovalStore
from capset.stores.base.audit import AuditLog, AuditPage, AuditQuery, Entry, Pruned
from capset.stores.base.documents import DocumentRow, DocumentStore
from capset.stores.base.events import KEPT, Begun, EventPage, EventRow, EventStore, NewEvent, TurnRow
from capset.stores.base.files import FileStore
from capset.stores.base.keys import KeyRow, KeyStore
from capset.stores.base.lineage import (
    EnvelopeRow,
    LineageStore,
    LinkPage,
    LinkQuery,
    LinkRow,
    PayloadKind,
    PayloadRow,
    RegistrationRow,
    TransitionRow,
)
from capset.stores.base.replies import ReplyRow, ReplyStore
from capset.stores.base.sessions import MOVED, SessionPage, SessionQuery, SessionRow, SessionStore
from capset.stores.base.states import Change, ScopeKey, StateRow, StateStore, StoredScope
from capset.stores.base.store import GROUP, Store, make_store

__all__ = [
    "AGENT_FIELDS",
    "GROUP",
    "KEPT",
    "MOVED",
    "STANDING",
    "AdmissionStore",
    "AgentField",
    "AgentPage",
    "AgentQuery",
    "AgentRow",
    "AgentStatus",
    "AgentStore",
    "ApprovalPage",
    "ApprovalQuery",
    "ApprovalStore",
    "ApprovalTaken",
    "AuditLog",
    "AuditPage",
    "AuditQuery",
    "Begun",
    "CapabilityRow",
    "Change",
    "Claim",
    "DocumentRow",
    "DocumentStore",
    "Entry",
    "EnvelopeRow",
    "EventPage",
    "EventRow",
    "EventStore",
    "FileStore",
    "KeyRow",
    "KeyStore",
    "LineageStore",
    "LinkPage",
    "LinkQuery",
    "LinkRow",
    "NewEvent",
    "PayloadKind",
    "PayloadRow",
    "Pruned",
    "Quota",
    "QuotaSpent",
    "Refused",
    "RegistrationRow",
    "ReplyRow",
    "ReplyStore",
    "ScopeKey",
    "SessionPage",
    "SessionQuery",
    "SessionRow",
    "SessionStore",
    "StateRow",
    "StateStore",
    "Store",
    "StoredScope",
    "TransitionRow",
    "TurnRow",
    "VersionPage",
    "VersionQuery",
    "Window",
    "WindowFull",
    "make_store",
]

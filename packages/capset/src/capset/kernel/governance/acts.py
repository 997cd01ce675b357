"""Records of administrative acts: who did what to which object, from where (spec 4, G39)."""

from __future__ import annotations

import getpass
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypedDict

from typing_extensions import Unpack

from capset.clock import iso
from capset.definitions.calls.records import NULLABLE, Columns, Outcome
from capset.definitions.governance.acts import ActName
from capset.definitions.principals import Principal, PrincipalKind
from capset.fingerprint.canonical import PROFILE, canonical
from capset.ids import Ids, time_of
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES, Redactor, redacted, storable_text
from capset.schemas.plain_data import plain

_COMPARED: Final = ("id", "version", "sha256")
"""The members that are kept of an act that is too long: those that are compared with a stored row."""
LIBRARY: Final = "library"
"""The source of acts by the host's own code."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The principal behind acts, and the interface that it uses, such as ``rest 127.0.0.1`` or ``cli ada``."""

    id: str
    kind: PrincipalKind
    org: str | None
    source: str = LIBRARY
    on_behalf_of: str | None = None
    correlation: str | None = None


HOST: Final = Actor("host", "agent", None)
"""The actor of acts for which the host's own code names no principal."""
_actor: ContextVar[Actor | None] = ContextVar("capset_actor", default=None)


@contextmanager
def acting(actor: Actor) -> Generator[None]:
    """Attribute the acts within the ``with`` block to an actor. Interfaces call this once they know the caller."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def actor_of(principal: Principal | None) -> Actor:
    """Return the actor for a principal; without a principal, the interface's actor, or else the host's own code.

    If the interface acts for the same principal, its actor is returned, which also names the interface.
    """
    current = _actor.get()
    if principal is None:
        return current or HOST
    actor = Actor(principal.id, principal.kind, principal.org, on_behalf_of=principal.on_behalf_of)
    return (
        current
        if current is not None and (current.id, current.kind, current.org) == (actor.id, actor.kind, actor.org)
        else actor
    )


def os_source(interface: str) -> str:
    """Return the source of acts by a program on this machine: the interface and the user who runs it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    return f"{interface} {user}"


class ActColumns(TypedDict, total=False):
    """The columns that only some acts have."""

    org: str | None
    """The organisation that the act concerns, whose auditors may read the record."""
    session: str
    agent: str
    tool: str
    static_hash: str
    approval: str | None
    outcome: Outcome
    code: str | None
    reason: str | None


class ActEntry(NamedTuple):
    """The entry of one act, frozen before it is queued; ``about`` is the canonical JSON of what it concerns."""

    name: ActName
    id: str
    time: str
    actor: Actor
    about: str
    org: str | None = None
    session: str = ""
    agent: str = ""
    tool: str = ""
    static_hash: str = ""
    approval: str | None = None
    outcome: Outcome = "succeeded"
    code: str | None = None
    reason: str | None = None

    def columns(self) -> Columns:
        """Return the columns of the record; those that only calls have are null."""
        actor = self.actor
        return {
            **dict.fromkeys(NULLABLE),
            "id": self.id,
            "phase": "act",
            "time": self.time,
            "correlation": storable_text(actor.correlation) or self.id,
            "principal": storable_text(actor.id),
            "principal_kind": actor.kind,
            "org": storable_text(self.org),
            "session": self.session,
            "agent": storable_text(self.agent),
            "tool": storable_text(self.tool),
            "arguments": self.about,
            "arguments_digest": "",
            "policies": "[]",
            "reason": storable_text(self.reason),
            "outcome": self.outcome,
            "code": self.code,
            "static_hash": self.static_hash,
            "runtime_hash": "",
            "prompt_hash": "",
            "profile": PROFILE,
            "on_behalf_of": storable_text(actor.on_behalf_of),
            "approval": self.approval,
            "act": self.name,
            "source": storable_text(actor.source),
        }


def act_entry(
    ids: Ids,
    name: ActName,
    about: Mapping[str, Any],  # JSON: ids, and what was done; no secrets
    *,
    by: Actor,
    redact: Redactor | None = None,
    **columns: Unpack[ActColumns],
) -> ActEntry:
    """Return the entry of an act. ``columns`` are its other columns, such as the organisation."""
    mark = ids.mark()
    details = plain(dict(about))
    details = redacted(details if redact is None else redact(details))
    text = canonical(details)
    if len(text) > MAX_RECORDED_BYTES:
        short = {name: details[name] for name in _COMPARED if name in details}
        text = canonical({**short, "omitted": f"{len(text)} bytes"})
    return ActEntry(name, ids.text(mark), iso(time_of(mark)), by, text.decode(), **columns)

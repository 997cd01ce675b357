"""Administrative acts, by name: operations on a database other than calls (spec 4, G39)."""

from __future__ import annotations

from typing import Final, Literal, get_args

ActName = Literal[
    "key.create",
    "key.revoke",
    "agent.create",
    "agent.change",
    "agent.archive",
    "approval.approve",
    "approval.reject",
    "approval.escalate",
    "approval.show",
    "conversation.read",
    "run.read",
    "session.move",
    "session.rewind",
    "session.delete",
    "file.write",
    "file.delete",
    "config.reload",
    "database.restore",
    "log.read",
    "log.prune",
    "checkpoint_key.adopt",
    "checkpoint_key.succeed",
    "mcp.approve",
    "api.approve",
    "delivery.retry",
    "person.add",
    "person.remove",
    "schedule.create",
    "schedule.change",
    "schedule.delete",
    "credential.connect",
    "credential.disconnect",
    "delegation.create",
    "delegation.end",
]
"""The name of an act: its subject, and the operation on it."""
ACTS: Final[tuple[ActName, ...]] = get_args(ActName)
"""Every act; docs/guide/audit.md describes the content of their records."""

"""Administrative acts, by name: operations on a database other than calls (spec 4, G39)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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
]
"""The name of an act: its subject, and the operation on it."""

ACTS: Final[Mapping[ActName, str]] = MappingProxyType(
    {
        "key.create": "An API key was created: for whom, with which scopes and permissions, until when.",
        "key.revoke": "An API key was revoked.",
        "agent.create": "An agent was stored.",
        "agent.change": "An agent was changed or rolled back: from which version to which, and which fields.",
        "agent.archive": "An agent was archived: it takes no new sessions.",
        "approval.approve": "An approval request was approved: for which call, once or for the session; one act for "
        "each approval if several are needed.",
        "approval.reject": "An approval request was rejected.",
        "approval.escalate": "An approval request waited so long that others may approve it, too.",
        "approval.show": "The unmasked arguments of an approval request, or a file that they name, were shown to a "
        "possible approver.",
        "conversation.read": "The conversation before an approval request was read by a possible approver.",
        "session.move": "A session was moved to another version of its agent.",
        "session.rewind": "The conversation of a session was rewound to before one of its turns.",
        "session.delete": "A session was deleted, with its files and its state.",
        "file.write": "A file of a session was written over REST: its path, size and SHA-256.",
        "file.delete": "A file or a folder of a session was deleted over REST.",
        "config.reload": "A configuration file replaced the one that was served, or failed to.",
        "database.restore": "A backup was restored: its last record, and how many approvals and open requests ended.",
        "log.read": "The audit log was read: by which query, export or tail. One record per request.",
        "log.prune": "The oldest records were removed, up to a checkpoint.",
        "checkpoint_key.adopt": "The database adopted its first checkpoint key: the public half, and its id.",
        "checkpoint_key.succeed": "Another checkpoint key took over; signed by the previous one if that was available.",
        "mcp.approve": "Tools of an MCP server were approved as they are: their hashes, and those that were removed.",
        "api.approve": "Operations of an API were approved as documented: their hashes, and those that were removed.",
        "delivery.retry": "A failed delivery to a channel was queued again.",
        "person.add": "A chat user was added as a principal: from which workspace, and with which permissions.",
        "person.remove": "A chat user was removed, and can no longer decide requests.",
        "schedule.create": "A schedule was created: which runs it queues, and when.",
        "schedule.change": "A schedule was paused or resumed.",
        "schedule.delete": "A schedule was deleted; its runs stay.",
    }
)
"""Every act, with the content of its record."""

if missing := set(get_args(ActName)) ^ ACTS.keys():
    raise RuntimeError(f"acts in only one of ActName and ACTS: {missing}")

"""Administrative acts: what is done to a database beside calls, by name (spec 4, G39)."""

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
"""The name of an act: what it concerns, and what was done to that."""

ACTS: Final[Mapping[ActName, str]] = MappingProxyType(
    {
        "key.create": "An API key was made: for whom, with which scopes and permissions, until when.",
        "key.revoke": "An API key was revoked.",
        "agent.create": "An agent was stored.",
        "agent.change": "An agent was changed or rolled back: from which version to which, and which fields.",
        "agent.archive": "An agent was archived: it takes no new sessions.",
        "approval.approve": "A request for an approval was approved: for which call, once or for the session; one "
        "act for each approval, where several are needed.",
        "approval.reject": "A request for an approval was rejected.",
        "approval.escalate": "A request for an approval waited so long that others may approve it, too.",
        "approval.show": "The arguments of a request for an approval were shown unmasked, or a file that they name, to "
        "one who may decide it.",
        "conversation.read": "The conversation before a request for an approval was read by one who may decide it.",
        "session.move": "A session was moved to another version of its agent.",
        "session.rewind": "The conversation of a session was taken back to before one of its turns.",
        "session.delete": "A session was deleted, with its files and its state.",
        "file.write": "A file of a session was written over REST: its path, size and SHA-256.",
        "file.delete": "A file or a folder of a session was deleted over REST.",
        "config.reload": "A configuration file took the place of the one that was served, or failed to.",
        "database.restore": "A backup was restored: its last record, and how many approvals and open requests ended.",
        "log.read": "The audit log was read: by which query, export or tail. One record a request.",
        "log.prune": "The oldest records were cut off, up to a checkpoint.",
        "checkpoint_key.adopt": "The database took its first checkpoint key: the public half, and its id.",
        "checkpoint_key.succeed": "Another checkpoint key took over; signed by the one before, if that was at hand.",
        "mcp.approve": "Tools of an MCP server were approved as they are: their hashes, and those that are gone.",
        "api.approve": "Operations of an API were approved as documented: their hashes, and those that are gone.",
        "delivery.retry": "A delivery to a channel that had failed was queued again.",
        "person.add": "A user of a chat was entered as a principal: of which workspace, and with which permissions.",
        "person.remove": "A user of a chat was removed, and decides nothing any more.",
        "schedule.create": "A schedule was made: which runs it queues, and when.",
        "schedule.change": "A schedule was paused, or goes on.",
        "schedule.delete": "A schedule was deleted; its runs stay.",
    }
)
"""Every act, with what its record says."""

if missing := set(get_args(ActName)) ^ ACTS.keys():
    raise RuntimeError(f"these acts are listed once only: {missing}")

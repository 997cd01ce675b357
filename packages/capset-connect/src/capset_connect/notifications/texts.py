"""Texts of messages to people about events and requests; untrusted parts are legible, plain and bounded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from capset.definitions.governance.approvals import ApprovalStatus
from capset.definitions.governance.channels import EventName
from capset.kernel.governance.file_arguments import describe_file, files_of
from capset.wire.deliveries import notified_request
from capset_connect.legible_text import legible
from capset_connect.notifications.senders import Notice

SHOWN: Final = 2_500
"""The maximum number of characters of the arguments in a message."""
_LINE: Final = 300
_TITLES: Final[Mapping[EventName, str]] = MappingProxyType(
    {
        "approval.requested": "{tool} waits for an approval",
        "approval.escalated": "{tool} still waits for an approval",
        "approval.approved": "{tool} was approved",
        "approval.rejected": "{tool} was rejected",
        "approval.expired": "{tool} was not decided in time",
    }
)
_STATUS: Final[Mapping[ApprovalStatus, str]] = MappingProxyType(
    {
        "pending": "waits for an approval",
        "approved": "approved",
        "used": "approved, and called",
        "rejected": "rejected",
        "expired": "not decided in time",
    }
)


@dataclass(frozen=True, slots=True)
class Words:
    """The text of a notice: a title, facts by name, and the arguments.

    ``is_whole``: the arguments are shown completely, apart from those that the tool's schema declares secret.
    ``is_open``: the request can still be decided.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    arguments: str
    is_whole: bool
    is_open: bool


def words_of(notice: Notice) -> Words:
    """Return the text of a notice, with the current state of its request."""
    notified = notified_request(notice.request, notice.url)
    request = notified.request
    files = "".join(f"\n{describe_file(file)}" for file in files_of(notice.request))
    arguments = legible(json.dumps(request.arguments, indent=2, ensure_ascii=False) + files)
    is_long = len(arguments) > SHOWN
    asker = request.principal + (f" for {request.on_behalf_of}" if request.on_behalf_of else "")
    facts = {
        "Tool": request.tool,
        "Asked by": asker,
        "Organisation": notice.request.org or "",
        "Agent": request.agent,
        "Why": request.reason,
        "Asked at": request.created_at,
        "Expires at": request.expires_at if request.status == "pending" else "",
        "Status": _STATUS[request.status],
        "Decided by": request.decided_by or "",
        "Note": request.note or "",
    }
    return Words(
        title=_TITLES[notice.event].format(tool=line(request.tool)),
        facts=tuple((name, line(value)) for name, value in facts.items() if value),
        arguments=f"{arguments[:SHOWN]}…" if is_long else arguments,
        is_whole=not (notified.shortened or is_long or request.masked),
        is_open=request.status == "pending",
    )


def line(text: str) -> str:
    """Return untrusted text as one legible line, cut if it is long."""
    cleaned = legible(" ".join(text.split()))
    return cleaned if len(cleaned) <= _LINE else f"{cleaned[:_LINE]}…"

"""Notification channels, and the events of approval requests that each of them reports (spec 9, N20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, cast, get_args

from capset.definitions.fields import checked_field, store_checked
from capset.definitions.governance.approvals import ApprovalRow, ApprovalStatus
from capset.definitions.identity import FrozenValue
from capset.definitions.names import CHANNEL, checked_text, listed
from capset.errors import DefinitionError, unknown

EventName = Literal[
    "approval.requested", "approval.escalated", "approval.approved", "approval.rejected", "approval.expired"
]
"""The name of an event: what happened to a request."""

EVENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "approval.requested": "A call waits for its approval.",
        "approval.escalated": "A request has waited so long that others may decide it, too.",
        "approval.approved": "A request was approved.",
        "approval.rejected": "A request was rejected.",
        "approval.expired": "A request was not decided in time, or was withdrawn with the turn that waited for it.",
    }
)
"""Every event, with its meaning."""

if missing := set(get_args(EventName)) ^ EVENTS.keys():
    raise RuntimeError(f"events in only one of EventName and EVENTS: {missing}")

ENDINGS: Final[Mapping[ApprovalStatus, EventName]] = MappingProxyType(
    {"approved": "approval.approved", "rejected": "approval.rejected", "expired": "approval.expired"}
)
"""The event for each status that an open request can end with."""


def _name(field: str, name: str) -> str:
    if not isinstance(name, str) or not CHANNEL.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DefinitionError(f"the {field} of a channel must match {CHANNEL.pattern}; got {name!r:.80}")
    return name


def _events(field: str, events: Iterable[str]) -> tuple[EventName, ...]:
    names = listed(field, events)
    for event in names:
        if event not in EVENTS:
            raise DefinitionError(f"{field}: {unknown('event', str(event), EVENTS)}")
    return tuple(cast("EventName", event) for event in EVENTS if event in names or not names)


def _patterns(field: str, patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(checked_text(f"{field}: a pattern", pattern) for pattern in listed(field, patterns))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationChannel(FrozenValue):
    """A notification channel: its name, the events that it reports, and a filter for their requests.

    Each kind of channel, such as a webhook, is a subclass that adds how notifications are sent. Raises
    ``DefinitionError``, naming the channel and the field.
    """

    name: str = checked_field(_name)
    """Lower-case letters, digits, ``_`` and ``-``."""
    events: Iterable[EventName] = checked_field(_events, ())
    """The events; all if left out."""
    tools: Iterable[str] = checked_field(_patterns, ())
    """The tools whose requests it reports, with ``*`` for any characters; all if left out."""
    agents: Iterable[str] = checked_field(_patterns, ())
    """The agents whose requests it reports, likewise."""
    orgs: Iterable[str] = checked_field(_patterns, ())
    """The organisations whose requests it reports, likewise; ``""`` stands for requests without one."""

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"channel {self.name!r:.80}: {error.message}", hint=error.hint) from None

    def tells_of(self, event: EventName, request: ApprovalRow) -> bool:
        """Whether the channel reports an event of a request."""
        return event in self.events and all(
            _matches(patterns, value)
            for patterns, value in (
                (self.tools, request.tool),
                (self.agents, request.agent),
                (self.orgs, request.org or ""),
            )
        )


def _matches(patterns: Iterable[str], value: str) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for pattern in patterns)

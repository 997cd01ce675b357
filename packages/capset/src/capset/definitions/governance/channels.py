"""Notification channels, and the events of approval requests that each of them reports (spec 9, N20)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, get_args

from capset.definitions.fields import checked_field, store_checked
from capset.definitions.governance.approvals import ApprovalRow, ApprovalStatus
from capset.definitions.identity import FrozenValue
from capset.definitions.names import CHANNEL, checked_list, checked_text
from capset.errors import DefinitionError, unknown

EventName = Literal[
    "approval.requested", "approval.escalated", "approval.approved", "approval.rejected", "approval.expired"
]
"""The name of an event: what happened to a request. One that was withdrawn with its turn has expired."""

EVENT_BY_STATUS: Final[Mapping[ApprovalStatus, EventName]] = MappingProxyType(
    {"approved": "approval.approved", "rejected": "approval.rejected", "expired": "approval.expired"}
)
"""The event for each status that an open request can end with."""


def _checked_name(field: str, name: str) -> str:
    if not isinstance(name, str) or not CHANNEL.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DefinitionError(f"the {field} of a channel must match {CHANNEL.pattern}; got {name!r:.80}")
    return name


def _checked_events(field: str, events: Iterable[str]) -> tuple[EventName, ...]:
    names = checked_list(field, events)
    for event in names:
        if event not in get_args(EventName):
            raise DefinitionError(f"{field}: {unknown('event', str(event), get_args(EventName))}")
    return tuple(event for event in get_args(EventName) if event in names or not names)


def _checked_patterns(field: str, patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(checked_text(f"{field}: a pattern", pattern) for pattern in checked_list(field, patterns))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationChannel(FrozenValue):
    """A notification channel: its name, the events that it reports, and a filter for their requests.

    Each kind of channel, such as a webhook, is a subclass that adds how notifications are sent. Raises
    ``DefinitionError``, naming the channel and the field.
    """

    name: str = checked_field(_checked_name)
    """Lower-case letters, digits, ``_`` and ``-``."""
    events: Iterable[EventName] = checked_field(_checked_events, ())
    """The events; all if left out."""
    tools: Iterable[str] = checked_field(_checked_patterns, ())
    """The tools whose requests it reports, with ``*`` for any characters; all if left out."""
    agents: Iterable[str] = checked_field(_checked_patterns, ())
    """The agents whose requests it reports, likewise."""
    orgs: Iterable[str] = checked_field(_checked_patterns, ())
    """The organisations whose requests it reports, likewise; ``""`` stands for requests without one."""

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"channel {self.name!r:.80}: {error.message}", hint=error.hint) from None

    def reports(self, event: EventName, request: ApprovalRow) -> bool:
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

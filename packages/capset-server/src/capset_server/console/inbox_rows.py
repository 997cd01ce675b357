"""Rows of the inbox: equal requests share one, and arguments are shown whole if they are short."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from capset_server.console.markup import one_line

# REST returns JSON data, so functions that take parts of it take ``Any``.
_WHOLE: Final = 400
"""The maximum length of arguments, in characters of JSON, that a row shows whole."""
_SHOWN: Final = (
    *("tool", "tool_hash", "code_hash", "digest", "arguments", "modified", "masked", "round", "status", "agent"),
    *("principal", "on_behalf_of", "reason", "policies", "decidable", "refusal", "decided_by"),
)
"""The members that equal requests share: all that a row shows except times, and the code that a call would run."""
_NEEDED: Final = ("text", "approvals")
_GIVEN: Final = ("by", "on_behalf_of", "note", "scope")
"""The members that the needs and approvals of equal requests share: all but times."""
_ROUND_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class InboxRow:
    """Equal requests in the order of the list. ``arguments`` are those that would be approved."""

    requests: list[Any] = field(default_factory=list[Any])

    @property
    def request(self) -> Any:
        """The oldest of the requests, for which the row stands: a new equal one does not change it."""
        return min(self.requests, key=lambda request: request["id"])

    @property
    def arguments(self) -> Any:
        """The arguments that would be approved."""
        return present_arguments(self.request)

    @property
    def is_whole(self) -> bool:
        """Whether the row shows all that would be approved, so that it can be approved in the list."""
        request, arguments = self.request, self.arguments
        if not isinstance(arguments, dict):
            return False
        is_short = len(one_line(cast("dict[str, Any]", arguments))) <= _WHOLE
        return is_short and not request["masked"] and not request["files"]

    @property
    def selection(self) -> str:
        """The requests as a form sends them, with the round to approve if the row shows all of it."""
        is_whole = self.is_whole
        return " ".join(
            f"{request['id']}:{request['round']}" if is_whole else request["id"] for request in self.requests
        )


def rows_of(requests: Iterable[Any]) -> list[InboxRow]:
    """Return the rows of a list of requests, in its order."""
    rows: dict[str, InboxRow] = {}
    for request in requests:
        rows.setdefault(_key(request), InboxRow()).requests.append(request)
    return [*rows.values()]


def _key(request: Any) -> str:
    """Return what a request has in common with equal ones."""
    needs = request["needs"] and [request["needs"][name] for name in _NEEDED]
    approvals = [[approval[name] for name in _GIVEN] for approval in request["approvals"]]
    return json.dumps([needs, approvals, *(request[name] for name in _SHOWN)], sort_keys=True)


def present_arguments(request: Any) -> Any:
    """Return the arguments that would be approved: as requested, or as an approver has changed them."""
    return request["arguments"] if request["modified"] is None else request["modified"]


class Selected(NamedTuple):
    """A selected request, with the round that its row showed; ``None`` if the row showed only a part."""

    id: str
    round: int | None


def selected_requests(selection: Iterable[str]) -> list[Selected]:
    """Return the requests that a form of the list names."""
    pairs = (reference.partition(":") for text in selection for reference in text.split())
    return [Selected(name, round_in(shown)) for name, _, shown in pairs]


def round_in(text: str) -> int | None:
    """Return the round in a form's field, ``None`` if there is none."""
    is_round = text.isascii() and text.isdigit() and len(text) <= _ROUND_DIGITS
    return int(text) if is_round else None

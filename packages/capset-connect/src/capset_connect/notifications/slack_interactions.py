"""Interactions from Slack: signed requests, each of which reports one click (spec 9, N32)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

from pydantic_core import from_json

from capset.errors import InvalidArguments
from capset_connect.notifications.slack_messages import ACTIONS

_STAMP: Final = re.compile(r"[0-9]{1,15}")
_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}")
_ID: Final = re.compile(r"[A-Z0-9]{2,32}")
_MAX_REQUEST: Final = 200


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a button: the ids of workspace, user and conversation, the request, and the decision."""

    team: str
    user: str
    conversation: str
    request: str
    action: Literal["approve", "reject"]


class _Clock:
    """A clock for the library's signature check."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds


def is_signed(secret: str, stamp: str, signature: str, body: bytes, *, now: float) -> bool:
    """Return whether Slack signed a body with this secret within five minutes of ``now``, in seconds of Unix time.

    Malformed input counts as not signed: the library would raise errors for some of it.
    """
    from slack_sdk.signature import SignatureVerifier

    if not secret.strip() or not _STAMP.fullmatch(stamp) or not _SIGNATURE.fullmatch(signature):
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    clock = cast("Any", _Clock(now))  # the library declares its own class, not a protocol
    return SignatureVerifier(secret, clock).is_valid(body, stamp, signature)


def click_of(body: bytes) -> Click | None:
    """Return the click that a signed body reports, or ``None`` if it is not a click on one of our buttons.

    The workspace is that of the user, even if the conversation is shared with another workspace. Raises
    ``InvalidArguments`` for a malformed body.
    """
    try:
        fields = dict(parse_qsl(body.decode("ascii"), max_num_fields=2, strict_parsing=True, errors="strict"))
        payload = from_json(fields["payload"])
    except (ValueError, KeyError):
        raise InvalidArguments("Invalid request: an interaction must be a form with a JSON payload") from None
    if _member(payload, "type") != "block_actions":
        return None
    actions = _member(payload, "actions")
    if not isinstance(actions, list) or len(cast("list[Any]", actions)) != 1:
        return None
    (action,) = cast("list[Any]", actions)
    decides = ACTIONS.get(str(_member(action, "action_id")))
    request = _member(action, "value")
    if decides is None or not isinstance(request, str) or not 0 < len(request) <= _MAX_REQUEST:
        return None
    team = _member(payload, "user", "team_id") or _member(payload, "team", "id")
    return Click(
        _id(team), _id(_member(payload, "user", "id")), _id(_member(payload, "channel", "id")), request, decides
    )


def _member(value: object, *path: str) -> object:
    for name in path:
        value = cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None
    return value


def _id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidArguments(
            "Invalid request: an interaction must have the ids of its user, workspace and conversation"
        )
    return value

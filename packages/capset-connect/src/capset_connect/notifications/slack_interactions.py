"""Interactions from Slack: requests whose signature is checked, and the one click that each reports (spec 9, N32)."""

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
    """A click on a button: the user, by the ids of workspace and user, the request, and what it decides."""

    team: str
    user: str
    conversation: str
    request: str
    action: Literal["approve", "reject"]


class _Clock:
    """A clock as the library asks for it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return self._seconds


def is_signed(secret: str, stamp: str, signature: str, body: bytes, *, now: float) -> bool:
    """Return whether Slack signed a body with this secret within five minutes of ``now``, in seconds of Unix time.

    What is malformed is not signed: the library would raise errors for some of it.
    """
    from slack_sdk.signature import SignatureVerifier

    if not secret.strip() or not _STAMP.fullmatch(stamp) or not _SIGNATURE.fullmatch(signature):
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    clock = cast("Any", _Clock(now))  # the library's own class has one method, and no protocol
    return SignatureVerifier(secret, clock).is_valid(body, stamp, signature)


def click_of(body: bytes) -> Click | None:
    """Return the click that a signed body reports, or ``None`` for what is not a click on one of our buttons.

    The user's workspace is the user's own, also where a conversation is shared with another. Raises
    ``InvalidArguments`` for a body that cannot be read.
    """
    try:
        fields = dict(parse_qsl(body.decode("ascii"), max_num_fields=2, strict_parsing=True, errors="strict"))
        payload = from_json(fields["payload"])
    except (ValueError, KeyError):
        raise InvalidArguments("Invalid request: an interaction is a form with a payload of JSON") from None
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
        raise InvalidArguments("Invalid request: an interaction names its user, workspace and conversation by ids")
    return value

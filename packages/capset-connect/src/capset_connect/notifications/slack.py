"""Slack: a message for each request with buttons to decide it, updated once it is decided (spec 9, N31)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from capset.definitions.fields import checked_field
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.channels import EventName, NotificationChannel
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError
from capset.extras import install_command
from capset.kernel.governance.deliveries import delivery_key
from capset.net.client import HttpClient
from capset.stores.base import DeliveryStore
from capset_connect.notifications.senders import (
    SECONDS,
    DeliveryError,
    Notice,
    Sender,
    hosts_field,
    secret_in,
    secret_place,
    url_field,
)
from capset_connect.notifications.slack_messages import blocks_of, escaped
from capset_connect.notifications.texts import Words, words_of
from capset_connect.notifications.webhooks import check_status

API: Final = "https://slack.com/api/"
_TEAM: Final = re.compile(r"[A-Z0-9]{2,32}")
_CONVERSATION: Final = re.compile(r"[CDG][A-Z0-9]{2,31}")
_WITH_BUTTONS: Final[tuple[EventName, ...]] = ("approval.requested", "approval.escalated")
_ANSWER_BYTES: Final = 256 * 1024
_CODE: Final = re.compile(r"[a-z_]{1,60}")
_FINAL: Final = frozenset({"message_not_found", "cant_update_message"})
"""Error codes of an update that mean that the message can no longer be updated."""


def _team(field: str, value: object) -> str:
    if not isinstance(value, str) or not _TEAM.fullmatch(value):
        raise DefinitionError(f"{field} must be the id of a workspace, such as T0123ABCD; got {value!r:.80}")
    return value


def _conversation(field: str, value: object) -> str:
    if not isinstance(value, str) or not _CONVERSATION.fullmatch(value):
        raise DefinitionError(f"{field} must be the id of a conversation, such as C0123ABCD; got {value!r:.80}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack(NotificationChannel):
    """A Slack conversation: each request is a message there, with buttons for people whom administrators registered.

    It needs the extra ``slack``, and a Slack app with the scope ``chat:write`` that is a member of the conversation and
    has the server's path ``/slack/interactions`` as its request URL for interactions.
    """

    team: str = checked_field(_team)
    """The id of the workspace whose users may decide, such as ``T0123ABCD``."""
    conversation: str = checked_field(_conversation)
    """The id of the conversation in Slack, such as ``C0123ABCD``."""
    token: str = checked_field(secret_place())
    """The app's bot token: ``${NAME}``, which stands for a secret."""
    signing_secret: str = checked_field(secret_place())
    """The app's signing secret: ``${NAME}``, which stands for a secret."""
    api_url: str = checked_field(url_field, API)
    """The URL of Slack's Web API."""
    internal: Iterable[str] = checked_field(hosts_field, ())
    """The internal hosts that may be contacted, as ``host`` or ``host:port``; others are refused."""
    timeout: float = checked_field(SECONDS, 10.0)
    """Seconds that a request to Slack may take, at most 30."""

    def asks_about(self, request: ApprovalRow) -> bool:
        """Whether it posts messages with buttons about a request: it is notified of open requests."""
        return any(self.reports(event, request) for event in _WITH_BUTTONS)

    def sender(self, secrets: Secrets, deliveries: DeliveryStore) -> Sender:
        """Return the sender of this channel. Raises ``DefinitionError`` without the extra ``slack``."""
        check_extra(self.name)
        return _SlackSender(self, SlackApi(self, secrets), deliveries)


def check_extra(name: str) -> None:
    """Raise ``DefinitionError`` if the extra ``slack`` is missing."""
    if find_spec("slack_sdk") is None:
        raise DefinitionError(
            f"the channel {name!r} needs the extra 'slack' of capset, which is not installed",
            hint=install_command("slack"),
        )


class SlackApi:
    """The part of Slack's Web API that messages need, through the guarded client, with limits on size and time."""

    def __init__(self, channel: Slack, secrets: Secrets) -> None:
        self._channel = channel
        self._secrets = secrets
        self._http = HttpClient(allow=channel.internal)

    async def call(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:  # as Slack documents them
        """Call a method. Raises ``DeliveryError``, and ``ToolError`` if the host cannot be reached."""
        token = await secret_in(self._channel.token, self._secrets)
        opened = self._http.open(
            "POST",
            f"{self._channel.api_url.rstrip('/')}/{method}",
            timeout=self._channel.timeout,
            headers={"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"},
            content=to_json(dict(arguments)),
            redirects=None,
        )
        async with opened as response:
            check_status(response)
            body = await response.read(_ANSWER_BYTES)
        try:
            answer = from_json(body.data) if body.truncated_by is None else None
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise DeliveryError(f"Slack's response to {method} is not a JSON object")
        members = cast("dict[str, Any]", answer)
        if members.get("ok") is not True:
            code = str(members.get("error"))
            reason = code if _CODE.fullmatch(code) else "no valid error code"
            raise DeliveryError(f"Slack refused {method}: {reason}", is_final=code in _FINAL)
        return members

    async def tell(self, conversation: str, user: str, text: str) -> None:
        """Show a text in a conversation to one user only. Raises as ``call`` does."""
        await self.call("chat.postEphemeral", {"channel": conversation, "user": user, "text": escaped(text), **_PLAIN})


_PLAIN: Final = {"parse": "none", "link_names": False, "unfurl_links": False, "unfurl_media": False}


class _SlackSender:
    def __init__(self, channel: Slack, api: SlackApi, deliveries: DeliveryStore) -> None:
        self._channel = channel
        self._api = api
        self._deliveries = deliveries

    async def send(self, notice: Notice) -> str | None:
        words = words_of(notice)
        if notice.event == "approval.requested":
            return await self._post(notice, words)
        delivery = await self._deliveries.find(
            self._channel.name, delivery_key("approval.requested", notice.request.id)
        )
        if delivery is None or (delivery.state == "failed" and delivery.receipt is None):
            return await self._post(notice, words)
        if delivery.receipt is None:
            raise DeliveryError("the first message about the request is not sent yet")
        at = json.loads(delivery.receipt)
        await self._api.call("chat.update", {**at, **_message(notice, words)})
        return delivery.receipt

    async def _post(self, notice: Notice, words: Words) -> str:
        sent = await self._api.call(
            "chat.postMessage", {"channel": self._channel.conversation, **_message(notice, words), **_PLAIN}
        )
        conversation, stamp = sent.get("channel"), sent.get("ts")
        if not isinstance(conversation, str) or not isinstance(stamp, str):
            raise DeliveryError("Slack's response lacks the place of the message: channel and ts")
        return json.dumps({"channel": conversation[:32], "ts": stamp[:64]})


def _message(notice: Notice, words: Words) -> dict[str, Any]:  # as Slack documents it
    return {"text": escaped(words.title), "blocks": blocks_of(words, notice.request.id, notice.url)}

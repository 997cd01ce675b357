"""Channels as configuration files declare them (spec 9, N28)."""

from __future__ import annotations

from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import Field

from capset.definitions.governance.channels import EventName, NotificationChannel
from capset.errors import DefinitionError
from capset.wire.shapes import StrictShape
from capset_connect.notifications.email import Email
from capset_connect.notifications.slack import Slack
from capset_connect.notifications.webhooks import Webhook

KINDS: Final = MappingProxyType[str, type[NotificationChannel]]({"webhook": Webhook, "slack": Slack, "email": Email})
"""The class of each type of channel."""


class ChannelShape(StrictShape):
    """A channel that is told of requests for approvals. `${NAME}` is the place of the secret of that name."""

    type: Literal["webhook", "slack", "email"] = Field(description="What kind of channel it is.")
    events: list[EventName] | None = Field(None, min_length=1, description="The events; all, if left out.")
    tools: list[str] | None = Field(
        None,
        min_length=1,
        description="The tools whose requests it tells of, with `*` for any letters; all, if left out.",
    )
    agents: list[str] | None = Field(None, min_length=1, description="The agents whose requests it tells of, likewise.")
    orgs: list[str] | None = Field(
        None,
        min_length=1,
        description="The organisations whose requests it tells of, likewise; `''` is that of no name.",
    )
    url: str | None = Field(None, description="Of a webhook: where events are sent.")
    secret: str | None = Field(
        None, description="Of a webhook: the secret that signs, `${NAME}`; its value is `whsec_` and base64."
    )
    team: str | None = Field(
        None, description="Of Slack: the id of the workspace whose users may decide, such as `T0123ABCD`."
    )
    conversation: str | None = Field(
        None, description="Of Slack: the id of the conversation where requests are shown, such as `C0123ABCD`."
    )
    token: str | None = Field(None, description="Of Slack: the app's bot token, `${NAME}`.")
    signing_secret: str | None = Field(
        None, description="Of Slack: the secret by which Slack signs what comes from it, `${NAME}`."
    )
    api_url: str | None = Field(
        None, description="Of Slack: where its Web API is; `https://slack.com/api/`, if left out."
    )
    host: str | None = Field(None, description="Of e-mail: the mail server's name or address.")
    port: int | None = Field(
        None,
        ge=1,
        le=65_535,
        description="Of e-mail: the server's port; 587, or 465 with `implicit`, or 25 with `none`.",
    )
    tls: Literal["starttls", "implicit", "none"] | None = Field(
        None, description="Of e-mail: how it is encrypted; `starttls`, if left out."
    )
    certificates: str | None = Field(
        None, description="Of e-mail: the authorities to trust, as PEM text; those of the system, if left out."
    )
    username: str | None = Field(None, description="Of e-mail: the user to log in as, `${NAME}`; none, if left out.")
    password: str | None = Field(None, description="Of e-mail: that user's password, `${NAME}`.")
    from_address: str | None = Field(None, description="Of e-mail: the address that all of it comes from.")
    recipients: list[str] | None = Field(None, description="Of e-mail: the addresses that get it.")
    internal: list[str] | None = Field(
        None,
        description="Of a webhook and of Slack: internal hosts that its address may lead to, as `host` or `host:port`.",
    )
    timeout: float | None = Field(None, ge=1, le=30, description="Seconds that an attempt may take: 10, if left out.")


def channel_of(name: str, shape: ChannelShape) -> NotificationChannel:
    """Return a channel as a file declares it. Raises ``DefinitionError``."""
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    kind = KINDS[options.pop("type")]
    fields_by_name = {declared.name: declared for declared in fields(kind)}
    for field in options:
        if field not in fields_by_name:
            raise DefinitionError(f"channel {name!r}: {field} is no field of a {shape.type}")
    needed = [
        field_name
        for field_name, field in fields_by_name.items()
        if field_name not in (*options, "name") and field.default is MISSING
    ]
    if needed:
        raise DefinitionError(f"channel {name!r}: a {shape.type} needs {', '.join(needed)}")
    return kind(name=name, **options)

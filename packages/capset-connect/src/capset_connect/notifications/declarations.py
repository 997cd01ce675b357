"""Channels in configuration files (spec 9, N28)."""

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
    """A channel that is notified of requests for approval. `${NAME}` stands for the secret of that name."""

    type: Literal["webhook", "slack", "email"] = Field(description="The type of channel.")
    events: list[EventName] | None = Field(None, min_length=1, description="The events to send; all, if left out.")
    tools: list[str] | None = Field(
        None,
        min_length=1,
        description="The tools whose requests are sent, with `*` for any characters; all, if left out.",
    )
    agents: list[str] | None = Field(None, min_length=1, description="The agents whose requests are sent, likewise.")
    orgs: list[str] | None = Field(
        None,
        min_length=1,
        description="The organisations whose requests are sent, likewise; `''` stands for no organisation.",
    )
    url: str | None = Field(None, description="Webhook: the URL that events are sent to.")
    secret: str | None = Field(
        None, description="Webhook: the signing secret, `${NAME}`; its value is `whsec_` and base64."
    )
    team: str | None = Field(
        None, description="Slack: the id of the workspace whose users may decide, such as `T0123ABCD`."
    )
    conversation: str | None = Field(
        None, description="Slack: the id of the conversation where requests are shown, such as `C0123ABCD`."
    )
    token: str | None = Field(None, description="Slack: the app's bot token, `${NAME}`.")
    signing_secret: str | None = Field(None, description="Slack: the app's signing secret, `${NAME}`.")
    api_url: str | None = Field(
        None, description="Slack: the URL of its Web API; `https://slack.com/api/`, if left out."
    )
    host: str | None = Field(None, description="E-mail: the mail server's host name or address.")
    port: int | None = Field(
        None,
        ge=1,
        le=65_535,
        description="E-mail: the server's port; 587, or 465 with `implicit`, or 25 with `none`, if left out.",
    )
    tls: Literal["starttls", "implicit", "none"] | None = Field(
        None, description="E-mail: the encryption; `starttls`, if left out."
    )
    certificates: str | None = Field(
        None, description="E-mail: the certificate authorities to trust, as PEM text; the system's, if left out."
    )
    username: str | None = Field(None, description="E-mail: the user to log in as, `${NAME}`; no login, if left out.")
    password: str | None = Field(None, description="E-mail: that user's password, `${NAME}`.")
    from_address: str | None = Field(None, description="E-mail: the sender's address.")
    recipients: list[str] | None = Field(None, description="E-mail: the recipients' addresses.")
    internal: list[str] | None = Field(
        None,
        description="Webhook and Slack: internal hosts that may be contacted, as `host` or `host:port`.",
    )
    timeout: float | None = Field(
        None, ge=1, le=30, description="Seconds that an attempt may take: 10 if left out, 20 for e-mail."
    )


def channel_of(name: str, shape: ChannelShape) -> NotificationChannel:
    """Return the channel that a file declares. Raises ``DefinitionError``."""
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    kind = KINDS[options.pop("type")]
    fields_by_name = {declared.name: declared for declared in fields(kind)}
    for field in options:
        if field not in fields_by_name:
            raise DefinitionError(f"channel {name!r}: {field} is not a field of a {shape.type} channel")
    needed = [
        field_name
        for field_name, field in fields_by_name.items()
        if field_name not in (*options, "name") and field.default is MISSING
    ]
    if needed:
        raise DefinitionError(f"channel {name!r}: a {shape.type} needs {', '.join(needed)}")
    return kind(name=name, **options)

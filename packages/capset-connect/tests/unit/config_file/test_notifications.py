"""Channels in a configuration file: read, and refused with their lines (spec 9, N28)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset import Kernel
from capset.kernel.registry import Registry
from capset_connect.config_file import Configuration, InvalidConfiguration, read_configuration
from capset_connect.notifications import Email, Slack, Webhook

CHANNELS = """\
notifications:
  ops:
    type: webhook
    url: https://ops.example.org/hook
    secret: ${OPS_SECRET}
    internal: ["10.0.0.5:8080"]
    orgs: [""]
    timeout: 5
  chat:
    type: slack
    team: T0ACME
    conversation: C0CHAT
    token: ${SLACK_TOKEN}
    signing_secret: ${SLACK_SIGNING}
    tools: ["deploy_*"]
    agents: [clerk]
  mail:
    type: email
    host: mail.example.org
    port: 2525
    tls: none
    from_address: capset@example.org
    recipients: [ada@example.org]
    events: [approval.requested, approval.expired]
"""


def read(folder: Path, text: str) -> Configuration:
    (folder / "capset.yaml").write_text(text)
    return read_configuration(folder / "capset.yaml", Registry.of([]))


@pytest.mark.spec("N28", "N20")
async def test_a_file_declares_channels_of_each_type(tmp_path: Path) -> None:
    configuration = read(tmp_path, CHANNELS)
    assert configuration.channels == (
        Webhook(
            name="ops",
            url="https://ops.example.org/hook",
            secret="${OPS_SECRET}",
            internal=["10.0.0.5:8080"],
            orgs=[""],
            timeout=5,
        ),
        Slack(
            name="chat",
            team="T0ACME",
            conversation="C0CHAT",
            token="${SLACK_TOKEN}",
            signing_secret="${SLACK_SIGNING}",
            tools=["deploy_*"],
            agents=["clerk"],
        ),
        Email(
            name="mail",
            host="mail.example.org",
            port=2525,
            tls="none",
            from_address="capset@example.org",
            recipients=["ada@example.org"],
            events=["approval.requested", "approval.expired"],
        ),
    )
    async with Kernel("memory://", channels=configuration.channels) as kernel:
        assert [channel.name for channel in kernel.deliveries.channels] == ["ops", "chat", "mail"]


@pytest.mark.spec("N28", "N26")
@pytest.mark.parametrize(
    ("before", "after", "phrases"),
    [
        ("type: webhook", "type: pager", ("line 3", "notifications.ops.type")),
        ("    secret: ${OPS_SECRET}\n", "", ("line 2", "a webhook needs secret")),
        ("secret: ${OPS_SECRET}", "secret: whsec_hunter2", ("line 2", "secret must be ${NAME}")),
        ("secret: ${OPS_SECRET}", "secrte: x", ("line 5", "did you mean 'secret'?")),
        ("    timeout: 5", "    timeout: 5\n    recipients: [a@example.org]", ("recipients is not a field",)),
        ("timeout: 5", "timeout: 500", ("line 8", "notifications.ops.timeout")),
        ("team: T0ACME", "team: acme", ("line 9", "the id of a workspace")),
        ("    team: T0ACME\n", "", ("line 9", "a slack needs team")),
        ("conversation: C0CHAT", "conversation: approvals", ("line 9", "the id of a conversation")),
        ("[clerk]", "[]", ("line 16", "notifications.chat.agents")),
        ("approval.expired", "approval.exspired", ("notifications.mail.events.1",)),
        (
            "tls: none",
            "tls: none\n    username: ${A}\n    password: ${B}",
            ("line 17", "a password is sent over TLS only"),
        ),
        ("  mail:", "  Mail Box:", ("line 17", "must match")),
    ],
)
def test_problems_of_channels_have_their_lines(
    tmp_path: Path, before: str, after: str, phrases: tuple[str, ...]
) -> None:
    assert before in CHANNELS
    with pytest.raises(InvalidConfiguration) as caught:
        read(tmp_path, CHANNELS.replace(before, after))
    for words in phrases:
        assert words in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.spec("N28")
def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    broken = CHANNELS.replace("${OPS_SECRET}", "x").replace("C0CHAT", "x").replace("tls: none", "tls: maybe")
    with pytest.raises(InvalidConfiguration) as caught:
        read(tmp_path, broken)
    assert len(caught.value.problems) == 3


@pytest.mark.spec("N28")
def test_channels_hold_while_a_server_runs(tmp_path: Path) -> None:
    configuration, changed = (
        read(tmp_path, CHANNELS),
        read(tmp_path, CHANNELS.replace("ops.example.org", "other.example.org")),
    )
    assert configuration.lasting == read(tmp_path, CHANNELS).lasting
    assert configuration.lasting != changed.lasting

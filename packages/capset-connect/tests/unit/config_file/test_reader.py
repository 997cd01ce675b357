"""A configuration file in every format (spec 4, G8, G11, G27)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset import Kernel, Principal, Registry
from capset.definitions.calls.files import FileQuota
from capset.definitions.governance.limits import Limit
from capset.definitions.tools.retries import Retry
from capset.errors import DefinitionError, InvalidArguments, PermissionDenied
from capset.ext import CheckpointKey
from capset_connect.config_file import read_configuration
from tests.helpers.connect.config_file.support import CONFIGURATION, NOTIFY, REGISTRY, folder, read, refused

YAML = """\
name: helper
actions:
  - name: get-weather
    title: Get Weather
    description: Fetch weather data
    handler: ./handlers/weather.py
    parameters:
      location: {type: string, required: true}
    permissions: [weather:read]
    limits: 100/1h
  - name: send-notification
    title: Send Notification
    handler: ./handlers/notify.py
    parameters:
      message: {type: string, required: true}
      channel: {type: string, enum: [email, sms, push]}
    permissions: [notify:send]
governance: {default_permissions: [], require_auth: true, record_reads: true}
"""
TOML = """\
name = "helper"
[[actions]]
name = "get-weather"
title = "Get Weather"
description = "Fetch weather data"
handler = "./handlers/weather.py"
parameters.location = {type = "string", required = true}
permissions = ["weather:read"]
limits = {requests = 100, window = "1h"}
[[actions]]
name = "send-notification"
title = "Send Notification"
handler = "./handlers/notify.py"
permissions = ["notify:send"]
[actions.parameters]
message = {type = "string", required = true}
channel = {type = "string", enum = ["email", "sms", "push"]}
[governance]
require_auth = true
"""


@pytest.mark.spec("G27")
@pytest.mark.parametrize(
    ("name", "text"), [("a.json", CONFIGURATION), ("a.yaml", CONFIGURATION), ("a.yml", YAML), ("a.toml", TOML)]
)
async def test_every_form_says_the_same(name: str, text: str, tmp_path: Path) -> None:
    configuration = read(tmp_path, text, name)
    weather, notify = configuration.tools
    assert (weather.name, weather.title, weather.description) == ("get-weather", "Get Weather", "Fetch weather data")
    assert (notify.title, notify.description) == ("Send Notification", "Send Notification")
    assert (weather.permissions, weather.limits) == ({"weather:read"}, (Limit(100, "1h"),))
    assert (notify.effect, notify.limits) == ("write", ())
    assert configuration.governance.require_auth
    assert configuration.governance.record_reads
    assert configuration.governance.default_permissions == frozenset()
    principal = Principal("ada", permissions=["weather:read"])
    kernel = Kernel("memory://", governance=configuration.governance)
    async with kernel, kernel.open(configuration.agent, principal=principal) as session:
        assert await session.call(weather, location="Paris") == {"location": "Paris", "for": "ada"}
        with pytest.raises(PermissionDenied, match=r"^Permission denied"):
            await session.call(notify, message="x")
        with pytest.raises(InvalidArguments, match="location: required, but missing"):
            await session.call(weather)


@pytest.mark.spec("G27")
def test_the_agent_is_named_after_the_file_or_as_it_says(tmp_path: Path) -> None:
    assert read(tmp_path, "actions: []", "shop of ümlauts.yaml").agent.name == "shop of -mlauts"
    assert read(tmp_path, "actions: []", "ü.yaml").agent.name == "configuration"
    assert read(tmp_path, "name: clerk").agent.name == "clerk"


@pytest.mark.spec("G27")
def test_everything_that_an_action_can_say_is_kept(tmp_path: Path) -> None:
    text = """\
        actions:
          - name: send_notification
            description: Notify somebody.
            handler: ./handlers/notify.py:handler
            parameters: {type: object, properties: {message: {type: string, default: hi}}}
            returns: {type: object}
            permissions: []
            effect: external
            idempotent: true
            limits: [10/1m, {requests: 100, window: 1d, per: org}]
            timeout: 2.5
            retry: {max_attempts: 3, base: 0.5}
            approval: ask
    """
    (tool,) = read(tmp_path, text).tools
    assert (tool.effect, tool.idempotent, tool.timeout, tool.approval) == ("external", True, 2.5, "ask")
    assert tool.limits == (Limit(10, "1m"), Limit(100, "1d", per="org"))
    assert tool.retry == Retry(3, base=0.5)
    assert tool.output.json_schema == {"type": "object"}
    assert tool.arguments.check({}) == {"message": "hi"}


@pytest.mark.spec("G8", "G27")
def test_governance_roles_and_workspace(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    configuration = read(
        tmp_path,
        """\
        governance:
          default_permissions: [weather:read]
          record_reads: false
          redact: ["sk-[a-z]+"]
          result_bytes: 2048
          approval_seconds: 60
          own_approvals: true
          refusals: 10/1m
          file_bytes: 1000
          session_bytes: 2000
          session_files: 3
        roles: {reader: [weather:read], editor: [reader, notes:write]}
        workspace: ./data
        """,
    )
    governance = configuration.governance
    assert (governance.default_permissions, governance.record_reads, governance.redact) == (
        {"weather:read"},
        False,
        ("sk-[a-z]+",),
    )
    assert (governance.result_bytes, governance.approval_seconds, governance.own_approvals) == (2048, 60.0, True)
    assert governance.refusals == Limit(10, "1m", scope="process")
    assert governance.file_quota == FileQuota(1000, 2000, 3)
    assert governance.roles.expand("editor") == {"weather:read", "notes:write"}
    assert configuration.workspace == (tmp_path / "data").resolve()
    assert read(tmp_path, "governance: {refusals: null}").governance.refusals is None


@pytest.mark.spec("G23", "G27")
def test_record_reads_silences_reads_only_and_warns(tmp_path: Path) -> None:
    configuration = read(tmp_path, "governance: {record_reads: false, default_permissions: [a:b]}")
    assert not configuration.governance.record_reads
    warned = {warning.path: warning.message for warning in configuration.warnings}
    assert "only calls of tools that read are unrecorded" in warned["governance.record_reads"]
    assert "a:b" in warned["governance.default_permissions"]


@pytest.mark.spec("G28")
def test_what_may_not_be_meant_is_a_warning_with_its_line(tmp_path: Path) -> None:
    text = (
        "actions:\n- {name: a, title: A, permissions: [],\n   effect: external, handler: ./handlers/notify.py}\n"
        "- {name: b, title: B, permissions: [b:write], handler: ./handlers/notify.py}\n"
    )
    warned = [(warning.line, warning.path, warning.action) for warning in read(tmp_path, text).warnings]
    assert warned == [
        (1, "governance.require_auth", None),
        (2, "actions.0.permissions", "a"),
        (2, "actions.0.limits", "a"),
    ]
    mended = text.replace("permissions: []", "permissions: [a:write], limits: 1/1s")
    assert read(tmp_path, mended + "governance: {require_auth: true}\n").warnings == ()


@pytest.mark.spec("G27")
def test_a_file_that_is_read_again_has_its_handlers_anew(tmp_path: Path) -> None:
    before = read(tmp_path, CONFIGURATION, "a.json")
    reread = read(tmp_path, CONFIGURATION, "a.json")
    folder(tmp_path, {"handlers/notify.py": NOTIFY.replace("sent", "posted")})
    after = read_configuration(tmp_path / "a.json", REGISTRY)
    versions = [[tool.version for tool in configuration.tools] for configuration in (before, reread, after)]
    assert versions[0] == versions[1]
    assert (versions[0][0] == versions[2][0], versions[0][1] == versions[2][1]) == (True, False)
    texts = [configuration.tools[1].handler(message="x") for configuration in (before, after)]
    assert [sorted(text) for text in texts] == [["by", "sent"], ["by", "posted"]]


def test_an_agent_of_its_name_that_is_installed_is_in_the_way(tmp_path: Path) -> None:
    configuration = read(tmp_path, "name: clerk")
    within = configuration.within(REGISTRY)
    assert (within.get_agent("clerk"), list(within.capabilities)) == (configuration.agent, ["sums"])
    with pytest.raises(DefinitionError, match="two different agents named 'clerk'"):
        configuration.within(Registry.of([], [read(tmp_path, "name: clerk").agent]))


@pytest.mark.spec("G21", "G23", "G27")
async def test_audit_says_who_signs_and_how_long_records_are_kept(tmp_path: Path) -> None:
    key = CheckpointKey.generate()
    (tmp_path / "audit.pem").write_text(key.pem(), encoding="utf-8")
    configuration = read(tmp_path, "actions: []\naudit: {key: audit.pem, every: 1m, keep: 90d}\n")
    assert configuration.checkpoints is not None
    assert (configuration.checkpoints.key.public.id, configuration.checkpoints.every) == (key.public.id, 60)
    assert configuration.checkpoints.keep == 90 * 86_400
    async with Kernel(store="memory://", checkpoints=configuration.checkpoints) as kernel:
        async with kernel.open(configuration.agent, principal=Principal("ada")) as session:
            assert not (await session.try_message(session.message("nothing", {}))).success
        await kernel.audit.flush()
        signed = await kernel.audit.checkpoint(configuration.checkpoints.key, now=kernel.now())
        assert signed is not None
        assert (await kernel.audit.verify([key.public])).covered == 1


@pytest.mark.spec("G28")
@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        ("{key: nowhere.pem}", "there is no file 'nowhere.pem' to read; create it with capset audit keygen FILE"),
        ("{key: audit.pem, every: 5 minutes}", "match"),
        ("{every: 5m}", "required"),
        ("{key: public.pem}", "a private key was expected; this is a public one"),
    ],
)
def test_what_cannot_sign_is_a_problem_of_its_line(tmp_path: Path, audit: str, expected: str) -> None:
    key = CheckpointKey.generate()
    (tmp_path / "audit.pem").write_text(key.pem(), encoding="utf-8")
    (tmp_path / "public.pem").write_text(key.public.pem(), encoding="utf-8")
    problems = refused(tmp_path, f"actions: []\naudit: {audit}\n")
    assert any(expected in message for _, _, message in problems), problems

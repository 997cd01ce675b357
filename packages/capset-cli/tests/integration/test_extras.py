"""Commands without the extras that they need: each says which, and how to install it; with them, it works."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from capset.extras import install_command
from tests.helpers.cli import sparse
from tests.helpers.cli.support import clean_environment

POSTGRES = ("--db", "postgresql://127.0.0.1:9/nobody")
EMAIL = '{"to": "ada@example.com", "subject": "x", "body": "y"}'
MAILER = """
name: mailer
capabilities:
  - id: email
    config: {host: localhost, sender: me@example.com, recipients: ["@example.com"], tls: none, login: false}
"""
NEEDED = {
    "agent": [("run", "clerk.yaml", "A task"), ("chat", "clerk.yaml", "--model", "openai:gpt-5")],
    "email": [("call", "email_send", "--args", EMAIL, "--agent", "mailer.yaml", "--grant", "email:send")],
    "mcp": [
        ("mcp", "--agent", "clerk.yaml"),
        ("mcp", "serve", "--agent", "gateway.yaml"),
        ("mcp", "approve", "time", "--agent", "gateway.yaml"),
        ("mcp", "list", "--agent", "gateway.yaml"),
        ("mcp", "diff", "--agent", "gateway.yaml"),
        ("call", "time", "--agent", "gateway.yaml"),
    ],
    "postgres": [("audit", "query", *POSTGRES), ("call", "test_math.add", *POSTGRES), ("db", "check", *POSTGRES)],
    "sandbox": [
        ("call", "sandbox.execute_code", "--args", '{"language": "bash", "code": "ls"}', "--grant", "sandbox:execute")
    ],
    "server": [
        ("serve",),
        ("gateway", "gateway.yaml"),
        ("worker",),
        ("sessions", "list"),
        ("sessions", "create", "clerk.yaml"),
        ("serve", "--insecure", "--jwt-issuer", "https://example.com"),
    ],
    "web": [("call", "web_fetch.web_fetch", "--args", '{"url": "https://example.com"}', "--grant", "http:read")],
}
"""Commands that need an extra; each works without any other."""
PLAIN = [
    ("list",),
    ("describe", "web_fetch"),
    ("describe", "sandbox"),
    ("call", "test_math.add", "--args", '{"a": 1, "b": 2}'),
    ("compose", "clerk.yaml"),
    ("fingerprint", "clerk.yaml"),
    ("schema",),
    ("check", "gateway.yaml"),
    ("gateway", "import", "client.json"),
    ("kernel", "--agent", "clerk.yaml"),
    ("key", "create", "laptop", "--principal", "ada"),
    ("key", "list"),
    ("agents", "create", "clerk.yaml"),
    ("agents", "list"),
    ("approvals", "list"),
    ("audit", "query"),
    ("audit", "verify"),
    ("audit", "tail"),
    ("db", "check"),
]
"""Commands that need none."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "clerk.yaml").write_text("name: clerk\ncapabilities: [test_math]\n", encoding="utf-8")
    (tmp_path / "mailer.yaml").write_text(MAILER, encoding="utf-8")
    (tmp_path / "gateway.yaml").write_text('mcp_servers:\n  time: {command: ["true"]}\n', encoding="utf-8")
    (tmp_path / "client.json").write_text('{"mcpServers": {"a": {"command": "x"}}}', encoding="utf-8")
    return tmp_path


def ran(folder: Path, extras: str, commands: Iterable[Sequence[str]]) -> list[tuple[int, str]]:
    """Run commands with only these extras."""
    done = subprocess.run(
        [sys.executable, sparse.__file__, extras],
        cwd=folder,
        env=clean_environment(folder),
        input="".join(f"{json.dumps(command)}\n" for command in commands),
        text=True,
        capture_output=True,
        check=True,
        timeout=110,
    )
    return [(code, " ".join(output.split())) for code, output in map(json.loads, done.stdout.splitlines())]


@pytest.mark.realtime
def test_every_command_names_the_extra_that_it_needs(folder: Path) -> None:
    commands = [(extra, command) for extra, several in NEEDED.items() for command in several]
    for (extra, command), (code, output) in zip(
        commands, ran(folder, "", [words for _, words in commands]), strict=True
    ):
        assert f"needs the extra '{extra}'" in output, (command, output)
        assert install_command(extra) in output, (command, output)
        assert code in (1, 2), command


@pytest.mark.realtime
def test_commands_that_need_no_extra_work_without(folder: Path) -> None:
    for command, (code, output) in zip(PLAIN, ran(folder, "", PLAIN), strict=True):
        assert code == 0, (command, output)


@pytest.mark.nightly
@pytest.mark.parametrize("extra", ["mcp", "agent", "server"])
def test_with_its_extra_alone_nothing_is_missing(extra: str, folder: Path) -> None:
    commands = [command for command in NEEDED[extra] if command[:1] not in (("serve",), ("gateway",), ("worker",))]
    for command, (_, output) in zip(commands, ran(folder, extra, commands), strict=True):
        assert "extra" not in output, (command, output)
        assert "went wrong" not in output, (command, output)


@pytest.mark.nightly
def test_serve_serves_what_it_announces(folder: Path) -> None:
    command = [sys.executable, sparse.__file__, "server", "serve", "--insecure", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=clean_environment(folder), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            greeting = process.stderr.readline()
            assert "(console /, REST /v1, MCP /mcp; Ctrl-C ends it)" in greeting
            address = next(word for word in greeting.split() if word.startswith("http://"))
            for path, status in (("/v1/readyz", 200), ("/mcp/agents/nobody", 404)):
                assert _status(address + path) == status
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

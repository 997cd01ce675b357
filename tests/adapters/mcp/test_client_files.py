"""Files of other clients, with their MCP servers (spec 7, M7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset.adapters.mcp.client_files import read_client_file
from capset.adapters.mcp.server import McpServer
from capset.errors import DefinitionError


def servers(given: dict[str, Any], key: str = "mcpServers") -> dict[str, Any]:
    found = {name: dict(one) for name, one in read_client_file(json.dumps({key: given})).servers.items()}
    for name, one in found.items():
        McpServer(name=name, **one)  # such a server can be declared
    return found


@pytest.mark.spec("M7")
def test_a_process_has_its_words_and_what_it_needs_of_the_environment() -> None:
    given = {"files": {"command": "npx", "args": ["-y", "server-filesystem", "/data"], "env": {"DEBUG": "1"}}}
    assert servers(given) == {
        "files": {
            "command": ["npx", "-y", "server-filesystem", "/data"],
            "env": {"PATH": "${PATH}", "HOME": "${HOME}", "DEBUG": "1"},
        }
    }


@pytest.mark.spec("M7")
def test_secrets_that_stand_in_the_file_are_left_out_and_named() -> None:
    given = {
        "GitHub Tools": {"command": "server", "env": {"GITHUB_TOKEN": "ghp_abc"}},
        "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer abc", "X-Team": "a"}},
    }
    found = read_client_file(json.dumps({"mcpServers": given}))
    assert "abc" not in repr(found)
    assert found.servers["github-tools"]["env"]["GITHUB_TOKEN"] == "${GITHUB_TOKEN}"
    assert found.servers["web"]["headers"] == {"Authorization": "Bearer ${WEB_TOKEN}", "X-Team": "a"}
    assert found.secrets == ("GITHUB_TOKEN", "WEB_TOKEN")


@pytest.mark.spec("M7")
def test_secrets_in_arguments_urls_and_cookies_are_left_out_too() -> None:
    given = {
        "a": {
            "command": "x",
            "args": ["--api-key", "sk-1", "--name", "n", "--token=t-1"],
            "env": {"OPENAI_KEY": "sk-2"},
        },
        "b": {"url": "https://example.com/mcp?api_key=k-1&x=y", "headers": {"Cookie": "session=s-1; x=1"}},
        "c": {"command": "x", "env": {"GITHUB_PAT": "p-1", "MONKEY": "m"}},
    }
    found = read_client_file(json.dumps({"mcpServers": given}))
    assert not any(one in repr(found) for one in ("sk-1", "t-1", "sk-2", "k-1", "s-1", "p-1"))
    assert found.servers["a"]["command"] == [
        "x",
        "--api-key",
        "SECRET-LEFT-OUT",
        "--name",
        "n",
        "--token=SECRET-LEFT-OUT",
    ]
    assert found.servers["b"]["url"] == "https://example.com/mcp?api_key=SECRET-LEFT-OUT&x=y"
    assert found.servers["b"]["headers"] == {"Cookie": "${COOKIE}"}
    assert found.servers["c"]["env"]["MONKEY"] == "m"
    assert len(found.left_out) == 3


@pytest.mark.spec("M7")
@pytest.mark.parametrize("held", ["${input:api-key}", "${env:API_KEY}", "${API_KEY}"])
def test_places_that_a_client_fills_in_are_places_of_secrets(held: str) -> None:
    given = {"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": held}}}
    assert servers(given, "servers")["web"]["headers"] == {"X-Key": "${API_KEY}"}


@pytest.mark.spec("M7")
def test_what_a_configuration_has_not_is_said() -> None:
    given = {"web": {"serverUrl": "https://example.com/sse", "type": "sse", "disabled": True}}
    found = read_client_file(json.dumps({"mcpServers": given}))
    assert [one.partition(": ")[2].split(",")[0] for one in found.left_out] == ["the transport sse", "disabled"]


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "this is no JSON"),
        ("{}", "there are no MCP servers in this file"),
        ('{"mcpServers": {"a": []}}', "must be an object"),
        ('{"mcpServers": {"a": {}}}', "neither a url nor a command"),
    ],
)
def test_another_file_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        read_client_file(text)


def test_two_titles_of_one_name_are_two_servers() -> None:
    given = {"My Files": {"command": "a"}, "my files": {"command": "b"}, "1st": {"command": "c"}}
    assert list(servers(given)) == ["my-files", "my-files-2", "mcp-1st"]

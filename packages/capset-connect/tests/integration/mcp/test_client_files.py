"""Files of other clients, with their MCP servers (spec 7, M7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capset.errors import DefinitionError
from capset_connect.mcp.client_files import read_client_file
from capset_connect.mcp.server import McpServer


def servers(definitions: dict[str, Any], key: str = "mcpServers") -> dict[str, Any]:
    declared = {name: dict(shape) for name, shape in read_client_file(json.dumps({key: definitions})).servers.items()}
    for name, definition in declared.items():
        McpServer(name=name, **definition)  # such a server can be declared
    return declared


@pytest.mark.spec("M7")
def test_a_process_has_its_words_and_what_it_needs_of_the_environment() -> None:
    definitions = {"files": {"command": "npx", "args": ["-y", "server-filesystem", "/data"], "env": {"DEBUG": "1"}}}
    assert servers(definitions) == {
        "files": {
            "command": ["npx", "-y", "server-filesystem", "/data"],
            "env": {"PATH": "${PATH}", "HOME": "${HOME}", "DEBUG": "1"},
        }
    }


@pytest.mark.spec("M7")
def test_secrets_that_stand_in_the_file_are_left_out_and_named() -> None:
    definitions = {
        "GitHub Tools": {"command": "server", "env": {"GITHUB_TOKEN": "ghp_abc"}},
        "web": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer abc", "X-Team": "a"}},
    }
    client_file = read_client_file(json.dumps({"mcpServers": definitions}))
    assert "abc" not in repr(client_file)
    assert client_file.servers["github-tools"]["env"]["GITHUB_TOKEN"] == "${GITHUB_TOKEN}"
    assert client_file.servers["web"]["headers"] == {"Authorization": "Bearer ${WEB_TOKEN}", "X-Team": "a"}
    assert client_file.secrets == ("GITHUB_TOKEN", "WEB_TOKEN")


@pytest.mark.spec("M7")
def test_secrets_in_arguments_urls_and_cookies_are_left_out_too() -> None:
    definitions = {
        "a": {
            "command": "x",
            "args": ["--api-key", "sk-1", "--name", "n", "--token=t-1"],
            "env": {"OPENAI_KEY": "sk-2"},
        },
        "b": {"url": "https://example.com/mcp?api_key=k-1&x=y", "headers": {"Cookie": "session=s-1; x=1"}},
        "c": {"command": "x", "env": {"GITHUB_PAT": "p-1", "MONKEY": "m"}},
    }
    client_file = read_client_file(json.dumps({"mcpServers": definitions}))
    assert not any(secret in repr(client_file) for secret in ("sk-1", "t-1", "sk-2", "k-1", "s-1", "p-1"))
    assert client_file.servers["a"]["command"] == [
        "x",
        "--api-key",
        "SECRET-LEFT-OUT",
        "--name",
        "n",
        "--token=SECRET-LEFT-OUT",
    ]
    assert client_file.servers["b"]["url"] == "https://example.com/mcp?api_key=SECRET-LEFT-OUT&x=y"
    assert client_file.servers["b"]["headers"] == {"Cookie": "${COOKIE}"}
    assert client_file.servers["c"]["env"]["MONKEY"] == "m"
    assert len(client_file.left_out) == 3


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("argument", "masked"),
    [
        ("Authorization: Bearer s-1", "Authorization: SECRET-LEFT-OUT"),
        ("GITHUB_TOKEN=s-1", "GITHUB_TOKEN=SECRET-LEFT-OUT"),
        ("--env=API_KEY=s-1==", "--env=API_KEY=SECRET-LEFT-OUT"),
        ("--token=s-1==", "--token=SECRET-LEFT-OUT"),
        ("Bearer s-1", "SECRET-LEFT-OUT"),
        ("postgresql://me:s-1@db/sales", "postgresql://SECRET-LEFT-OUT@db/sales"),
        ("https://example.com/mcp?sig=s-1&x=y", "https://example.com/mcp?sig=SECRET-LEFT-OUT&x=y"),
    ],
)
def test_secrets_are_left_out_in_whichever_way_an_argument_has_them(argument: str, masked: str) -> None:
    client_file = read_client_file(json.dumps({"mcpServers": {"a": {"command": "x", "args": [argument, "last"]}}}))
    assert client_file.servers["a"]["command"] == ["x", masked, "last"]
    assert len(client_file.left_out) == 1
    assert "looks like a secret" in client_file.left_out[0]


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    "argument", ["GITHUB_TOKEN", "Authorization:${AUTH_HEADER}", "--max-tokens=5", "/a:/b", "host:80", "https://a.com/"]
)
def test_arguments_without_a_secret_stay(argument: str) -> None:
    assert servers({"a": {"command": "x", "args": ["-e", argument]}})["a"]["command"] == ["x", "-e", argument]


@pytest.mark.spec("M7")
def test_values_that_hold_a_secret_are_left_out_under_any_name() -> None:
    env = {"DATABASE_URL": "postgres://me:s-1@db/sales", "AUTH_HEADER": "Bearer s-2", "HOME_URL": "https://a.com/"}
    definitions = {"a": {"command": "x", "env": env}, "b": {"url": "https://me:s-3@example.com/mcp"}}
    client_file = read_client_file(json.dumps({"mcpServers": definitions}))
    assert not any(secret in repr(client_file) for secret in ("s-1", "s-2", "s-3"))
    assert client_file.secrets == ("DATABASE_URL", "AUTH_HEADER")
    assert client_file.servers["a"]["env"]["HOME_URL"] == "https://a.com/"
    assert servers(definitions)["b"] == {"url": "https://example.com/mcp"}


@pytest.mark.spec("M7")
def test_numbers_and_truth_values_are_written_as_in_json() -> None:
    definitions = {"a": {"command": "x", "args": [80, True], "env": {"PORT": 80, "DEBUG": True}}}
    assert servers(definitions)["a"]["command"] == ["x", "80", "true"]
    assert servers(definitions)["a"]["env"] == {"PATH": "${PATH}", "HOME": "${HOME}", "PORT": "80", "DEBUG": "true"}


@pytest.mark.spec("M7")
@pytest.mark.parametrize("placeholder", ["${input:api-key}", "${env:API_KEY}", "${API_KEY}"])
def test_places_that_a_client_fills_in_are_places_of_secrets(placeholder: str) -> None:
    definitions = {"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": placeholder}}}
    assert servers(definitions, "servers")["web"]["headers"] == {"X-Key": "${API_KEY}"}


@pytest.mark.spec("M7")
def test_what_a_configuration_has_not_is_said() -> None:
    definitions = {"web": {"serverUrl": "https://example.com/sse", "type": "sse", "disabled": True}}
    client_file = read_client_file(json.dumps({"mcpServers": definitions}))
    assert (client_file.left_out, client_file.servers["web"]["url"]) == (("web: disabled",), "https://example.com/sse")


@pytest.mark.spec("M7")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not valid JSON"),
        ("{}", "there are no MCP servers in this file"),
        ('{"mcpServers": {"a": []}}', "must be an object"),
        ('{"mcpServers": {"a": {}}}', "neither a url nor a command"),
        ('{"mcpServers": {"a": {"url": 3}}}', "'a': url must be text; got 3"),
        ('{"mcpServers": {"a": {"url": "https://a.com/", "headers": ["X: y"]}}}', "'a': headers must be an object"),
        ('{"mcpServers": {"a": {"command": "x", "args": "-y x"}}}', "'a': args must be a list; got '-y x'"),
        ('{"mcpServers": {"a": {"command": "x", "args": [null]}}}', "'a': args must be text; got None"),
        ('{"mcpServers": {"a": {"command": "x", "env": "A=b"}}}', "'a': env must be an object; got 'A=b'"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": null}}}}', "'a': env.A must be text; got None"),
    ],
)
def test_another_file_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        read_client_file(text)


def test_two_titles_of_one_name_are_two_servers() -> None:
    definitions = {"My Files": {"command": "a"}, "my files": {"command": "b"}, "1st": {"command": "c"}}
    assert list(servers(definitions)) == ["my-files", "my-files-2", "mcp-1st"]

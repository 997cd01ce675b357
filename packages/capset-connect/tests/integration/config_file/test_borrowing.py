"""Actions that are tools of installed capabilities, in a narrower form (spec 4, G8, G27)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from capset import Capability, Context, Kernel, Preset, Principal, Registry, Toolkit, tool
from capset.composition.compose import compose
from capset.definitions.governance.limits import Limit
from capset.errors import NotFound
from capset.kernel.agent_definition import definition_of
from capset_connect.config_file.shapes import BUILT_IN
from tests.helpers.connect.config_file.support import read, refused


class HttpConfig(BaseModel):
    allow: list[str] = []


@tool(effect="read", permissions={"http:read"}, timeout=30)
async def http_get(ctx: Context, url: str) -> str:
    """Fetch."""
    key = await ctx.secret("HTTP_KEY")
    return f"{url} of {ctx.config(http).allow} with {key.get_secret_value()}"


@tool(effect="write")
async def http_post(url: str) -> str:
    """Send."""
    return url


@tool(effect="external", permissions={"email:send"}, approval="ask", limits="10/1h")
async def email_send(to: str) -> str:
    """Send an email."""
    return to


http: Capability[None, HttpConfig] = Capability(
    "http", tools=[http_get], presets={"post": Preset(tools=[http_post])}, config=HttpConfig, secrets=["HTTP_KEY"]
)
REGISTRY = Registry.of(
    [http, Capability("email", tools=[email_send]), Capability("kits", tools=[Toolkit("kit", [http_post])])]
)


class Keys:
    async def get(self, name: str) -> str | None:
        return f"the {name}"


@pytest.mark.spec("G27")
@pytest.mark.parametrize(("name", "named"), BUILT_IN.items())
def test_the_tool_of_a_built_in_action_is_installed(name: str, named: str) -> None:
    capability, _, tool_name = named.partition(".")
    assert tool_name == name.replace("-", "_")
    assert tool_name in {installed.name for installed in Registry.installed().get(capability).every_tool}


@pytest.mark.spec("G8", "G27")
@pytest.mark.parametrize("name", ["http-get", "http_get"])
async def test_a_built_in_action_is_the_installed_tool_under_the_files_name(name: str, tmp_path: Path) -> None:
    text = f"""\
        actions:
          - {{name: {name}, title: HTTP GET, permissions: [net:use], limits: 5/1m, timeout: 60}}
        capabilities:
          - {{id: http, config: {{allow: [example.com]}}}}
    """
    configuration = read(tmp_path, text, registry=REGISTRY)
    (borrowed,) = configuration.tools
    assert (borrowed.name, borrowed.title, borrowed.description) == (name, "HTTP GET", "Fetch.")
    assert borrowed.permissions == {"http:read", "net:use"}
    assert (borrowed.limits, borrowed.timeout) == ((Limit(5, "1m"),), 30)
    assert configuration.actions[name].source == "http.http_get"
    half, full = (
        Principal(user, permissions=permissions)
        for user, permissions in (("a", ["http:read"]), ("b", borrowed.permissions))
    )
    kernel = Kernel("memory://", secrets=Keys())
    async with kernel:
        async with kernel.open(configuration.agent, principal=half) as session:
            assert not (await session.try_message(session.message(name, {"url": "x"}))).success
        async with kernel.open(configuration.agent, principal=full) as session:
            result = await session.try_message(session.message(name, {"url": "x"}))
            assert result.data == "x of ['example.com'] with the HTTP_KEY"
            assert set(session.snapshot.tools) == {name}, "the tools that nobody named stay out"
            by_capability = await session.try_message(session.message(f"http.{name}", {"url": "x"}))
            assert by_capability.success


@pytest.mark.spec("G27")
async def test_one_tool_may_be_two_actions_and_one_of_a_preset_is_switched_on(tmp_path: Path) -> None:
    text = """\
        actions:
          - {name: http-get}
          - {name: fetch, tool: http.http_get, limits: 1/1h}
          - {name: post, tool: http.http_post, permissions: [http:write]}
    """
    configuration = read(tmp_path, text, registry=REGISTRY)
    principal = Principal("ada", permissions=["http:read", "http:write"])
    async with Kernel("memory://") as kernel, kernel.open(configuration.agent, principal=principal) as session:
        assert set(session.snapshot.tools) == {"http-get", "fetch", "post"}
        assert (await session.try_message(session.message("post", {"url": "x"}))).data == "x"


@pytest.mark.spec("G27")
async def test_a_capability_of_which_no_tool_is_named_brings_them_all(tmp_path: Path) -> None:
    configuration = read(tmp_path, "capabilities: [http]", registry=REGISTRY)
    principal = Principal("ada", permissions=["http:read"])
    async with Kernel("memory://") as kernel, kernel.open(configuration.agent, principal=principal) as session:
        assert set(session.snapshot.tools) == {"http_get", "http_post"}


@pytest.mark.spec("G8", "G27")
def test_a_file_takes_nothing_away_and_says_nothing_twice(tmp_path: Path) -> None:
    (borrowed,) = read(tmp_path, "actions: [{name: email-send}]", registry=REGISTRY).tools
    assert (borrowed.permissions, borrowed.limits, borrowed.approval) == ({"email:send"}, (Limit(10, "1h"),), "ask")
    text = """\
        actions:
          - name: email-send
            approval: auto
            parameters: {}
            effect: read
          - {name: db-query}
          - {name: x, tool: http.http_gte}
          - {name: y, tool: http}
          - {name: z, tool: kits.http_post}
    """
    messages = {path: message for _, path, message in refused(tmp_path, text, registry=REGISTRY)}
    assert messages.keys() == {
        *("actions.0.approval", "actions.0.parameters", "actions.0.effect"),
        *("actions.1", "actions.2.tool", "actions.3.tool", "actions"),
    }
    assert "unknown capability 'database'" in messages["actions.1"]
    assert "did you mean 'http_get'?" in messages["actions.2.tool"]
    assert "is in a toolkit" in messages["actions"]


@pytest.mark.spec("G27")
@pytest.mark.parametrize(
    ("actions", "instructions"),
    [
        ("{name: http-get}", "Ask with `http-get`, send with `http_post`."),
        ("{name: http_get}", "Ask with `http_get`, send with `http_post`."),
        ("{name: a, tool: http.http_get}, {name: b, tool: http.http_get}", "Ask with `a`, send with `http_post`."),
        ("{name: a, tool: http.http_get}, {name: http_get}", "Ask with `http_get`, send with `http_post`."),
        (
            "{name: http_get, tool: http.http_post}, {name: x, tool: http.http_get}",
            "Ask with `x`, send with `http_get`.",
        ),
    ],
)
def test_instructions_name_the_tools_as_the_file_does(actions: str, instructions: str, tmp_path: Path) -> None:
    taught = Capability(
        "http",
        tools=[http_get, http_post],
        config=HttpConfig,
        secrets=["HTTP_KEY"],
        instructions="Ask with `http_get`, send with `http_post`.",
    )
    configuration = read(tmp_path, f"actions: [{actions}]", registry=Registry.of([taught]))
    assert compose(configuration.agent).instructions == (instructions,)


async def test_a_narrowed_capability_is_not_opened_again_as_the_whole(tmp_path: Path) -> None:
    configuration = read(tmp_path, "actions: [{name: http-get}]", registry=REGISTRY)
    assert "the narrowed tools of http" in definition_of(configuration.agent)


async def test_only_what_is_used_is_found_by_its_origin(tmp_path: Path) -> None:
    other: Capability[None, HttpConfig] = Capability("other", config=HttpConfig)

    @tool(effect="read")
    async def peek(ctx: Context) -> str:
        """Peek."""
        try:
            return str(ctx.config(other))
        except NotFound as error:
            return error.message

    registry = Registry.of([Capability("peeker", tools=[peek])])
    configuration = read(tmp_path, "actions: [{name: peek, tool: peeker.peek}]", registry=registry)
    async with Kernel("memory://") as kernel, kernel.open(configuration.agent, principal=Principal("ada")) as session:
        assert "not used by" in str((await session.try_message(session.message("peek", {}))).data)

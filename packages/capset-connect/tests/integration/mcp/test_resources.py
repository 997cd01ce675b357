"""Resources of MCP servers that their host chose: read by a tool, offered on, and as context (spec 7, M21)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Kernel, Policy, Principal
from capset.definitions.calls.contents import Embedded
from capset.definitions.governance.policies import deny
from capset.definitions.tools.mcp_offers import McpResource
from capset.errors import (
    DeadlineExceeded,
    DefinitionError,
    InvalidArguments,
    LimitExceeded,
    PermissionDenied,
    ToolError,
)
from capset.ext import Governance
from capset_connect.mcp import McpServer, open_mcp_servers
from capset_connect.mcp.resources import AllowedUris, checked_resources
from capset_connect.mcp.tools import CONTEXT_CHARS, NOTE
from tests.helpers.connect.mcp.opening import Site, offers_of, opened, server
from tests.helpers.kernel.support import records_of

ADA = Principal("ada")
READ = "archive_resources_read"


def archive(folder: Path, *uris: str, **options: Any) -> McpServer:
    return server("archive", folder, resources={uri: {} for uri in uris}, **options)


def reads(folder: Path) -> list[str]:
    return (folder / "reads").read_text().split() if (folder / "reads").exists() else []


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_chosen_resources_are_read_on_record_and_no_others(tmp_path: Path) -> None:
    async with opened(archive(tmp_path, "demo://a", "demo://bytes"), "memory://") as site:
        text = Embedded(uri="demo://a", text="<b>demo://a</b> key-12345")
        assert await site.call(READ, uri="demo://a") == [text]
        image = Embedded(uri="demo://bytes", data=b"\x89PNG", media_type="image/png")
        assert await site.call(READ, uri="demo://bytes") == [image]
        with pytest.raises(InvalidArguments):
            await site.call(READ, uri="demo://b")
        assert reads(tmp_path) == ["demo://a", "demo://bytes"], "what is not chosen is not asked for"
        *_, first = await records_of(site.kernel.audit, tool=READ)
        assert (first.capability, first.effect) == ("mcp:archive", "read")


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_a_template_allows_what_fits_it_and_an_approval_is_not_needed_for_any_of_it(tmp_path: Path) -> None:
    async with opened(archive(tmp_path, "demo://b/{number}")) as site:
        (content,) = await site.call(READ, uri="demo://b/1")
        assert content.uri == "demo://b/1"
        for uri in ("demo://b/..", "demo://b/1/2", "demo://c/1"):
            with pytest.raises(PermissionDenied, match="none of the resources that are allowed here"):
                await site.call(READ, uri=uri)
        assert reads(tmp_path) == ["demo://b/1"]


@pytest.mark.spec("M21")
@pytest.mark.parametrize(
    ("template", "value", "is_allowed"),
    [
        ("f:///d/{n}", "a", True),
        ("f:///d/{n}", "a%20b", True),
        ("f:///d/{n}", "a%2Fb", False),
        ("f:///d/{n}", "a%5Cb", False),
        ("f:///d/{n}", "..", False),
        ("f:///d/{n}", "%2e%2E", False),
        ("f:///d/{n}", "%252e%252e", False),
        ("f:///d/{n}", "..%3Bx", False),
        ("f:///d/{n}", "%2e%2e%20", False),
        ("f:///d/{n}", "a?b=c", False),
        ("f:///d/{n}", "a#b", False),
        ("f:///d/{n}", "a&b", False),
        ("f:///d/{n}", "a%00b", False),
        ("f:///d/{n}", "a%0Ab", False),
        ("f:///d/{n}", "a\n", False),
        ("f:///d/{n}", "%ff", False),
        ("f:///d/{n}", "%E2%80%8B", False),
        ("f:///d/{n}", "é", False),
        ("f:///d/{n}", "", False),
        ("f:///d/{n}", "%", False),
        ("f:///d/{+n}", "a/b.txt", True),
        ("f:///d/{+n}", "a/../b", False),
        ("f:///d/{+n}", "a/%2e%2e/b", False),
        ("f:///d/{+n}", "..%2f..%2fetc", False),
        ("f:///d/{+n}", "a%5C..%5Cb", False),
        ("f:///d/{+n}", "/etc/passwd", False),
        ("f:///d/{+n}", "a//b", False),
        ("f:///d/{+n}", "a?b", False),
        ("q://x?who={n}", "ada&role=admin", False),
        ("q://x?who={n}", "ada%26role", True),
    ],
)
def test_no_value_of_a_template_leads_elsewhere(template: str, value: str, *, is_allowed: bool) -> None:
    allowed = AllowedUris(checked_resources("resources", {template: {}}))
    assert (template.replace("{n}", value).replace("{+n}", value) in allowed) is is_allowed


@pytest.mark.spec("M21")
@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"no scheme": {}}, "begins with its scheme"),
        ({"demo://{?q}": {}}, "begins with its scheme"),
        ({"capset://files/a": {}}, "for the files of sessions"),
        ({"demo://a": {"colour": "red"}}, "colour"),
        ({"demo://a": {"context": "yes"}}, "context"),
        ({"demo://a": {"description": "x" * 1_001}}, "at most 1,000 characters"),
        ({"demo://{a}": {"context": True}}, "cannot be context"),
        ({f"demo://{n}": {} for n in range(101)}, "at most 100 resources"),
        ({f"demo://{n}": {"context": True} for n in range(9)}, "at most 8 resources that are context"),
    ],
)
def test_what_cannot_be_honoured_is_refused(resources: Mapping[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        McpServer(name="archive", command=["x"], resources=resources)


@pytest.mark.spec("M21", "M22")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": {"resources/read": {"effect": "write"}}}, "its effect is always read"),
        ({"prompts": ["a"], "rules": {"prompts/a": {"effect": "write"}}}, "its effect is always read"),
        ({"rules": {"*": {"approval": "ask"}}}, "cannot be context, which does not wait"),
        ({"limits": "often"}, "limits"),
    ],
)
def test_so_are_rules_and_limits_that_could_not_hold(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        McpServer(name="archive", command=["x"], resources={"demo://a": {"context": True}}, **options)


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_what_comes_back_is_bounded_in_time_and_held_to_the_protocol(tmp_path: Path) -> None:
    uris = ("demo://no-base64", "demo://slow")
    async with opened(archive(tmp_path, *uris, timeout=1.5)) as site:
        with pytest.raises(ToolError, match="invalid base64"):
            await site.call(READ, uri="demo://no-base64")
        with pytest.raises(DeadlineExceeded):
            await site.call(READ, uri="demo://slow")


@pytest.mark.realtime
@pytest.mark.spec("M21", "M22")
async def test_rules_permissions_and_limits_hold_for_reading(tmp_path: Path) -> None:
    declared = archive(tmp_path, "demo://a", permissions={"books:use"}, rules={"resources/read": {"limits": "1/1h"}})
    async with opened(declared) as site:
        assert READ not in site.session.snapshot.tools, "ada lacks the permission"
    async with opened(archive(tmp_path, "demo://a", rules={"resources/read": {"limits": "1/1h"}})) as site:
        await site.call(READ, uri="demo://a")
        with pytest.raises(LimitExceeded):
            await site.call(READ, uri="demo://a")


@pytest.mark.realtime
@pytest.mark.spec("M22")
async def test_all_that_a_server_gives_shares_its_limits(tmp_path: Path) -> None:
    declared = archive(tmp_path, "demo://a", prompts=["review"], limits="3/1h", trust_first_use=True)
    async with opened(declared) as site:
        await site.call(READ, uri="demo://a")
        await site.call("archive_prompts_review", code="x")
        await site.call("archive_add", a=1, b=2)
        for name, arguments in ((READ, {"uri": "demo://a"}), ("archive_add", {"a": 1, "b": 2})):
            with pytest.raises(LimitExceeded, match="the capability 'mcp:archive' is limited to 3/1h"):
                await site.call(name, **arguments)


@pytest.mark.spec("M21")
async def test_mcp_clients_are_offered_them_by_their_own_uris(tmp_path: Path) -> None:
    declared = server(
        "archive", tmp_path, resources={"demo://a": {"description": "The first"}, "demo://b/{number}": {}}
    )
    async with opened(declared) as site:
        first, second = site.capability.mcp
        assert isinstance(first, McpResource)
        assert isinstance(second, McpResource)
        assert (first.title, first.is_template, first.arguments("demo://a")) == (
            "The first",
            False,
            {"uri": "demo://a"},
        )
        assert (second.is_template, second.arguments("demo://b/1")) == (True, {"uri": "demo://b/1"})
        description = site.tool(READ).arguments.json_schema["properties"]["uri"]["description"]
        assert description.startswith("One of: demo://a (The first); demo://b/{number}")


@asynccontextmanager
async def context_of(
    folder: Path, *uris: str, governance: Governance | None = None, **options: Any
) -> AsyncGenerator[Site]:
    """Open a session of an agent whose context has these resources."""
    policies = options.pop("policies", ())
    declared = server("archive", folder, resources={uri: {"context": True} for uri in uris}, **options)
    async with (
        Kernel(store="memory://", governance=governance) as kernel,
        open_mcp_servers(kernel, [declared]) as (capability,),
        kernel.open(Agent("reader", uses=[capability], policies=policies), principal=ADA) as session,
    ):
        yield Site(kernel, capability, session)


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_chosen_ones_are_context_marked_escaped_cut_and_on_record(tmp_path: Path) -> None:
    async with context_of(tmp_path, "demo://a", "demo://long", "demo://bytes") as site:
        text = await site.session.system_text()
        assert text == await site.session.system_text()
        assert "<resources-of-archive>" in text
        assert NOTE in text
        assert "&lt;b&gt;demo://a&lt;/b&gt;" in text, "it cannot close its tag"
        assert "x" * CONTEXT_CHARS in text
        assert "x" * (CONTEXT_CHARS + 1) not in text
        assert "(cut here: it has 20,000 characters)" in text
        assert "(bytes, which are no text)" in text
        assert len(reads(tmp_path)) == 3, "within a minute, they are read once"
        assert len(await records_of(site.kernel.audit, tool=READ)) == 3


@pytest.mark.spec("M21")
async def test_what_may_not_be_read_is_no_context(tmp_path: Path) -> None:
    def never(_: object) -> Any:
        return deny("not here")

    refusing: list[dict[str, Any]] = [{"policies": [Policy("never", never)]}, {"permissions": {"books:use"}}]
    for options in refusing:
        async with context_of(tmp_path, "demo://a", **options) as site:
            assert "demo://a" not in await site.session.system_text()
    assert reads(tmp_path) == []


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_what_cannot_be_read_fails_no_step_and_says_so(tmp_path: Path) -> None:
    async with context_of(tmp_path, "demo://a", "demo://b", limits="1/1h") as site:
        text = await site.session.system_text()
        assert "key-12345" in text
        assert "It could not be read: Rate limit exceeded" in text


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_a_dynamic_text_is_in_no_hash_and_the_choice_is(tmp_path: Path) -> None:
    hashes = []
    for uris in (["demo://a"], ["demo://a"], ["demo://b"]):
        async with context_of(tmp_path, *uris) as site:
            await site.session.system_text()
            hashes.append(site.session.snapshot.static_hash)
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.realtime
@pytest.mark.spec("M21", "G26")
async def test_secrets_are_masked_in_context_too(tmp_path: Path) -> None:
    governance = Governance(redact=[r"key-\d+"])
    async with context_of(tmp_path, "demo://a", governance=governance) as site:
        text = await site.session.system_text()
        assert "demo://a" in text
        assert "key-12345" not in text


@pytest.mark.realtime
@pytest.mark.spec("M21", "M4")
async def test_a_tool_cannot_take_the_name_of_what_reads_resources(tmp_path: Path) -> None:
    offers = await offers_of(server("pretending", tmp_path, resources={"demo://a": {}}))
    assert offers["resources.read"].is_unusable
    assert not offers["add"].is_unusable
    declared = server("pretending", tmp_path, resources={"demo://a": {}}, trust_first_use=True)
    async with opened(declared) as site:
        assert (await site.call("pretending_resources_read", uri="demo://a"))[0].uri == "demo://a"


@pytest.mark.realtime
@pytest.mark.spec("M21")
async def test_a_server_without_tools_may_have_resources(tmp_path: Path) -> None:
    declared = server("no-tools", tmp_path, resources={"demo://a": {}}, trust_first_use=True)
    async with opened(declared) as site:
        assert [tool.name for tool in site.capability.every_tool] == ["no-tools_resources_read"]
        assert json.loads((await site.call("no-tools_resources_read", uri="demo://a"))[0].model_dump_json())["text"]


@pytest.mark.realtime
@pytest.mark.spec("M6", "M21")
@pytest.mark.parametrize("name", ["resource/read", "resources_read", "prompts/x"])
async def test_no_resource_is_read_under_rules_with_a_misspelt_name(tmp_path: Path, name: str) -> None:
    async with opened(archive(tmp_path, "demo://a", rules={name: {"limits": "1/1h"}})) as site:
        with pytest.raises(PermissionDenied, match=f"rules name tools that it does not have: '{name}'"):
            await site.call(READ, uri="demo://a")
        assert reads(tmp_path) == []
    async with opened(archive(tmp_path, "demo://a", rules={"resources/read": {"limits": "1/1h"}})) as site:
        assert (await site.call(READ, uri="demo://a"))[0].uri == "demo://a"

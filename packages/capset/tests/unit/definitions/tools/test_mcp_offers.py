"""Tools that MCP clients are offered as prompts and resources."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from capset import Agent, Capability, DefinitionError, Preset, Toolkit, compose, tool
from capset.definitions.capabilities import narrowed
from capset.definitions.tools.mcp_offers import read_template
from capset.ext import McpPrompt, McpResource


@tool(effect="read")
async def page(book: str, path: str = "") -> str:
    """Give a page."""
    return f"{book}/{path}"


@tool(effect="read")
async def about() -> str:
    """Tell about it."""
    return "It is."


@tool(effect="write")
async def write(text: str) -> str:
    """Write."""
    return text


@tool(effect="read")
async def number(count: int) -> str:
    """Count."""
    return str(count)


@tool(effect="read")
async def texts(
    kind: Literal["a", "b"],
    maybe: str | None = None,
    long: Annotated[str, Field(max_length=9)] = "",
    other: int | str = 1,
) -> str:
    """Take texts."""
    return kind


@pytest.mark.spec("M11")
@pytest.mark.parametrize(
    ("template", "uri", "arguments"),
    [
        ("kit://{book}", "kit://law", {"book": "law"}),
        ("kit://{book}", "kit://law/1", None),
        ("kit://{book}", "kit://", None),
        ("kit://{book}/{path}", "kit://a/b", {"book": "a", "path": "b"}),
        ("kit://{book}/{+path}", "kit://a/b/c", {"book": "a", "path": "b/c"}),
        ("kit://{+book}.md", "kit://a/b.md", {"book": "a/b"}),
        ("kit://{book}", "kit://a%2Fb%20%C3%BC", {"book": "a/b ü"}),
        ("kit://x.y/{book}", "kit://xzy/a", None),
        ("kit://{book}", "kit://a\nb", {"book": "a\nb"}),
        ("kit://{book}", "kit://" + "a" * 2_048, None),
    ],
)
def test_a_template_reads_its_uris(template: str, uri: str, arguments: dict[str, str] | None) -> None:
    resource = McpResource(template, page)
    assert resource.arguments(uri) == arguments
    assert resource.is_template


@pytest.mark.spec("M11")
@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("log://{a}-{b}-{c}", "log://2026-01-31", ["2026", "01", "31"]),
        ("log://{a}-{b}.txt", "log://x-y-z.txt", ["x-y", "z"]),
        ("log://{a}-{b}", "log://---", ["-", "-"]),
        ("log://{a}-{b}", "log://-x", None),
        ("log://{a}-{+b}", "log://x-y/z-1/2", ["x", "y/z-1/2"]),
        ("log://{+a}-{b}/c", "log://x/y-z-1/c", ["x/y-z", "1"]),
        ("log://{a}-{b}-{c}-{d}", "log://" + "-" * 2_000 + "/", None),
    ],
)
def test_each_name_gets_what_it_can_in_little_time(template: str, uri: str, values: list[str] | None) -> None:
    variables = read_template("a template", template).match(uri)
    assert (variables and [*variables.values()]) == values


@pytest.mark.spec("M11")
def test_a_uri_stands_for_itself() -> None:
    resource = McpResource("kit://about?x=1", about)
    assert (resource.is_template, resource.variables) == (False, ())
    assert resource.arguments("kit://about?x=1") == {}
    assert resource.arguments("kit://aboutx=1") is None


@pytest.mark.spec("M11")
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("no-scheme", "begins with its scheme"),
        ("kit://a b", "begins with its scheme"),
        ("Kit://{book}", "begins with its scheme"),
        ("kit://{book", "begins with its scheme"),
        ("kit://{?book}", "begins with its scheme"),
        ("kit://" + "a" * 2_048, "at most 2,048 characters"),
        ("kit://{chapter}", "'chapter' is no parameter of 'page', which has book, path"),
        ("kit://{path}", "'page' needs 'book'"),
        ("kit://about", "'page' needs 'book'"),
        ("kit://{book}{path}", "something must stand between 'book' and 'path'"),
        ("kit://{book}/{book}", "each name stands once"),
        ("kit://{+book}/{+path}", "each name stands once"),
        ("capset://files/{book}", "for the files of sessions"),
        ("kit://\ud800", "lone surrogate"),
    ],
)
def test_a_uri_that_does_not_fit_is_refused(uri: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        McpResource(uri, page)


@pytest.mark.spec("M11")
def test_tools_that_do_more_than_read_or_take_more_than_texts_are_refused() -> None:
    for make in (McpPrompt, lambda source_tool: McpResource("kit://{text}", source_tool)):
        with pytest.raises(DefinitionError, match="does more than read"):
            make(write)
    with pytest.raises(DefinitionError, match="'count' takes no text"):
        McpPrompt(number)
    with pytest.raises(DefinitionError, match="needs a Tool"):
        McpPrompt(about.handler)  # pyright: ignore[reportArgumentType]  # what an untyped caller may do
    assert McpPrompt(texts).tool is texts


@pytest.mark.spec("M11")
def test_a_capability_offers_its_own_tools_each_once() -> None:
    offers = [McpPrompt(about), McpResource("kit://about", about)]
    kit = Capability("kit", tools=[about], mcp=offers)
    assert kit.mcp == tuple(offers)
    assert Capability("kit", tools=[Toolkit("inner", [about])], mcp=offers).mcp == tuple(offers)
    assert Capability("kit", presets={"more": Preset(tools=[about])}, mcp=offers).mcp == tuple(offers)
    wrong: list[tuple[list[Any], str]] = [
        ([McpPrompt(page)], "which it does not bring"),
        ([about], "McpPrompt and McpResource; got Tool"),
        ([McpPrompt(about), McpPrompt(about)], "the prompt 'about' twice"),
        ([McpResource("kit://a", about), McpResource("kit://a", about)], "the resource 'kit://a' twice"),
    ]
    for offered, message in wrong:
        with pytest.raises(DefinitionError, match=message):
            Capability("kit", tools=[about], mcp=offered)


@pytest.mark.spec("M11", "F11")
def test_offers_are_in_no_hash_and_stay_with_a_narrower_capability() -> None:
    plain = Capability("kit", tools=[about])
    offering = Capability("kit", tools=[about], mcp=[McpPrompt(about)])
    hashes = {compose(Agent("a", uses=[capability])).static_hash for capability in (plain, offering)}
    assert len(hashes) == 1
    assert narrowed(offering, {about: [about]}).mcp == offering.mcp

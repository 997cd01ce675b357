from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from capset import Agent, Capability, DefinitionError, Preset, Toolkit, compose, tool
from capset.definitions.capabilities import narrow_capability
from capset.definitions.tools.mcp_offers import read_template
from capset.ext import McpPrompt, McpResource


@tool(effect="read", description="Give a page.")
async def page(book: str, path: str = "") -> str: ...


@tool(effect="read", description="Say what it is.")
async def about() -> str: ...


@tool(effect="write", description="Write.")
async def write(text: str) -> str: ...


@tool(effect="read", description="Count.")
async def number(count: int) -> str: ...


@tool(effect="read", description="Take texts.")
async def texts(
    kind: Literal["a", "b"],
    long: Annotated[str, Field(max_length=9)] = "",
    maybe: str | None = None,
    any: int | str = 1,
) -> str: ...


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
    ("message", "uris"),
    [
        ("begins with its scheme", ["no-scheme", "kit://a b", "Kit://{book}", "kit://{book", "kit://{?book}"]),
        ("at most 2,048 characters", ["kit://" + "a" * 2_048]),
        ("'chapter' is not a parameter of 'page', which has book, path", ["kit://{chapter}"]),
        ("'page' needs 'book'", ["kit://{path}", "kit://about"]),
        ("there must be text between 'book' and 'path'", ["kit://{book}{path}"]),
        ("each name only once", ["kit://{book}/{book}", "kit://{+book}/{+path}"]),
        ("for the files of sessions", ["capset://files/{book}"]),
        ("lone surrogate", ["kit://\ud800"]),
    ],
)
def test_a_uri_that_does_not_fit_is_refused(message: str, uris: list[str]) -> None:
    for uri in uris:
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
    in_presets = Capability("kit", presets={"more": Preset(tools=[about])}, mcp=offers)
    in_toolkit = Capability("kit", tools=[Toolkit("inner", [about])], mcp=offers)
    assert Capability("kit", tools=[about], mcp=offers).mcp == in_toolkit.mcp == in_presets.mcp == tuple(offers)
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
    assert compose(Agent("a", uses=[plain])).static_hash == compose(Agent("a", uses=[offering])).static_hash
    assert narrow_capability(offering, {about: [about]}).mcp == offering.mcp

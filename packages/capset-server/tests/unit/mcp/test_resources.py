"""Resources: the files of the session, and tools that are offered as such."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, BlobResourceContents, ResourceTemplateReference, TextResourceContents

from capset import ToolError, tool
from capset.errors import Unreachable
from capset.ext import Content, Embedded, Image, Link, McpResource
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from capset_server.mcp.resources import MAX_READ, PAGE
from tests.helpers.server.mcp.support import PREFIX, Bench, Era, bench

READ = {"session_files:read"}


@tool(effect="read")
async def about() -> str:
    """Tell about the shop."""
    return "A shop."


@tool(effect="read", permissions={"prices:read"})
async def prices() -> dict[str, int]:
    """List prices."""
    return {"tea": 2}


@tool(effect="read")
async def chapter(book: Literal["law", "lore"], path: str) -> str:
    """Give a chapter."""
    if path == "none":
        raise ToolError("there is no such chapter", status=404)
    return f"{book}: {path}"


@tool(effect="read")
async def mixed() -> list[str | Content]:
    """Give several things."""
    return [
        "text",
        Image(data=b"\x00\xff", media_type="image/png"),
        Embedded(uri="kit://inner", text="inner"),
        Link(uri="kit://far", name="far"),
    ]


OFFERS = [
    McpResource("kit://about", about, media_type="text/markdown", title="The shop"),
    McpResource("kit://prices", prices),
    McpResource("kit://books/{book}/{+path}", chapter),
    McpResource("kit://mixed", mixed),
]
KIT = (about, prices, chapter, mixed)


async def failed(workbench: Bench, uri: str) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await workbench.client.read_resource(uri)
    return caught.value


async def text(workbench: Bench, uri: str) -> tuple[str | None, str]:
    (content,) = (await workbench.client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.uri == uri
    return content.mime_type, content.text


@pytest.mark.spec("M11")
async def test_resources_are_those_whose_tools_are_in_play(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS) as workbench:
        first, second = (await workbench.client.list_resources()).resources
        assert (first.uri, first.name, first.title, first.mime_type, first.description) == (
            "kit://about",
            "about",
            "The shop",
            "text/markdown",
            "Tell about the shop.",
        )
        assert second.uri == "kit://mixed"
        (template,) = (await workbench.client.list_resource_templates()).resource_templates
        assert (template.uri_template, template.name) == ("kit://books/{book}/{+path}", "chapter")
        assert (await failed(workbench, "kit://prices")).data == {"uri": "kit://prices"}, "it is not in play"
    async with bench(era, *KIT, offers=OFFERS, permissions={"prices:read"}) as workbench:
        assert await text(workbench, "kit://prices") == ("application/json", '{"tea": 2}')


@pytest.mark.spec("M11")
async def test_reading_one_is_a_call_on_record(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS) as workbench:
        assert await text(workbench, "kit://about") == ("text/markdown", "A shop.")
        assert await text(workbench, "kit://books/law/a/b%20c") == ("text/plain", "law: a/b c")
        first, second = await workbench.records()
        assert (first.tool, second.tool, second.outcome) == ("about", "chapter", "succeeded")
        assert json.loads(second.arguments) == {"book": "law", "path": "a/b c"}
        result = await workbench.client.read_resource("kit://mixed")
        assert result.meta is not None
        assert result.meta[f"{PREFIX}record"] == (await workbench.records(tool="mixed"))[0].id
        word, image, inner, far = result.contents
        assert isinstance(word, TextResourceContents)
        assert isinstance(image, BlobResourceContents)
        assert (b64decode(image.blob), image.mime_type, image.uri) == (b"\x00\xff", "image/png", "kit://mixed")
        assert isinstance(inner, TextResourceContents)
        assert (inner.uri, inner.text) == ("kit://inner", "inner")
        assert isinstance(far, TextResourceContents)
        assert (far.mime_type, far.text) == ("text/uri-list", "kit://far")


@pytest.mark.spec("M11")
async def test_a_refused_call_is_an_error(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS) as workbench:
        misfit = await failed(workbench, "kit://books/cook/a")
        assert misfit.code == INVALID_PARAMS
        assert misfit.data[f"{PREFIX}error"]["code"] == "invalid_arguments"
        assert "there is no such chapter" in (await failed(workbench, "kit://books/law/none")).message
        assert [record.outcome for record in await workbench.records()] == ["invalid", "failed"]


@pytest.mark.spec("M11")
@pytest.mark.parametrize(
    "uri",
    ["kit://nothing", "kit://books/law", "kit://about/", "other://about", "", "capset://files", "kit://" + "x" * 9_000],
)
async def test_what_is_missing_is_named(uri: str, era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS, permissions=READ) as workbench:
        error = await failed(workbench, uri)
        assert error.code == (INVALID_PARAMS if era == "auto" else -32002)
        assert error.data == {"uri": uri}
        assert await workbench.records() == []


@pytest.mark.spec("M11")
async def test_files_of_the_session_are_resources(era: Era) -> None:
    async with bench(era, *KIT, permissions=READ) as workbench:
        files = {
            "/notes/Grüße & Co.md": "# Grüße".encode(),
            "/data.bin": b"\x00\x01\xff",
            "/picture.png": b"png",
            "/plain": b"plain",
        }
        for path, content in files.items():
            await workbench.session.files.write(path, content)
        resources = (await workbench.client.list_resources()).resources
        assert [(resource.name, resource.size) for resource in resources] == [
            ("/data.bin", 3),
            ("/notes/Grüße & Co.md", 9),
            ("/picture.png", 3),
            ("/plain", 5),
        ]
        assert resources[1].uri == "capset://files/notes/Gr%C3%BC%C3%9Fe%20%26%20Co.md"
        assert await text(workbench, resources[1].uri) == ("text/markdown", "# Grüße")
        assert await text(workbench, "capset://files/plain") == ("text/plain", "plain")
        for path, media_type in (("data.bin", "application/octet-stream"), ("picture.png", "image/png")):
            (blob,) = (await workbench.client.read_resource(f"capset://files/{path}")).contents
            assert isinstance(blob, BlobResourceContents)
            assert (b64decode(blob.blob), blob.mime_type) == (files[f"/{path}"], media_type)
        (template,) = (await workbench.client.list_resource_templates()).resource_templates
        assert template.uri_template == "capset://files/{+path}"
        assert await workbench.records() == [], "reading a file is no call, as by REST"


@pytest.mark.spec("M11")
async def test_files_are_for_those_who_may_read_them(era: Era) -> None:
    async with bench(era, *KIT) as workbench:
        await workbench.session.files.write("/secret.txt", b"secret")
        assert (await workbench.client.list_resources()).resources == []
        assert (await workbench.client.list_resource_templates()).resource_templates == []
        error = await failed(workbench, "capset://files/secret.txt")
        assert "user-1 lacks the permission session_files:read" in error.message
        ref = ResourceTemplateReference(uri="capset://files/{+path}")
        with pytest.raises(MCPError):
            await workbench.client.complete(ref, {"name": "path", "value": ""})


@pytest.mark.spec("M11")
@pytest.mark.parametrize("path", ["missing", "notes", "", "../x", "a%00b"])
async def test_a_file_that_is_not_there_is_an_error(path: str, era: Era) -> None:
    async with bench(era, *KIT, permissions=READ) as workbench:
        await workbench.session.files.write("/notes/a", b"a")
        error = await failed(workbench, f"capset://files/{path}")
        assert error.data == {"uri": f"capset://files/{path}"}


@pytest.mark.spec("M11")
async def test_a_large_file_is_not_read_in_one_piece(era: Era) -> None:
    async with bench(era, *KIT, permissions=READ) as workbench:
        await workbench.session.files.write("/large", b"x" * (MAX_READ + 1))
        error = await failed(workbench, "capset://files/large")
        assert "8,388,609 bytes; a resource has at most 8,388,608" in error.message


@pytest.mark.spec("M11")
async def test_many_files_are_many_pages() -> None:
    async with bench("auto", *KIT, offers=OFFERS, permissions=READ) as workbench:
        for number in range(PAGE + 5):
            await workbench.session.files.write(f"/{number:04}.txt", b"")
        names: list[str] = []
        cursor: str | None = None
        sizes: list[int] = []
        while True:
            page = await workbench.client.list_resources(cursor=cursor)
            names += [resource.name for resource in page.resources]
            sizes.append(len(page.resources))
            if (cursor := page.next_cursor) is None:
                break
        assert sizes == [PAGE, 7]
        assert names == ["about", "mixed", *(f"/{number:04}.txt" for number in range(PAGE + 5))]
        with pytest.raises(MCPError, match="invalid cursor"):
            await workbench.client.list_resources(cursor="page two")


@pytest.mark.spec("M11")
async def test_variables_complete_to_choices_and_paths(era: Era) -> None:
    async with bench(era, *KIT, offers=OFFERS, permissions=READ) as workbench:
        for path in ("/notes/a.txt", "/notes/b.txt", "/other"):
            await workbench.session.files.write(path, b"")

        async def complete(uri: str, name: str, typed: str) -> list[str]:
            partial_argument: dict[str, Any] = {"name": name, "value": typed}
            return (
                await workbench.client.complete(ResourceTemplateReference(uri=uri), partial_argument)
            ).completion.values

        assert await complete("capset://files/{+path}", "path", "notes/") == ["notes/a.txt", "notes/b.txt"]
        assert await complete("kit://books/{book}/{+path}", "book", "l") == ["law", "lore"]
        assert await complete("kit://books/{book}/{+path}", "path", "l") == []
        for uri, name in (
            ("kit://books", "book"),
            ("kit://books/{book}/{+path}", "page"),
            ("capset://files/{+path}", "x"),
        ):
            with pytest.raises(MCPError) as caught:
                await complete(uri, name, "")
            assert caught.value.code == INVALID_PARAMS


@pytest.mark.spec("M11")
async def test_at_most_a_hundred_values_are_given() -> None:
    async with bench("auto", *KIT, permissions=READ) as workbench:
        for number in range(101):
            await workbench.session.files.write(f"/{number:03}", b"")
        ref = ResourceTemplateReference(uri="capset://files/{+path}")
        completion = (await workbench.client.complete(ref, {"name": "path", "value": ""})).completion
        assert (len(completion.values), completion.total, completion.has_more) == (100, 101, True)


@pytest.mark.spec("M11")
async def test_a_large_file_waits_for_memory_and_a_small_one_does_not() -> None:
    reserved: list[int] = []

    async def reserve(size: int) -> None:
        reserved.append(size)
        if size > 1_000_000:
            raise Unreachable("no memory: retry")

    async with bench("auto", *KIT, permissions=READ) as workbench:
        exchange = Exchange(workbench.session, reserve=reserve)
        async with Client(make_server(lambda: exchange), mode="auto") as client:
            for name, size in (("small", 64 * 1024), ("large", 100_000), ("huge", 400_000)):
                await workbench.session.files.write(f"/{name}", b"x" * size)
            for name in ("small", "large"):
                assert len((await client.read_resource(f"capset://files/{name}")).contents) == 1
            with pytest.raises(MCPError, match="no memory: retry"):
                await client.read_resource("capset://files/huge")
            assert reserved == [300_000, 1_200_000]

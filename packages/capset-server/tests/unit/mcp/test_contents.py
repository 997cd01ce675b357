"""Results with images, audio, resources and links, as MCP clients get them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator

import pytest
from mcp import Client
from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, TextContent
from mcp_types import TextResourceContents as TextOf

from capset import Agent, Capability, Principal, Progress, Reply, tool
from capset.ext import Audio, Content, Embedded, Governance, Image, Link, Text
from capset.kernel.kernel import Kernel
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.server.mcp.support import PREFIX, Era, bench

BYTES = bytes(range(256))


@tool(effect="read")
async def picture() -> Image:
    """Give a picture."""
    return Image(data=BYTES, media_type="image/png")


@tool(effect="read")
def everything() -> list[str | Content]:
    """Give all that there is."""
    return [
        "a word",
        Text(text="another"),
        Image(data=BYTES, media_type="image/png"),
        Audio(data=b"hum", media_type="audio/wav"),
        Embedded(uri="kit://text", text="inside", media_type="text/markdown"),
        Embedded(uri="kit://bytes", data=BYTES),
        Link(uri="kit://far", name="far", description="Far away.", media_type="text/plain"),
    ]


@tool(effect="read")
async def maybe(there: bool) -> AsyncIterator[Progress | Reply[Image | None]]:
    """Give a picture, or none."""
    yield Progress(0.5)
    yield Reply(Image(data=BYTES, media_type="image/png") if there else None)


@tool(effect="read")
async def long() -> list[str | Content]:
    """Give long texts, and a picture."""
    return ["x" * 40_000, Image(data=BYTES, media_type="image/png"), Embedded(uri="kit://y", text="y" * 40_000)]


@pytest.mark.spec("M10")
async def test_an_image_is_an_image(era: Era) -> None:
    async with bench(era, picture) as workbench:
        (picture_tool,) = (await workbench.client.list_tools()).tools
        assert picture_tool.output_schema is None
        result = await workbench.client.call_tool("picture")
        (block,) = result.content
        assert isinstance(block, ImageContent)
        assert (b64decode(block.data, validate=True), block.mime_type) == (BYTES, "image/png")
        assert result.structured_content is None
        assert result.meta is not None
        assert result.meta[f"{PREFIX}record"] == (await workbench.records())[0].id


@pytest.mark.spec("M10")
async def test_a_list_keeps_its_order(era: Era) -> None:
    async with bench(era, everything) as workbench:
        content = (await workbench.client.call_tool("everything")).content
        word, another, image, audio, text, blob, link = content
        assert isinstance(word, TextContent)
        assert isinstance(another, TextContent)
        assert (word.text, another.text) == ("a word", "another")
        assert isinstance(image, ImageContent)
        assert isinstance(audio, AudioContent)
        assert (b64decode(audio.data), audio.mime_type) == (b"hum", "audio/wav")
        assert isinstance(text, EmbeddedResource)
        assert text.resource == TextOf(uri="kit://text", mime_type="text/markdown", text="inside")
        assert isinstance(blob, EmbeddedResource)
        assert isinstance(blob.resource, BlobResourceContents)
        assert (b64decode(blob.resource.blob), blob.resource.mime_type) == (BYTES, "application/octet-stream")
        assert isinstance(link, ResourceLink)
        assert (link.uri, link.name, link.description, link.mime_type) == (
            "kit://far",
            "far",
            "Far away.",
            "text/plain",
        )


@pytest.mark.spec("M10")
async def test_a_stream_may_give_content_or_nothing(era: Era) -> None:
    async with bench(era, maybe) as workbench:
        (block,) = (await workbench.client.call_tool("maybe", {"there": True})).content
        assert isinstance(block, ImageContent)
        assert (await workbench.client.call_tool("maybe", {"there": False})).content == []


@pytest.mark.spec("M10")
async def test_long_texts_are_cut_together_and_media_are_not(era: Era) -> None:
    async with bench(era, long) as workbench:
        result = await workbench.client.call_tool("long")
        text, image = result.content
        assert isinstance(text, TextContent)
        assert isinstance(image, ImageContent)
        assert len(text.text.encode()) <= Governance().result_bytes
        assert result.meta is not None
        _, content = await workbench.session.files.read(result.meta[f"{PREFIX}file"])
        assert content == b"x" * 40_000 + b"\n" + b"y" * 40_000


@pytest.mark.spec("M10")
async def test_elsewhere_it_is_json_that_fits_its_schema() -> None:
    async with bench("auto", everything) as workbench:
        result = await workbench.session.try_message(workbench.session.message("everything", {}))
        assert result.data is not None
        assert result.data[0] == "a word"
        assert result.data[2]["type"] == "image"
        assert b64decode(result.data[2]["data"]) == BYTES
        assert result.data[5] == {
            "type": "resource",
            "uri": "kit://bytes",
            "text": None,
            "data": result.data[2]["data"],
            "media_type": None,
        }


@pytest.mark.spec("M10")
async def test_what_is_masked_stays_masked(era: Era) -> None:
    @tool(effect="read")
    async def tell() -> list[str | Content]:
        """Tell a secret."""
        return ["hunter2", Text(text="it is hunter2")]

    agent = Agent("tester", uses=[Capability("kit", tools=[tell])])
    governance = Governance(redact=["hunter2"])
    async with (
        Kernel(store="memory://", governance=governance) as kernel,
        kernel.open(agent, principal=Principal("ada")) as session,
    ):
        exchange = Exchange(session)
        async with Client(make_server(lambda: exchange), mode=era) as client:
            texts = [block.text for block in (await client.call_tool("tell")).content if isinstance(block, TextContent)]
            assert len(texts) == 2
            assert not any("hunter2" in text for text in texts)

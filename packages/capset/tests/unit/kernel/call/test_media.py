"""Media in results for the models of agents: files of the session, by path."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Capability, tool
from capset.ext import Audio, Content, Embedded, Governance, Image, Link, Text, Turn
from capset.flows import Generator
from tests.helpers.kernel.support import opened

pytestmark = pytest.mark.spec("M10")
reads = tool(effect="read", description="For a test.")
OCTETS = "application/octet-stream"
BYTES = bytes(range(256)) * 1_000


@reads
async def picture() -> Image:
    return Image(data=BYTES, media_type="image/png")


@reads
async def album() -> list[str | Content]:
    return [
        "two:",
        Image(data=BYTES, media_type="image/png"),
        Audio(data=b"hum", media_type="audio/unheard-of"),
        Embedded(uri="kit://a", data=b"a"),
        Embedded(uri="kit://b", text="b"),
        Link(uri="kit://c", name="c"),
        Text(text="done"),
    ]


@reads
async def plain() -> dict[str, str]:
    return {"type": "image", "data": "aGk=", "media_type": "image/png"}


@reads
async def masked() -> Image:
    return Image(data=b"hunter2hunter2", media_type="image/png")


class Runner:
    """Calls tools as a model would, and keeps what it reads."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.read: list[Any] = []
        self.records: list[str] = []

    async def run(self, turn: Turn) -> str:
        step = await turn.step()
        results = [await step.call(name, {}) for name in self.names]
        self.read = [result.data for result in results]
        self.records = [result.record for result in results]
        return "done"


async def called(*names: str, **settings: Any) -> tuple[Runner, dict[str, bytes]]:
    """Have the tools called, and return what was read, and the files of the session."""
    runner = Runner(*names)
    generator = Generator("step", uses=[Capability("kit", tools=[picture, album, plain, masked])])
    async with opened(generator, generator=runner, **settings) as desk:
        await desk.session.run("x")
        entries = [entry for entry in await desk.session.files.list(recursive=True) if not entry.is_directory]
        return runner, {entry.path: (await desk.session.files.read(entry.path))[1] for entry in entries}


async def test_media_are_files_in_their_places() -> None:
    runner, files = await called("picture", "album")
    first, two = runner.records
    assert runner.read == [
        {"type": "file", "path": f"/results/{first}.png", "media_type": "image/png"},
        [
            "two:",
            {"type": "file", "path": f"/results/{two}-2.png", "media_type": "image/png"},
            {"type": "file", "path": f"/results/{two}-3", "media_type": "audio/unheard-of"},
            {"type": "file", "path": f"/results/{two}-4.bin", "media_type": OCTETS, "uri": "kit://a"},
            {"type": "resource", "uri": "kit://b", "text": "b", "data": None, "media_type": None},
            {"type": "resource_link", "uri": "kit://c", "name": "c"}
            | dict.fromkeys(["title", "description", "media_type"]),
            {"type": "text", "text": "done"},
        ],
    ]
    assert files == {
        f"/results/{first}.png": BYTES,
        f"/results/{two}-2.png": BYTES,
        f"/results/{two}-3": b"hum",
        f"/results/{two}-4.bin": b"a",
    }


async def test_data_that_is_no_content_stays_as_it_is() -> None:
    runner, files = await called("plain")
    assert runner.read == [{"type": "image", "data": "aGk=", "media_type": "image/png"}]
    assert files == {}


async def test_what_cannot_be_kept_is_said() -> None:
    runner, files = await called("picture", governance=Governance(file_bytes=10))
    (piece,) = runner.read
    assert piece["type"] == "text"
    assert piece["text"].startswith("[image, image/png, 256,000 bytes: not kept: ")
    assert files == {}


@pytest.mark.spec("G26")
async def test_what_is_masked_is_not_stored() -> None:
    runner, files = await called("masked", governance=Governance(redact=["aHVudGVyMmh1bnRlcjI="]))
    assert runner.read == [{"type": "text", "text": "[image, image/png: masked]"}]
    assert files == {}

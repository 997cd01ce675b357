"""Images in results, as models of turns get them (spec 7, M97)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import BinaryContent, ModelMessage, ToolReturnPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.profiles import ModelProfile

from capset import Agent, Capability, tool
from capset.ext import Content, Image
from tests.helpers.agents.support import Shelf, site

pytestmark = pytest.mark.spec("M97")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(202)


@tool(effect="read")
async def picture() -> list[str | Content]:
    """Give a picture."""
    return ["a dot", Image(data=PNG, media_type="image/png")]


AGENT = Agent("painter", uses=[Capability("kit", tools=[picture])])


@dataclass
class Viewer:
    """A provider whose model asks for a picture first, and the images in each request."""

    status: int | None = None
    """That of the error with which it refuses images."""
    requests: list[list[bytes]] = field(default_factory=list[list[bytes]])

    def model(self, profile: ModelProfile | None = None) -> FunctionModel:
        """Return its model."""

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
            results = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
            self.requests.append([one.data for part in results for one in part.files if isinstance(one, BinaryContent)])
            if self.requests[-1] and self.status is not None:
                raise ModelHTTPError(self.status, "viewer", {"message": "no images"})
            if results:
                yield "I see."
            else:
                yield {0: DeltaToolCall("picture", "{}", tool_call_id="call-1")}

        return FunctionModel(stream_function=stream, model_name="viewer", profile=profile)


async def test_a_model_sees_an_image_in_the_turn_of_its_call_and_none_is_stored(url: str, shelf: Shelf) -> None:
    viewer = Viewer()
    async with site(url, shelf, [], agent=AGENT, model=viewer.model()) as host:
        row = await host.session()
        await host.say(row, "look")
        assert await host.last(row) == ("turn.ended", {"output": "I see."})
        assert viewer.requests == [[], [PNG]]
        await host.say(row, "and now?")
        assert viewer.requests == [[], [PNG], []]
        stored = json.dumps([await host.said(row), await host.told(row)])
        assert "a dot" in stored
        assert b64encode(PNG).decode()[:40] not in stored


@pytest.mark.parametrize("status", [400, 415])
async def test_a_model_that_takes_no_images_is_asked_again_without(url: str, shelf: Shelf, status: int) -> None:
    viewer = Viewer(status)
    async with site(url, shelf, [], agent=AGENT, model=viewer.model()) as host:
        row = await host.session()
        await host.say(row, "look")
        assert await host.last(row) == ("turn.ended", {"output": "I see."})
    assert viewer.requests == [[], [PNG], []]


async def test_a_model_that_is_known_to_take_no_images_is_shown_none(url: str, shelf: Shelf) -> None:
    viewer = Viewer()
    async with site(url, shelf, [], agent=AGENT, model=viewer.model(ModelProfile(supports_image_input=False))) as host:
        row = await host.session()
        await host.say(row, "look")
    assert viewer.requests == [[], []]


async def test_models_of_which_some_may_take_no_images_are_shown_none(url: str, shelf: Shelf) -> None:
    viewer = Viewer()
    async with site(url, shelf, [], agent=AGENT, model=FallbackModel(viewer.model())) as host:
        row = await host.session()
        await host.say(row, "look")
        assert await host.last(row) == ("turn.ended", {"output": "I see."})
    assert viewer.requests == [[], []]

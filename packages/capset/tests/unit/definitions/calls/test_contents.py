from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from capset import tool
from capset.definitions.calls.contents import is_content, pieces_of
from capset.ext import Audio, Content, Embedded, Image, Link, Text


@pytest.mark.spec("M10")
def test_types_are_content_if_all_their_values_are() -> None:
    lists = (list[Image], list[str | Content], Sequence[Audio | Text], tuple[Image, ...], tuple[str, Link])
    annotated = Annotated[list[Annotated[Image, "note"]], "note"]
    for content in (Image, Content, Image | None, str | Embedded, annotated, *lists):
        assert is_content(content), content
    for other in (str, list[str], None, Image | int, list[Image | dict[str, Any]], dict[str, Image], object):
        assert not is_content(other), other


@pytest.mark.spec("M10")
def test_json_of_content_is_published_and_holds() -> None:
    @tool(effect="read")
    async def both() -> list[str | Content]:
        """Give both."""
        return []

    encoded = both.output.jsonable(["a", Image(data=b"\xfb\xff", media_type="image/png")])
    assert encoded == ["a", {"type": "image", "data": "+/8=", "media_type": "image/png"}]
    assert pieces_of(encoded) == [{"type": "text", "text": "a"}, encoded[1]]
    assert pieces_of(None) == []
    assert pieces_of("a") == [{"type": "text", "text": "a"}]
    assert pieces_of(encoded[1]) == [encoded[1]]


@pytest.mark.spec("M10")
def test_a_resource_has_one_form() -> None:
    for wrong in ({}, {"text": "a", "data": b"a"}):
        with pytest.raises(ValidationError, match="text or data, and not both"):
            Embedded(uri="kit://a", **wrong)  # pyright: ignore[reportArgumentType]  # of either type
    assert Embedded(uri="kit://a", text="").text == ""

"""The result of ``web_fetch`` (spec 5, P26)."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from capset.builtin.web_fetch.body import Cut
from capset.builtin.web_fetch.conversion import CUT

Format = Literal["markdown", "text", "raw"]

_SUFFIXES: Final[dict[Cut, str]] = {
    "time": "[..more content timed out...]",
    "size": "[..more content was cut off at {limit} bytes...]",
    "broken": "[..more content did not arrive...]",
    "coding": "[..more content could not be decoded...]",
}
_ANY_SUFFIX: Final = "|".join(re.escape(one).replace(r"\{limit\}", "[0-9]+") for one in _SUFFIXES.values())
_ENDING: Final = re.compile(rf"(?:{_ANY_SUFFIX})\Z")
_LONGEST: Final = 100


class WebPage(TypedDict):
    """An answer of the Web; 4xx and 5xx are answers too."""

    url: Annotated[str, Field(description="The URL that was asked for.")]
    status_code: Annotated[int, Field(description="The status: 200 to 299 is success, 400 and more are failures.")]
    content_type: Annotated[str | None, Field(description="The type of the content, if the server says one.")]
    size: Annotated[
        int | None,
        Field(description="Bytes received; for HEAD and binary content, what the server says, if it does."),
    ]
    last_modified: NotRequired[Annotated[str, Field(description="When it was last modified, as the server says.")]]
    filename: NotRequired[Annotated[str, Field(description="What a file of it would be called.")]]
    format: Annotated[Format, Field(description="What the content was converted to; raw where it was not.")]
    content: NotRequired[Annotated[str, Field(description="The content; not there for HEAD and binary content.")]]
    truncated: Annotated[bool, Field(description="Whether the content ends before its end; its last words say why.")]
    error: NotRequired[Annotated[str, Field(description="Why binary content is not shown.")]]


def suffix_of(cut: Cut | None, limit: int) -> str:
    """Return the note after a truncated content; an empty text after a complete one."""
    return "" if cut is None else _SUFFIXES[cut].format(limit=limit)


def own_text_of(page: WebPage) -> str:
    """Return a page's content without the note about its truncation."""
    text = page.get("content", "")
    if not page["truncated"]:
        return text
    if found := _ENDING.search(text, max(len(text) - _LONGEST, 0)):
        text = text[: found.start()]
    return "" if text == CUT.lstrip() else text.removesuffix(CUT)

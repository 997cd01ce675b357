"""The results of the research tools (spec 5, P18)."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict


class Gathered(TypedDict):
    source: Annotated[int, Field(description="The source's number, by which notes cite it.")]
    citation: Annotated[str, Field(description="The citation to write into a text, such as `[1]`.")]
    title: Annotated[str, Field(description="What the source is called in lists.")]
    url: Annotated[str, Field(description="The URL, without a fragment.")]
    answered_by: NotRequired[Annotated[str, Field(description="The URL that answered, if on another host.")]]
    status_code: Annotated[int, Field(description="The status of the answer, 200 to 299.")]
    fetched_at: Annotated[str, Field(description="When it was fetched, ISO 8601 UTC.")]
    is_new: Annotated[bool, Field(description="Whether it was not there before.")]
    has_changed: Annotated[bool, Field(description="Whether it says something else than when it was fetched before.")]
    characters: Annotated[int, Field(description="How many characters of it are kept.")]
    passages: Annotated[int, Field(description="How many passages of it can be found.")]
    truncated: Annotated[bool, Field(description="Whether the source goes on beyond what is kept.")]
    content: Annotated[str, Field(description="The beginning of it; research_search finds the rest.")]
    is_whole: Annotated[bool, Field(description="Whether content is all of the source.")]


class Noted(TypedDict):
    note: Annotated[int, Field(description="The note's number.")]
    citation: Annotated[str, Field(description="What it cites, such as `[1][2]`.")]
    topic: Annotated[str | None, Field(description="The topic that it is kept under.")]
    notes: Annotated[int, Field(description="How many notes there are now.")]


class Hit(TypedDict):
    kind: Annotated[Literal["source", "note"], Field(description="Whether a source says it, or a note of your own.")]
    citation: Annotated[str, Field(description="What to cite for it; empty for a note that cites nothing.")]
    text: Annotated[str, Field(description="The passage or the note, word for word.")]
    title: NotRequired[Annotated[str, Field(description="The title of the source.")]]
    url: NotRequired[Annotated[str, Field(description="The URL of the source.")]]
    answered_by: NotRequired[Annotated[str, Field(description="The URL that answered, if on another host.")]]
    part: NotRequired[Annotated[int, Field(description="Which passage of the source it is, from 1.")]]
    note: NotRequired[Annotated[int, Field(description="The number of the note.")]]
    topic: NotRequired[Annotated[str, Field(description="The topic of the note.")]]


class Found(TypedDict):
    hits: Annotated[list[Hit], Field(description="What was found: the best first, then the newer.")]
    count: Annotated[int, Field(description="How many were found, up to the limit.")]


class Report(TypedDict):
    report: Annotated[str, Field(description="The report, in Markdown.")]
    notes: Annotated[int, Field(description="How many notes are in it.")]
    cited: Annotated[list[int], Field(description="The numbers of the sources that it cites.")]
    not_cited: Annotated[list[int], Field(description="The numbers of the other sources.")]

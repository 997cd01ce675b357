"""The session data of ``research``: sources, notes, the texts of both, and their limits (spec 5, P18)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from capset import Resource
from capset.ext import Documents

MAX_SOURCES: Final = 200
MAX_URL: Final = 2_048
MAX_TITLE: Final = 200
MAX_TOPIC: Final = 100
_USUAL: Final = (80, 443)


class ResearchConfig(BaseModel):
    """Configuration of ``research``, set by ``research.with_config(ResearchConfig(…))``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_sources: int = Field(default=100, ge=1, le=MAX_SOURCES, description="How many sources a session can gather.")
    max_source_characters: int = Field(
        default=200_000, ge=1_000, le=1_000_000, description="How much text of one source is kept, in characters."
    )
    max_characters: int = Field(
        default=5_000_000, ge=1_000, le=7_500_000, description="How much text of all sources is kept, in characters."
    )
    max_notes: int = Field(default=500, ge=1, le=1_000, description="How many notes can be kept.")
    max_note_characters: int = Field(default=2_000, ge=1, le=8_000, description="How long one note may be.")
    shown: int = Field(
        default=8_000, ge=0, le=50_000, description="How many characters of a source research_fetch shows."
    )


class Source(BaseModel):
    """One source. ``passages`` are the ids of its texts, in order; ``characters`` is how much of it is kept.

    ``url`` is what was asked, and ``answered_by`` what answered, after redirects.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    url: str
    title: str
    status_code: int
    content_type: str | None
    fetched_at: str
    sha256: str
    characters: int
    truncated: bool
    passages: tuple[str, ...]
    answered_by: str | None = None

    @property
    def elsewhere(self) -> str | None:
        """The URL that answered, if on another host than the requested one, which need not vouch for the content."""
        answered = self.answered_by
        return None if answered is None or _host(answered) == _host(self.url) else answered


class Note(BaseModel):
    """One note; its number is its place in the list. ``id`` is that of its text."""

    model_config = ConfigDict(frozen=True)

    id: str
    sources: tuple[int, ...]
    topic: str | None
    created_at: str


def bounded_url(url: str) -> str:
    """Return a URL, or the root of its host if it is too long to store: servers redirect to URLs of any length."""
    return url if len(url) <= MAX_URL else urljoin(url, "/")


def _host(url: str) -> tuple[str | None, int | None]:
    parts = urlsplit(url)
    return parts.hostname, None if parts.port in _USUAL else parts.port


# A crash between two writes may leave a text without an entry. It is never found, and is deleted with the session.
sources = Resource(
    "research_sources", list[Source], scope="session", default=list[Source], description="What was gathered."
)
notes = Resource("research_notes", list[Note], scope="session", default=list[Note], description="What was noted.")
texts = Documents("research_texts", "session", "The passages of sources, and the texts of notes.")


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

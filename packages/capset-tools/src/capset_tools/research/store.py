"""The helper ``ctx.use(research)``: gathers sources, stores notes, searches and reports (spec 5, P18)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from capset import Context, ToolError
from capset.ext import DocumentsHandle, in_thread
from capset_tools.research.citations import check_known, citation, cited_in, folded, report_of, topics_of
from capset_tools.research.passages import clean, kept_of
from capset_tools.research.sources import (
    MAX_TITLE,
    Gathered,
    Hit,
    Note,
    Noted,
    Report,
    ResearchConfig,
    Source,
    bounded_url,
    notes,
    sources,
    texts,
)
from capset_tools.web_fetch import WebFetch, WebPage
from capset_tools.web_fetch.page import own_text_of

_T = TypeVar("_T")
_AT_ONCE: Final = 50
_SECONDS: Final = 3.0
"""How long a cancelled call waits for the work it began; less than its cleanup time."""

_SPARE: Final = 50
"""How many extra texts are requested from a search, to make up for those without an entry."""


async def stored(
    texts: DocumentsHandle,
    parts: Sequence[str],
    name: Callable[[list[str]], Awaitable[_T]],
    named: Callable[[], Awaitable[Collection[str]]],
) -> _T:
    """Store texts, pass their ids in order to ``name``, and return its result.

    If anything fails, the new texts that ``named`` does not list are deleted again. A cancelled call starts no more
    writes, and waits a limited time for those in progress: only then is it known which texts exist. If the store is
    slower than that, the work finishes in the background.
    """
    leaving = asyncio.Event()
    work = asyncio.create_task(_stored(texts, parts, name, named, leaving))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        leaving.set()
        await _ended(work)
        raise


async def forget(texts: DocumentsHandle, ids: Iterable[str]) -> None:
    """Delete texts. Missing ones are ignored."""
    for some in _some([*ids]):
        await asyncio.gather(*(texts.delete(text_id) for text_id in some))


async def _stored(
    texts: DocumentsHandle,
    parts: Sequence[str],
    name: Callable[[list[str]], Awaitable[_T]],
    named: Callable[[], Awaitable[Collection[str]]],
    leaving: asyncio.Event,
) -> _T:
    added: list[str] = []
    try:
        for some in _some(parts):
            _go_on(leaving)
            ended = await asyncio.gather(*(texts.add(text) for text in some), return_exceptions=True)
            added += [document.id for document in ended if not isinstance(document, BaseException)]
            for outcome in ended:
                if isinstance(outcome, BaseException):
                    raise outcome
        _go_on(leaving)
        return await name(added)
    except BaseException:
        named_ids = await named()
        await forget(texts, [text_id for text_id in added if text_id not in named_ids])
        raise


def _go_on(leaving: asyncio.Event) -> None:
    if leaving.is_set():
        raise asyncio.CancelledError


def _some(entries: Sequence[str]) -> Iterable[Sequence[str]]:
    return (entries[begin : begin + _AT_ONCE] for begin in range(0, len(entries), _AT_ONCE))


async def _ended(work: asyncio.Task[Any]) -> None:  # the result is not used
    loop = asyncio.get_running_loop()
    until = loop.time() + _SECONDS
    while not work.done() and (remaining := until - loop.time()) > 0:
        try:
            await asyncio.wait([work], timeout=remaining)
        except asyncio.CancelledError:
            continue  # anyio cancels repeatedly; the caller raises the first cancellation


class Research:
    """The research of one session, for use by code. It checks no permissions; the tools do.

    Args:
        ctx: the context of the call.
        config: the configuration for this session.
        fetcher: returns the ``WebFetch`` to use; called once per fetch.
    """

    def __init__(self, ctx: Context, config: ResearchConfig, fetcher: Callable[[], WebFetch]) -> None:
        self._ctx = ctx
        self._config = config
        self._fetcher = fetcher
        self._sources = ctx.resource(sources)
        self._notes = ctx.resource(notes)
        self._texts = ctx.documents(texts)

    async def sources(self) -> list[Source]:
        """Return all sources, ordered by number."""
        return await self._sources.get()

    async def notes(self) -> list[tuple[Note, str]]:
        """Return all notes with their texts, oldest first."""
        return [(note, await self._text(note)) for note in await self._notes.get()]

    async def fetch(self, url: str, title: str | None = None) -> Gathered:
        """Fetch a page or text and store it as a source. A URL that is fetched again keeps its number.

        Raises ``ToolError``: ``source_failed`` for a status other than 2xx, ``source_not_text``, ``source_empty``,
        ``research_full`` (409), and the errors of ``WebFetch``. An existing source then keeps its earlier text.
        """
        place = url.partition("#")[0]
        self._room(await self._sources.get(), place)
        page, answered_by = await self._fetcher().fetch_with_url(url, as_markdown=True)
        text = _text_of(page)
        limit = min(self._config.max_source_characters, self._room(await self._sources.get(), place))
        excerpt = await in_thread(self._ctx, lambda: kept_of(text, limit))
        before: Source | None = None

        async def name(ids: Sequence[str]) -> list[Source]:
            def gathered(all_sources: list[Source]) -> list[Source]:
                nonlocal before
                before = next((earlier for earlier in all_sources if earlier.url == place), None)
                if self._room(all_sources, place) < len(excerpt.text):
                    raise _full("while this was fetched, others have used up the room for texts")
                source = Source(
                    number=before.number if before else len(all_sources) + 1,
                    url=place,
                    title=_title(
                        title or (before.title if before else excerpt.heading) or page.get("filename") or place
                    ),
                    status_code=page["status_code"],
                    content_type=page["content_type"],
                    fetched_at=self._ctx.now.isoformat(timespec="seconds"),
                    sha256=excerpt.sha256,
                    characters=len(excerpt.text),
                    truncated=page["truncated"] or not excerpt.is_whole,
                    passages=tuple(ids),
                    answered_by=bounded_url(answered_by),
                )
                others = [source if other.number == source.number else other for other in all_sources]
                return others if before else [*all_sources, source]

            updated = await self._sources.update(gathered)
            await forget(self._texts, before.passages if before else ())
            return updated

        now = await stored(self._texts, excerpt.passages, name, self._named)
        source = next(entry for entry in now if entry.url == place)
        answer = Gathered(
            source=source.number,
            citation=citation([source.number]),
            title=source.title,
            url=source.url,
            status_code=source.status_code,
            fetched_at=source.fetched_at,
            is_new=before is None,
            has_changed=before is not None and before.sha256 != excerpt.sha256,
            characters=source.characters,
            passages=len(source.passages),
            truncated=source.truncated,
            content=excerpt.text[: self._config.shown],
            is_whole=len(excerpt.text) <= self._config.shown and not source.truncated,
        )
        return {**answer, "answered_by": source.elsewhere} if source.elsewhere else answer

    async def note(self, text: str, sources: Iterable[int] = (), topic: str | None = None) -> Noted:
        """Store a note that cites ``sources``, and the sources that ``cited_in`` finds in its text.

        Raises ``ToolError`` for an empty or overlong text (``note_refused``), an unknown source (``unknown_source``),
        and if there is no room left (``research_full``, 409).
        """
        cleaned, limit = clean(text), self._config.max_note_characters
        if not cleaned or len(cleaned) > limit:
            raise ToolError(f"a note has 1 to {limit} characters; got {len(cleaned)}", code="note_refused")
        cited = await in_thread(self._ctx, lambda: cited_in(cleaned))
        numbers = tuple(sorted({*sources, *cited}))
        check_known(numbers, await self._sources.get(), cited=cited)
        named = None if topic is None else " ".join(clean(topic).split()) or None
        self._place_for_note(await self._notes.get())

        async def name(ids: Sequence[str]) -> Noted:
            new_note = Note(
                id=ids[0], sources=numbers, topic=named, created_at=self._ctx.now.isoformat(timespec="seconds")
            )

            def added(all_notes: list[Note]) -> list[Note]:
                self._place_for_note(all_notes)
                return [*all_notes, new_note]

            now = await self._notes.update(added)
            number = next(place for place, note in enumerate(now, 1) if note.id == new_note.id)
            return Noted(note=number, citation=citation(numbers), topic=named, notes=len(now))

        return await stored(self._texts, [cleaned], name, self._named)

    async def search(self, query: str, limit: int = 5) -> list[Hit]:
        """Return notes and passages with words that equal or begin with words of the query, best match first."""
        gathered = await self._sources.get()
        sources_by_passage = {
            passage: (source, place) for source in gathered for place, passage in enumerate(source.passages, 1)
        }
        noted = {note.id: (note, place) for place, note in enumerate(await self._notes.get(), 1)}
        hits: list[Hit] = []
        for document in await self._texts.search(query, min(2 * limit + _SPARE, 1_000)):
            if document.id in sources_by_passage:
                source, place = sources_by_passage[document.id]
                cited = citation([source.number])
                hit = Hit(
                    kind="source", citation=cited, text=document.text, title=source.title, url=source.url, part=place
                )
                hits.append({**hit, "answered_by": source.elsewhere} if source.elsewhere else hit)
            elif document.id in noted:
                note, place = noted[document.id]
                hit = Hit(kind="note", citation=citation(note.sources), text=document.text, note=place)
                hits.append({**hit, "topic": note.topic} if note.topic else hit)
        return hits[:limit]

    async def report(self, title: str = "Research", topic: str | None = None) -> Report:
        """Return the notes by topic with their citations and sources, in Markdown; only those of ``topic`` if given.

        Raises ``ToolError`` for a topic without notes (``unknown_topic``).
        """
        noted, all_sources = await self.notes(), await self._sources.get()
        if topic is not None:
            topics = topics_of([note for note, _ in noted])
            noted = [entry for entry in noted if folded(entry[0].topic) == folded(topic)]
            if not noted:
                raise _unknown_topic(topic, [spelling for spelling in topics if spelling is not None])
        cited = sorted({number for note, _ in noted for number in note.sources})
        ordered_topics = topics_of([note for note, _ in noted])
        return Report(
            report=await in_thread(self._ctx, lambda: report_of(title, noted, all_sources, ordered_topics)),
            notes=len(noted),
            cited=cited,
            not_cited=[source.number for source in all_sources if source.number not in cited],
        )

    async def _text(self, note: Note) -> str:
        document = await self._texts.get(note.id)
        if document is None:
            raise ToolError("the text of a note is no longer stored", code="note_lost", status=500)
        return document.text

    def _room(self, all_sources: Sequence[Source], place: str) -> int:
        """Return how many characters of a source can be stored. Raises ``ToolError`` if there is no room."""
        others = [source for source in all_sources if source.url != place]
        if len(others) >= self._config.max_sources:
            raise _full(f"it has {len(others)} sources, as many as there can be")
        remaining = self._config.max_characters - sum(source.characters for source in others)
        if remaining <= 0:
            raise _full(f"its sources have {self._config.max_characters:,} characters, as many as are kept")
        return remaining

    def _place_for_note(self, all_notes: Sequence[Note]) -> None:
        if len(all_notes) >= self._config.max_notes:
            raise _full(f"it has {len(all_notes)} notes, as many as there can be")

    async def _named(self) -> set[str]:
        """Return the ids of all texts that have an entry."""
        passages = {passage for source in await self._sources.get() for passage in source.passages}
        return passages | {note.id for note in await self._notes.get()}


def _text_of(page: WebPage) -> str:
    status, url = page["status_code"], page["url"]
    if not 200 <= status < 300:
        raise ToolError(f"{url} answered with status {status}: it was not kept as a source", code="source_failed")
    if "content" not in page:
        why = page.get("error", "there is no content")
        raise ToolError(f"{url} has no text, and it was not kept: {why}", code="source_not_text")
    text = own_text_of(page).strip()
    if not text:
        raise ToolError(f"{url} has no text in it, and it was not kept", code="source_empty")
    return text


def _title(text: str) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"


def _full(why: str) -> ToolError:
    return ToolError(
        f"the research of this session is full: {why}; go on with what there is", code="research_full", status=409
    )


def _unknown_topic(topic: str, topics: Sequence[str]) -> ToolError:
    near = get_close_matches(topic, topics, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, topics)) or 'no topics yet'}"
    return ToolError(f"no note has the topic {topic!r}; {hint}", code="unknown_topic")

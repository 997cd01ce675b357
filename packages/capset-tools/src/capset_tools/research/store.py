"""The helper that gathers, notes, finds and reports: ``ctx.use(research)`` (spec 5, P18)."""

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
"""How long a cancelled call waits for the work it began: less than its cleanup time."""

_SPARE: Final = 50
"""How many more texts than wanted are looked up, to make up for those without an entry."""


async def stored(
    texts: DocumentsHandle,
    parts: Sequence[str],
    name: Callable[[list[str]], Awaitable[_T]],
    named: Callable[[], Awaitable[Collection[str]]],
) -> _T:
    """Store texts, let ``name`` store their ids, in order, and return its result.

    If anything fails, the new texts that ``named`` does not list are deleted again. A cancelled call begins nothing
    more and waits, bounded, for the work it began: only then is it known which texts exist. If the store is too slow
    for that, the rest of the work finishes by itself.
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
    """Delete texts; a missing one is no error."""
    for some in _some([*ids]):
        await asyncio.gather(*(texts.delete(one) for one in some))


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
            added += [one.id for one in ended if not isinstance(one, BaseException)]
            for one in ended:
                if isinstance(one, BaseException):
                    raise one
        _go_on(leaving)
        return await name(added)
    except BaseException:
        there = await named()
        await forget(texts, [one for one in added if one not in there])
        raise


def _go_on(leaving: asyncio.Event) -> None:
    if leaving.is_set():
        raise asyncio.CancelledError


def _some(entries: Sequence[str]) -> Iterable[Sequence[str]]:
    return (entries[begin : begin + _AT_ONCE] for begin in range(0, len(entries), _AT_ONCE))


async def _ended(work: asyncio.Task[Any]) -> None:  # of any result, which is not used any more
    loop = asyncio.get_running_loop()
    until = loop.time() + _SECONDS
    while not work.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait([work], timeout=left)
        except asyncio.CancelledError:
            continue  # anyio cancels again and again; the first cancellation is raised in the end


class Research:
    """One session's research, for code. It checks no permissions: that is up to the tools.

    Args:
        ctx: the context of the call.
        config: the configuration for this session.
        fetcher: returns the fetcher, when something is to be fetched.
    """

    def __init__(self, ctx: Context, config: ResearchConfig, fetcher: Callable[[], WebFetch]) -> None:
        self._ctx = ctx
        self._config = config
        self._fetcher = fetcher
        self._sources = ctx.resource(sources)
        self._notes = ctx.resource(notes)
        self._texts = ctx.documents(texts)

    async def sources(self) -> list[Source]:
        """Return all sources, by number."""
        return await self._sources.get()

    async def notes(self) -> list[tuple[Note, str]]:
        """Return all notes with their texts, oldest first."""
        return [(note, await self._text(note)) for note in await self._notes.get()]

    async def fetch(self, url: str, title: str | None = None) -> Gathered:
        """Fetch a page or text and store it as a source. A URL has one number, however often it is fetched.

        Raises ``ToolError``: ``source_failed`` for a status other than success, ``source_not_text``, ``source_empty``,
        ``research_full`` (409), and those of ``WebFetch``. A source that existed before then keeps its earlier text.
        """
        place = url.partition("#")[0]
        self._room(await self._sources.get(), place)
        page, answered_by = await self._fetcher().fetch_with_url(url, as_markdown=True)
        text = _text_of(page)
        most = min(self._config.max_source_characters, self._room(await self._sources.get(), place))
        kept = await in_thread(self._ctx, lambda: kept_of(text, most))
        before: Source | None = None

        async def name(ids: Sequence[str]) -> list[Source]:
            def gathered(there: list[Source]) -> list[Source]:
                nonlocal before
                before = next((one for one in there if one.url == place), None)
                if self._room(there, place) < len(kept.text):
                    raise _full("while this was fetched, others have used up the room for texts")
                source = Source(
                    number=before.number if before else len(there) + 1,
                    url=place,
                    title=_title(title or (before.title if before else kept.heading) or page.get("filename") or place),
                    status_code=page["status_code"],
                    content_type=page["content_type"],
                    fetched_at=self._ctx.now.isoformat(timespec="seconds"),
                    sha256=kept.sha256,
                    characters=len(kept.text),
                    truncated=page["truncated"] or not kept.is_whole,
                    passages=tuple(ids),
                    answered_by=bounded_url(answered_by),
                )
                others = [source if one.number == source.number else one for one in there]
                return others if before else [*there, source]

            made = await self._sources.update(gathered)
            await forget(self._texts, before.passages if before else ())
            return made

        now = await stored(self._texts, kept.passages, name, self._named)
        source = next(one for one in now if one.url == place)
        answer = Gathered(
            source=source.number,
            citation=citation([source.number]),
            title=source.title,
            url=source.url,
            status_code=source.status_code,
            fetched_at=source.fetched_at,
            is_new=before is None,
            has_changed=before is not None and before.sha256 != kept.sha256,
            characters=source.characters,
            passages=len(source.passages),
            truncated=source.truncated,
            content=kept.text[: self._config.shown],
            is_whole=len(kept.text) <= self._config.shown and not source.truncated,
        )
        return {**answer, "answered_by": source.elsewhere} if source.elsewhere else answer

    async def note(self, text: str, sources: Iterable[int] = (), topic: str | None = None) -> Noted:
        """Store a note and its citations: ``sources``, and those in the text, as ``cited_in`` finds them.

        Raises ``ToolError`` for an empty or overlong text (``note_refused``), an unknown source (``unknown_source``),
        and if there is no more room (``research_full``, 409).
        """
        kept, most = clean(text), self._config.max_note_characters
        if not kept or len(kept) > most:
            raise ToolError(f"a note has 1 to {most} characters; got {len(kept)}", code="note_refused")
        cited = await in_thread(self._ctx, lambda: cited_in(kept))
        numbers = tuple(sorted({*sources, *cited}))
        check_known(numbers, await self._sources.get(), cited=cited)
        named = None if topic is None else " ".join(clean(topic).split()) or None
        self._place_for_note(await self._notes.get())

        async def name(ids: Sequence[str]) -> Noted:
            made = Note(id=ids[0], sources=numbers, topic=named, created_at=self._ctx.now.isoformat(timespec="seconds"))

            def added(there: list[Note]) -> list[Note]:
                self._place_for_note(there)
                return [*there, made]

            now = await self._notes.update(added)
            number = next(place for place, one in enumerate(now, 1) if one.id == made.id)
            return Noted(note=number, citation=citation(numbers), topic=named, notes=len(now))

        return await stored(self._texts, [kept], name, self._named)

    async def search(self, query: str, limit: int = 5) -> list[Hit]:
        """Return the notes and passages with words that equal or begin with words of the query, the best first."""
        gathered = await self._sources.get()
        known = {passage: (one, place) for one in gathered for place, passage in enumerate(one.passages, 1)}
        noted = {one.id: (one, place) for place, one in enumerate(await self._notes.get(), 1)}
        hits: list[Hit] = []
        for found in await self._texts.search(query, min(2 * limit + _SPARE, 1_000)):
            if found.id in known:
                source, place = known[found.id]
                cited = citation([source.number])
                hit = Hit(
                    kind="source", citation=cited, text=found.text, title=source.title, url=source.url, part=place
                )
                hits.append({**hit, "answered_by": source.elsewhere} if source.elsewhere else hit)
            elif found.id in noted:
                note, place = noted[found.id]
                hit = Hit(kind="note", citation=citation(note.sources), text=found.text, note=place)
                hits.append({**hit, "topic": note.topic} if note.topic else hit)
        return hits[:limit]

    async def report(self, title: str = "Research", topic: str | None = None) -> Report:
        """Return the notes by topic with their citations and sources, in Markdown; only those of ``topic`` if given.

        Raises ``ToolError`` for a topic without notes (``unknown_topic``).
        """
        noted, known = await self.notes(), await self._sources.get()
        if topic is not None:
            topics = topics_of([note for note, _ in noted])
            noted = [one for one in noted if folded(one[0].topic) == folded(topic)]
            if not noted:
                raise _unknown_topic(topic, [one for one in topics if one is not None])
        cited = sorted({number for note, _ in noted for number in note.sources})
        listed = topics_of([note for note, _ in noted])
        return Report(
            report=await in_thread(self._ctx, lambda: report_of(title, noted, known, listed)),
            notes=len(noted),
            cited=cited,
            not_cited=[one.number for one in known if one.number not in cited],
        )

    async def _text(self, note: Note) -> str:
        found = await self._texts.get(note.id)
        if found is None:
            raise ToolError("the text of a note is not there any more", code="note_lost", status=500)
        return found.text

    def _room(self, there: Sequence[Source], place: str) -> int:
        """Return how many characters of a source can be stored. Raises ``ToolError`` if there is no room at all."""
        others = [one for one in there if one.url != place]
        if len(others) >= self._config.max_sources:
            raise _full(f"it has {len(others)} sources, as many as there can be")
        left = self._config.max_characters - sum(one.characters for one in others)
        if left <= 0:
            raise _full(f"its sources have {self._config.max_characters:,} characters, as many as are kept")
        return left

    def _place_for_note(self, there: Sequence[Note]) -> None:
        if len(there) >= self._config.max_notes:
            raise _full(f"it has {len(there)} notes, as many as there can be")

    async def _named(self) -> set[str]:
        """Return the ids of all texts that have an entry."""
        passages = {passage for one in await self._sources.get() for passage in one.passages}
        return passages | {one.id for one in await self._notes.get()}


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


def _unknown_topic(topic: str, known: Sequence[str]) -> ToolError:
    near = get_close_matches(topic, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, known)) or 'no topics yet'}"
    return ToolError(f"no note has the topic {topic!r}; {hint}", code="unknown_topic")

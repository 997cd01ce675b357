"""The conversation of a session: its turns, live, and the actions on them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from capset.errors import CapsetError, NotFound, PermissionDenied
from capset_server.console.forms import number
from capset_server.console.markup import SHOWN, shorten
from capset_server.console.page import PageRequest, PageRoute
from capset_server.console.transcripts.conversation import Transcript, TranscriptEntry, TranscriptTurn, prompt_text
from capset_server.console.transcripts.events import SessionEvent, session_events, whole_event
from capset_server.console.transcripts.timeline import timeline_of
from capset_server.rest.calls import EventStream

WINDOW: Final = 500
"""The number of newest events that a page starts with, or more if the newest turn has more."""
_MOST: Final = 10_000
_MESSAGES: Final = 100
"""Number of newest messages that are searched for the prompts of turns."""
_PAGES: Final = 3
_TRIES: Final = 8
"""How often a turn's prompt is looked up: it is stored a moment after the turn starts."""
_CHECK_SECONDS: Final = 1.0
"""Seconds between checks of a stream's sign-in."""
_OPEN: Final = ("pending", "approved")
"""Statuses of requests that can still change: an approval for one call becomes ``used``."""
_LINES: Final = re.compile("\r\n|\r|\n")


async def read_conversation(page: PageRequest, newest: int) -> tuple[Transcript, int]:
    """Return a session's conversation from its ``newest`` events, and the number before its first event.

    If the newest turn began earlier, it is made from more events.
    """
    conversation, start = Transcript(), None
    async with aclosing(session_events(page.api, page.params["id"], newest=min(newest, _MOST))) as events:
        async for event in events:
            if event is not None:
                start = event.seq - 1 if start is None else start
                conversation.add(event)
    turn = conversation.newest
    if turn is not None and not turn.is_whole and start and conversation.gap is None and newest < _MOST:
        return await read_conversation(page, 4 * newest)
    await _complete(page, conversation.turns.values())
    return conversation, start or 0


def runner_refusal(page: PageRequest) -> str | None:
    """Return why this server runs no turns, ``None`` if it does."""
    try:
        page.service.turns.check_runner()
    except CapsetError as error:
        return error.message
    return None


async def send_message(page: PageRequest) -> Response:
    """Start a turn. A form that is sent twice starts only one."""
    session, content = page.params["id"], page.form.text("content")
    if content is not None:
        headers = {"idempotency-key": page.form.get("once", "") or page.service.kernel.new_id()}
        path = ("sessions", session, "messages")
        await page.api.send("POST", *path, body={"content": content}, headers=headers)
    if page.is_fragment:
        return page.render("sessions/composer.html", session=session, once=page.service.kernel.new_id(), said="")
    return page.redirect("sessions", session)


async def stream(page: PageRequest) -> Response:
    """Stream the events of a session as parts of its page."""
    await page.api.get("sessions", page.params["id"])
    start, last = number(page.query, "start") or 0, number(page.query, "after") or 0
    event_id = page.request.headers.get("last-event-id", "")
    last = int(event_id) if event_id.isascii() and event_id.isdigit() and len(event_id) <= 15 else last
    events = session_events(page.api, page.params["id"], after=min(start, last), follow=True)
    await anext(events)  # raises a refusal by REST before the response starts
    return _Stream(page, events, last)


class _Stream(Response):
    """A stream of parts of the page, for as long as the sign-in is valid."""

    def __init__(self, page: PageRequest, events: AsyncGenerator[SessionEvent | None], last: int) -> None:
        super().__init__()
        self._page = page
        self._events = events
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream at the client's pace. Raises ``ClientLeft`` when it disconnects."""
        async with aclosing(self._events), aclosing(self._parts()) as parts:
            await EventStream(send, self._page.service.limits).send_parts(parts, receive)

    async def _parts(self) -> AsyncGenerator[bytes]:
        loop, conversation = asyncio.get_running_loop(), Transcript()
        checked_at = loop.time()
        yield b"retry: 1000\n\n"
        async for event in self._events:
            if loop.time() > checked_at + _CHECK_SECONDS:
                if not await self._page.is_signed_in():
                    return
                checked_at = loop.time()
            if event is not None:
                changes = conversation.add(event)
                if event.seq > self._last:
                    turn = changes.turn
                    before = None if turn is None else turn.prompt
                    if turn is not None and changes.appended is None:
                        await _complete(self._page, [turn])
                    is_told = turn is not None and turn.prompt != before and not changes.is_new_turn
                    html = self._page.fragment(
                        "sessions/live.html",
                        session=self._page.params["id"],
                        conversation=conversation,
                        changes=changes,
                        is_told=is_told,
                    )
                    yield _event(event.seq, html.decode())


def _event(seq: int, html: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in _LINES.split(html)) if html.strip() else ""
    return f"id: {seq}\n{lines}\n".encode()


async def _complete(page: PageRequest, turns: Iterable[TranscriptTurn]) -> None:
    """Add what events do not contain: the prompts, and the outcomes of approval requests."""
    pending = [turn for turn in turns if turn.prompt is None and turn.asked < _TRIES]
    if pending:
        await _add_prompts(page, pending)
    for turn in turns:
        for entry in turn.entries:
            if entry.kind == "approval" and (entry.request is None or entry.request["status"] in _OPEN):
                entry.request = await page.api.find("approvals", entry.data["id"])


async def _add_prompts(page: PageRequest, turns: list[TranscriptTurn]) -> None:
    path = ("sessions", page.params["id"], "messages")
    total: int = (await page.api.get(*path, limit=1))["total"]
    after = first = max(0, total - _MESSAGES)
    prompts, kept_turns = dict[str, str](), set[str]()
    for _ in range(_PAGES):
        batch = await page.api.get(*path, after=after, limit=_MESSAGES)
        for item in batch["items"]:
            kept_turns.add(item["turn"])
            text = prompt_text(item["message"]) if item["kind"] == "message" else None
            if text is not None and item["turn"] not in prompts:
                prompts[item["turn"]] = shorten(text, SHOWN)
        after = batch["next"]
        if after is None:
            break
    for turn in turns:
        turn.asked += 1
        turn.prompt = prompts.get(turn.id)
        turn.is_kept = turn.id in kept_turns or first > 0 or not turn.is_over


async def cancel(page: PageRequest) -> Response:
    """Cancel a turn."""
    return await _act(page, "cancel")


async def resume(page: PageRequest) -> Response:
    """Continue a turn that has failed temporarily, or waits for its caller."""
    return await _act(page, "resume")


async def _act(page: PageRequest, verb: str) -> Response:
    session = page.params["id"]
    await page.api.send("POST", "sessions", session, "turns", page.params["turn"], verb)
    return Response(status_code=204) if page.is_fragment else page.redirect("sessions", session)


async def rewind(page: PageRequest) -> Response:
    """Rewind the conversation to before a turn."""
    session = page.params["id"]
    await page.api.send("POST", "sessions", session, "rewind", body={"turn": page.params["turn"]})
    notice = "The conversation was rewound. This does not undo what the turns have done."
    return page.redirect("sessions", session, told=notice)


async def fork(page: PageRequest) -> Response:
    """Start another session with the conversation up to the end of a turn."""
    forked = await page.api.send("POST", "sessions", page.params["id"], "fork", body={"turn": page.params["turn"]})
    return page.redirect("sessions", forked["id"], told="This session has the same conversation. Files are not copied.")


async def show_approval(page: PageRequest) -> Response:
    """Show the outcome of a request that a turn waits for; nothing while it is pending."""
    request = await page.api.get("approvals", page.params["approval"])
    if request["status"] == "pending":
        return Response(status_code=204)
    return _approval(page, request)


async def decide(page: PageRequest) -> Response:
    """Decide a request that a turn of this session waits for."""
    session, approval = page.params["id"], page.params["approval"]
    await page.api.get("sessions", session)
    verb = "approve" if page.form.get("answer") == "approve" else "reject"
    if verb == "approve" and (await page.api.get("approvals", approval))["masked"]:
        raise PermissionDenied("Permission denied: a part of the arguments is masked here; open the request to approve")
    body: dict[str, Any] = {"note": page.form.text("note")}
    request = await page.api.send("POST", "approvals", approval, verb, body=body)
    return _approval(page, request) if page.is_fragment else page.redirect("sessions", session)


def _approval(page: PageRequest, request: dict[str, Any]) -> Response:
    entry = TranscriptEntry("", 0, "approval", "", data={"id": request["id"]}, request=request)
    return page.render("sessions/approval.html", session=page.params["id"], entry=entry)


async def show_event(page: PageRequest) -> Response:
    """Show the whole of one event, such as a long result."""
    seq = number(page.params, "seq") or 0
    event = await whole_event(page.api, page.params["id"], seq)
    if event is None:
        raise NotFound(f"event {seq} of this session is no longer stored")
    data: dict[str, Any] = event["data"]
    value = next((data[name] for name in ("data", "output", "text", "arguments") if name in data), data)
    return page.render("sessions/event.html", session=page.params["id"], event=event, value=value)


async def show_turn(page: PageRequest) -> Response:
    """Show the timeline of a turn. Its events come ``after`` a number in the link to this page."""
    turn, session, after = page.params["turn"], page.params["id"], number(page.query, "after")
    events: list[SessionEvent] = []
    newest = _MOST if after is None else None
    async with aclosing(session_events(page.api, session, after=after or 0, newest=newest)) as event_feed:
        async for event in event_feed:
            if event is not None and event.turn == turn:
                events.append(event)
            elif event is not None and events:
                break  # another turn has begun
    if not events:
        raise NotFound(f"there is no turn {turn!r} of this session, or its events are no longer stored")
    return page.render("sessions/timeline.html", session=session, line=timeline_of(events))


ROUTES = (
    PageRoute("POST", "/sessions/{id}/messages", send_message),
    PageRoute("GET", "/sessions/{id}/events", stream),
    PageRoute("GET", "/sessions/{id}/events/{seq}", show_event),
    PageRoute("GET", "/sessions/{id}/turns/{turn}", show_turn),
    PageRoute("POST", "/sessions/{id}/turns/{turn}/cancel", cancel),
    PageRoute("POST", "/sessions/{id}/turns/{turn}/resume", resume),
    PageRoute("POST", "/sessions/{id}/turns/{turn}/rewind", rewind),
    PageRoute("POST", "/sessions/{id}/turns/{turn}/fork", fork),
    PageRoute("GET", "/sessions/{id}/approvals/{approval}", show_approval),
    PageRoute("POST", "/sessions/{id}/approvals/{approval}", decide),
)

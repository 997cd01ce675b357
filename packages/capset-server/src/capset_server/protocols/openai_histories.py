"""Histories that clients of Chat Completions send whole: each stands for the conversation that the server has.

Nothing of a history is used. It is compared with what was said in the newest conversations of its principal with the
agent, and with what the clients of these were told; the turn goes on in the one that is the same, word for word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.errors import InvalidArguments, StateError
from capset.stores.base import EventRow, SessionQuery, SessionRow
from capset.wire.pages import PAGE_BYTES
from capset_server.auth.callers import Caller
from capset_server.protocols.openai_chat import ASKS, CompletionBuilder
from capset_server.protocols.openai_requests import CONTEXT
from capset_server.protocols.turn_items import Stop, TurnItems
from capset_server.service import Service

MOST: Final = 50
"""How many of the newest conversations are looked at."""
_PAGE: Final = 200


async def find_conversation(
    service: Service, caller: Caller, agent_id: str, history: Sequence[str], session: str | None
) -> SessionRow:
    """Return the session of a caller whose conversation is a history: texts of the user and of answers in turn.

    It is the named ``session``, or else the newest that fits: conversations that are the same to the last letter stand
    for each other. Raises ``InvalidArguments`` if there is none.
    """
    if session is not None:
        rows: Sequence[SessionRow] = [await service.session_row(caller, session)]
    else:
        principal = caller.principal
        loaded = await service.agents.active(principal.org, agent_id)
        query = SessionQuery(principal.org, principal.id, principal.kind, loaded.id, principal.on_behalf_of, limit=MOST)
        rows = (await service.kernel.store.sessions.list(query)).items
    latest = await service.kernel.store.events.latest([row.id for row in rows])
    for row in rows:
        try:
            if (last := latest.get(row.id)) and await _is_said(service, row, last, history):
                return row
        except StateError:  # it was deleted just now
            continue
    where = f"the session {session!r}" if session is not None else f"any of your {MOST} newest sessions with the agent"
    raise InvalidArguments(
        f"messages has a history that differs from what was said in {where}: send it as it was told, or only the new "
        "message of the user, with metadata.session, which each answer has, to go on, or without it to begin"
    )


async def _is_said(service: Service, row: SessionRow, last: int, history: Sequence[str]) -> bool:
    events = service.kernel.store.events
    newest = (await events.read(row.id, after=last - 1, limit=1)).items
    if not newest or not _may_end_with(history[-1], newest[0]):  # most others are told apart by this
        return False
    exchanges = await _exchanges(service, row, await _prompts(service, row))
    questions, answered = history[::2], history[1::2]
    return len(exchanges) == len(answered) and all(
        prompt.strip() == questions[number].strip() and answered[number].strip() in replies
        for number, (prompt, replies) in enumerate(exchanges)
    )


def _may_end_with(answer: str, newest: EventRow) -> bool:
    """Return whether a conversation can have this answer, by its newest event.

    An answer that was told while the turn waited ends otherwise than the turn.
    """
    data: dict[str, Any] = from_json(newest.data)
    output: object = data.get("output")
    if newest.type != "turn.ended" or not isinstance(output, str) or data.get("file") or ASKS in answer:
        return True
    return answer.strip().endswith(output.strip())


async def _prompts(service: Service, row: SessionRow) -> dict[str, str]:
    """Return what the agent was told in each turn of the conversation, by the turns' ids, in order."""
    prompts, after, events = dict[str, str](), 0, service.kernel.store.events
    while (page := await events.messages(row.id, after=after, max_bytes=PAGE_BYTES)).items:
        for message in page.items:
            if (
                message.kind == "message"
                and message.turn not in prompts
                and (prompt := _prompt(from_json(message.data))) is not None
            ):
                prompts[message.turn] = prompt
        after = page.items[-1].seq
    return prompts


def _prompt(message: object) -> str | None:
    """Return the text of the user in a message as the runner of agents stores it."""
    texts = _texts(message)
    own_texts = texts[1:] if _has_context(texts) else texts
    return "\n".join(own_texts) if own_texts else None


def _texts(message: object) -> Sequence[str]:
    """Return the texts of the prompt in a message, none of one with other parts."""
    parts: object = cast("dict[str, object]", message).get("parts") if isinstance(message, dict) else None
    for part in cast("list[object]", parts) if isinstance(parts, list) else ():
        if isinstance(part, dict) and (members := cast("dict[str, object]", part)).get("part_kind") == "user-prompt":
            content = members.get("content")
            items = cast("list[object]", content) if isinstance(content, list) else [content]
            texts = [item for item in items if isinstance(item, str)]
            return texts if len(texts) == len(items) else ()
    return ()


def _has_context(texts: Sequence[str]) -> bool:
    return len(texts) > 1 and texts[0].startswith(CONTEXT)


async def newest_context(service: Service, row: SessionRow) -> str | None:
    """Return the system text that a client has given last in a conversation, as far as its model still reads that."""
    context, after, events = None, None, service.kernel.store.events
    while (page := await events.messages(row.id, after=after, max_bytes=PAGE_BYTES)).items:
        for message in page.items:
            texts: Sequence[str] = _texts(from_json(message.data)) if message.kind == "message" else []
            if _has_context(texts):
                context = texts[0].removeprefix(CONTEXT)
        after = page.items[-1].seq
    return context


async def _exchanges(service: Service, row: SessionRow, prompts: dict[str, str]) -> list[tuple[str, set[str]]]:
    """Return each turn of a conversation that did not fail: what was said, and the texts that clients were told.

    A turn that waited for an approval has told two: up to there, and in the end.
    """
    replies: dict[str, set[str]] = {turn: set() for turn in prompts}
    readers = {turn: (TurnItems(), CompletionBuilder("", "", 0, {})) for turn in prompts}
    failed, after, events = set[str](), 0, service.kernel.store.events
    while (page := await events.read(row.id, after=after, limit=_PAGE)).items:
        for event in page.items:
            after = event.seq
            if event.turn not in readers:
                continue
            items, builder = readers[event.turn]
            for item in items.read(event):
                for _ in builder.add(item):
                    pass
                if isinstance(item, Stop):
                    (failed.add if builder.failed else failed.discard)(event.turn)
                    replies[event.turn].add(builder.text.strip())
    return [(prompt, replies[turn]) for turn, prompt in prompts.items() if turn not in failed]

"""Matching of histories, which Chat Completions clients send whole, to the conversations on this server.

A history is only compared, never used as content. It is compared with the principal's newest conversations with the
agent, as their clients received them. The turn continues the conversation that is the same, word for word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.errors import InvalidArguments, StateError
from capset.stores.base import EventRow, SessionQuery, SessionRow
from capset.wire.pages import PAGE_BYTES
from capset_server.approvals.decisions import connection_page_of
from capset_server.auth.callers import Caller
from capset_server.protocols.openai_chat import ASKS, CompletionBuilder
from capset_server.protocols.openai_requests import CONTEXT
from capset_server.protocols.turn_items import Stop, TurnItems
from capset_server.service import Service

MOST: Final = 50
"""How many of the newest conversations are searched."""
_PAGE: Final = 200


async def find_conversation(
    service: Service, caller: Caller, agent_id: str, history: Sequence[str], session: str | None
) -> SessionRow:
    """Return the caller's session whose conversation equals ``history``: alternating texts of the user and of answers.

    If ``session`` is given, only that session is compared; otherwise, the newest match is returned, since identical
    conversations are interchangeable. Raises ``InvalidArguments`` if there is no match.
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
        f"the history in messages does not match the conversation in {where}: send it unchanged, or send only the "
        "user's new message, with metadata.session of an earlier answer to continue, or without it to begin"
    )


async def _is_said(service: Service, row: SessionRow, last: int, history: Sequence[str]) -> bool:
    events = service.kernel.store.events
    newest = (await events.read(row.id, after=last - 1, limit=1)).items
    if not newest or not _may_end_with(history[-1], newest[0]):  # this rules out most other sessions
        return False
    exchanges = await _exchanges(service, row, await _prompts(service, row))
    questions, answered = history[::2], history[1::2]
    return len(exchanges) == len(answered) and all(
        prompt.strip() == questions[number].strip() and answered[number].strip() in replies
        for number, (prompt, replies) in enumerate(exchanges)
    )


def _may_end_with(answer: str, newest: EventRow) -> bool:
    """Return whether a conversation can end with this answer, judging by its newest event.

    An answer that was sent while the turn waited ends differently from the turn.
    """
    data: dict[str, Any] = from_json(newest.data)
    output: object = data.get("output")
    if newest.type != "turn.ended" or not isinstance(output, str) or data.get("file") or ASKS in answer:
        return True
    return answer.strip().endswith(output.strip())


async def _prompts(service: Service, row: SessionRow) -> dict[str, str]:
    """Return the user's prompt in each turn of the conversation, by the turns' ids, in order."""
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
    """Return the user's text in a message as ``AgentRunner`` stores it, without the client's context."""
    texts = _texts(message)
    own_texts = texts[1:] if _has_context(texts) else texts
    return "\n".join(own_texts) if own_texts else None


def _texts(message: object) -> Sequence[str]:
    """Return the texts of the prompt in a message, or none if the prompt has other parts."""
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
    """Return the system text that clients sent last in a conversation, since its newest summary if there is one."""
    context, after, events = None, None, service.kernel.store.events
    while (page := await events.messages(row.id, after=after, max_bytes=PAGE_BYTES)).items:
        for message in page.items:
            texts: Sequence[str] = _texts(from_json(message.data)) if message.kind == "message" else []
            if _has_context(texts):
                context = texts[0].removeprefix(CONTEXT)
        after = page.items[-1].seq
    return context


async def _exchanges(service: Service, row: SessionRow, prompts: dict[str, str]) -> list[tuple[str, set[str]]]:
    """Return the prompt of each turn that did not fail, with the texts that clients received for it.

    A turn that waited for an approval has several: the text up to each wait, and the final one.
    """
    replies: dict[str, set[str]] = {turn: set() for turn in prompts}
    url = connection_page_of(service)
    readers = {turn: (TurnItems(connect_url=url), CompletionBuilder("", "", 0, {})) for turn in prompts}
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

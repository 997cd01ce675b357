"""Threads of front ends as a page shows them that loads again: what was said, and what their turn waits for (P95).

The conversation is read as the runner of agents stores it, and written by pydantic-ai for each protocol (extra
``agent``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final

from ag_ui.core import Message
from fastapi import Request
from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_ai.ui.vercel_ai import VercelAIAdapter

from capset.errors import Conflict
from capset.stores.base import SUSPENDED, EventStore, MessageRow, SessionRow
from capset.wire.pages import PAGE_BYTES
from capset_server.auth.callers import Caller
from capset_server.http.request_context import request_context
from capset_server.protocols.exchange import BEGINNINGS, AgentExchange, follow_turn, newest_event
from capset_server.protocols.turn_items import Item, Stop, ToolUse, TurnItems
from capset_server.service import Service

MOST_MESSAGES: Final = 1_000
"""How many of the newest messages of a conversation are shown."""
MOST_BYTES: Final = 16 * 2**20
"""How large they may be together, as they are stored."""
_VERSION: Final = 6
"""The version of the AI SDK whose messages are written; 7 has the same."""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread as it is now."""

    messages: Sequence[ModelMessage]
    """What was said, without the answer that is under way."""
    running: AgentExchange | None
    """The turn that runs, from its beginning."""
    ending: Sequence[Item]
    """Where the newest turn stopped, with the requests that it waits for, if it does."""


async def read_thread(service: Service, caller: Caller, row: SessionRow, request: Request) -> ThreadState:
    """Return a session as a thread. Raises ``Conflict`` if another runner than ``AgentRunner`` has stored it."""
    running = await follow_turn(service, caller, row, request)
    uses: Mapping[str, ToolUse] = {}
    ending: Sequence[Item] = ()
    if running is None:
        uses, ending = await _read_waiting(service, caller, row, request)
    rows = await _newest_rows(service.kernel.store.events, row.id)
    messages = await asyncio.to_thread(_select_messages, rows, None if running is None else running.turn)
    if ending:  # the results of a step whose other calls wait are in its events alone
        messages += _missing_results(messages, uses)
    return ThreadState(messages, running, ending or (Stop("completed"),))


async def _read_waiting(
    service: Service, caller: Caller, row: SessionRow, request: Request
) -> tuple[Mapping[str, ToolUse], Sequence[Item]]:
    """Return the calls of a turn that waits, and what it waits for; nothing if none waits."""
    waiting = (await service.kernel.store.events.read(row.id, after=0, limit=1)).running
    beginning = await newest_event(service, row, *BEGINNINGS)
    if waiting is None or waiting.holder != SUSPENDED or beginning is None:
        return {}, ()
    request_info = request_context(request.scope)
    exchange = AgentExchange(service, caller, row, beginning.turn, beginning.seq - 1, request_info)
    read, ending = TurnItems(), list[Item]()
    async with aclosing(exchange.rows(waits=False, stops=())) as events:
        async for event in events:
            items = list(read.read(event))
            if event.type == "turn.suspended":
                ending = items
    return read.uses, ending


async def _newest_rows(events: EventStore, session: str) -> Sequence[MessageRow]:
    """Return the newest messages of a conversation, from the beginning of a turn on."""
    count = (await events.messages(session, limit=1)).count
    after, size, rows = max(0, count - MOST_MESSAGES), 0, deque[MessageRow]()
    while (page := await events.messages(session, after=after, max_bytes=PAGE_BYTES)).items:
        for row in page.items:
            rows.append(row)
            size += len(row.data)
        while size > MOST_BYTES:
            size -= len(rows.popleft().data)
        after = page.items[-1].seq
    if rows and rows[0].seq > 1:
        cut = rows[0].turn
        while rows and rows[0].turn == cut:
            rows.popleft()
    return rows


def _select_messages(rows: Sequence[MessageRow], running: str | None) -> list[ModelMessage]:
    """Return what people and the agent have said to each other.

    It is without summaries, which only the model reads, without the runner's own words to it, and without the answer
    of the turn that is ``running``.
    """
    rows = [row for row in rows if row.kind != "inner"]
    try:
        stored = ModelMessagesTypeAdapter.validate_json(f"[{','.join(row.data for row in rows)}]")
    except ValidationError:
        raise Conflict("this conversation was stored by a runner of the host's own, in another form") from None
    selected, prompted, is_summary = list[ModelMessage](), set[str](), False
    for row, message in zip(rows, stored, strict=True):
        is_answer, is_summary = is_summary, row.kind == "summary"
        if is_summary or is_answer or (row.turn == running and row.turn in prompted):
            continue
        has_prompt = any(isinstance(part, UserPromptPart) for part in message.parts)
        if has_prompt and row.turn in prompted and isinstance(message, ModelRequest):
            parts = [part for part in message.parts if not isinstance(part, UserPromptPart)]
            selected.append(replace(message, parts=parts))
            continue
        if has_prompt:
            prompted.add(row.turn)
        selected.append(message)
    return selected


def _missing_results(messages: Sequence[ModelMessage], uses: Mapping[str, ToolUse]) -> list[ModelMessage]:
    """Return the results of calls of the newest answer that the conversation does not have yet."""
    newest = messages[-1] if messages else None
    if not isinstance(newest, ModelResponse):
        return []
    parts = [
        ToolReturnPart(use.tool, use.output, use.id, outcome="success" if use.success else "failed")
        for call in newest.tool_calls
        if (use := uses.get(call.tool_call_id)) is not None and use.success is not None
    ]
    return [ModelRequest(parts=parts)] if parts else []


def ai_sdk_messages(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages as the AI SDK has them, as JSON data: an answer is one, with its steps."""
    chat: list[dict[str, Any]] = []
    for step in VercelAIAdapter.dump_messages(messages, sdk_version=_VERSION):
        message = step.model_dump(mode="json", by_alias=True, exclude_none=True)
        if message["role"] == "assistant":
            message["parts"].insert(0, {"type": "step-start"})
            if chat and chat[-1]["role"] == "assistant":
                chat[-1]["parts"] += message["parts"]
                continue
        chat.append(message)
    return chat


def agui_messages(messages: Sequence[ModelMessage], thread: str) -> list[Message]:
    """Return messages as AG-UI has them, under the same ids each time."""
    thread_messages = AGUIAdapter.dump_messages(messages)
    for number, message in enumerate(thread_messages):
        message.id = f"{thread}-{number}"
    return thread_messages

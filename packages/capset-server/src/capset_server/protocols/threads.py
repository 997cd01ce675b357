"""Threads of front ends, for a page that reloads: the messages so far, and what the newest turn waits for (P95).

The conversation is read as ``AgentRunner`` stores it. pydantic-ai converts it for each protocol (extra ``agent``).
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
from capset_server.approvals.decisions import connection_page_of
from capset_server.auth.callers import Caller
from capset_server.http.request_context import request_context
from capset_server.protocols.exchange import BEGINNINGS, AgentExchange, follow_turn, newest_event
from capset_server.protocols.turn_items import Item, Stop, ToolUse, TurnItems
from capset_server.service import Service

MOST_MESSAGES: Final = 1_000
"""The maximum number of messages shown, the newest of a conversation."""
MOST_BYTES: Final = 16 * 2**20
"""The maximum size of these messages together, as stored."""
_VERSION: Final = 6
"""The AI SDK version whose message format is written; version 7 has the same."""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """The current state of a thread."""

    messages: Sequence[ModelMessage]
    """The conversation, without the answer of a running turn."""
    running: AgentExchange | None
    """The running turn, from its beginning."""
    ending: Sequence[Item]
    """The items with which the newest turn stopped, including approval requests that it waits for."""


async def read_thread(service: Service, caller: Caller, row: SessionRow, request: Request) -> ThreadState:
    """Return a session as a thread. Raises ``Conflict`` if a runner other than ``AgentRunner`` has stored it."""
    running = await follow_turn(service, caller, row, request)
    uses: Mapping[str, ToolUse] = {}
    ending: Sequence[Item] = ()
    if running is None:
        uses, ending = await _read_waiting(service, caller, row, request)
    rows = await _newest_rows(service.kernel.store.events, row.id)
    messages = await asyncio.to_thread(_select_messages, rows, None if running is None else running.turn)
    if ending:  # the results of a step with waiting calls are only in its events
        messages += _missing_results(messages, uses)
    return ThreadState(messages, running, ending or (Stop("completed"),))


async def _read_waiting(
    service: Service, caller: Caller, row: SessionRow, request: Request
) -> tuple[Mapping[str, ToolUse], Sequence[Item]]:
    """Return the calls of the waiting turn, and the items with which it stopped; both are empty if no turn waits."""
    waiting = (await service.kernel.store.events.read(row.id, after=0, limit=1)).running
    beginning = await newest_event(service, row, *BEGINNINGS)
    if waiting is None or waiting.holder != SUSPENDED or beginning is None:
        return {}, ()
    request_info = request_context(request.scope)
    exchange = AgentExchange(service, caller, row, beginning.turn, beginning.seq - 1, request_info)
    read, ending = TurnItems(connect_url=connection_page_of(service)), list[Item]()
    async with aclosing(exchange.rows(waits=False, stops=())) as events:
        async for event in events:
            items = list(read.read(event))
            if event.type == "turn.suspended":
                ending = items
    return read.uses, ending


async def _newest_rows(events: EventStore, session: str) -> Sequence[MessageRow]:
    """Return the newest messages of a conversation, starting at the beginning of a turn."""
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
    """Return the messages between people and the agent.

    Summaries and messages that the runner itself wrote for the model are omitted, as is the answer of the turn that is
    ``running``.
    """
    rows = [row for row in rows if row.kind != "inner"]
    try:
        stored = ModelMessagesTypeAdapter.validate_json(f"[{','.join(row.data for row in rows)}]")
    except ValidationError:
        raise Conflict("this conversation was stored by the host's own runner, in another format") from None
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
    """Return the results of the newest answer's calls that are missing from the conversation."""
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
    """Return messages in the AI SDK's format, as JSON data. An answer is one message, with all its steps."""
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
    """Return messages in AG-UI's format, with the same ids each time."""
    thread_messages = AGUIAdapter.dump_messages(messages)
    for number, message in enumerate(thread_messages):
        message.id = f"{thread}-{number}"
    return thread_messages

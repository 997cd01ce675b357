"""The tools of a session for agents of other frameworks: their definitions, and calls as models make them."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from pydantic import JsonValue

from capset.clock import iso
from capset.definitions.calls.messages import Json, Message, Meta
from capset.errors import ApprovalRequired, CapsetError
from capset.kernel.call.media import Medium, medium_in
from capset.kernel.call.session import MAX_RUN_ID_CHARACTERS, Session
from capset.kernel.call.truncation import text_of
from capset.kernel.results import Result
from capset_agents.model_calls import arguments_json, error_suffix, error_text, parse_arguments

OnEvent = Callable[[Message], Awaitable[object] | None]
"""Receives the events of a call while it runs: ``progress``, ``approval.requested`` and the tool's own events."""
_log = logging.getLogger("capset.adapters")


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool in play, as it is described to a model.

    ``parameters`` is the JSON Schema of its arguments in a form that model providers accept. The caller may change it.
    """

    name: str
    description: str
    parameters: dict[str, Any]  # a JSON Schema
    capability: str
    effect: str
    hash: str

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata for frameworks to keep with the tool; models do not read it."""
        return {"capability": self.capability, "effect": self.effect, "tool_hash": self.hash}


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to a call: ``text`` for the model, and data that it does not read.

    ``data`` is the reply's JSON data, unless the call failed or the result was cut. If ``text`` was cut, ``file``
    is the path of the session's file with all of it. A content result has no ``data``; its ``text`` has one line for
    each image or other medium. If it has images or recordings that models accept, ``parts`` has these and its texts, in
    order.
    """

    text: str
    record: str
    data: JsonValue = None
    file: str | None = None
    error: CapsetError | None = None
    is_content: bool = False
    parts: Sequence[str | Medium] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def has_full_data(self) -> bool:
        """Whether ``data`` is all that the call returned."""
        return self.error is None and self.file is None and not self.is_content

    @property
    def approval(self) -> str | None:
        """The id of the approval request, if the call was refused because it needs an approval first."""
        return self.error.approval if isinstance(self.error, ApprovalRequired) else None

    @property
    def metadata(self) -> dict[str, JsonValue]:
        """Metadata for frameworks to keep with the result, which is untrusted; models do not read it."""
        fields: dict[str, JsonValue] = {"untrusted": True, "record": self.record}
        if self.file is not None:
            fields["file"] = self.file
        if self.error is not None:
            fields["code"] = self.error.code
        if self.approval is not None:
            fields["approval"] = self.approval
        return fields


class SessionTools:
    """The tools of one session, for the agents of a framework.

    Calls go through the pipeline like any other: the kernel alone validates, decides and records them. A refused or
    failed call raises no error: it is an answer that the model reads. A call that needs an approval is refused with
    the request's id; once that is approved, the same call goes through.
    """

    def __init__(self, session: Session) -> None:
        self.session: Final = session
        """The session that provides the tools."""

    async def list_tools(self) -> list[OfferedTool]:
        """Return the tools in play now, sorted by name; dynamic ``uses`` are evaluated again."""
        snapshot = await self.session.current()
        tools: list[OfferedTool] = []
        for ref in snapshot.tool_refs:
            installed = snapshot.tools[ref.name]
            tool = installed.tool
            schema = deepcopy(tool.arguments.for_models.json_schema)
            tools.append(OfferedTool(installed.name, tool.description, schema, installed.owner, tool.effect, ref.hash))
        return tools

    async def system_text(self, input: object = None) -> str:
        """Return the system text of a model's next step. Raises ``ContextError``, naming the context that failed."""
        return await self.session.system_text(input)

    async def call(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any],  # a model's text, or as a framework has parsed it
        *,
        id: str | None = None,
        run: str | None = None,
        trace: str | None = None,
        deadline: float | None = None,
        on_event: OnEvent | None = None,
    ) -> CallAnswer:
        """Call a tool as a model does, and return the answer. Cancelling this cancels the call, on record.

        The arguments follow ``OfferedTool.parameters`` or the tool's own schema. ``id``, the model's call id, becomes
        the record's causation. ``run`` becomes its correlation, under which the run's budget is counted. Both default
        to new ids. ``trace`` is a W3C ``traceparent``. ``deadline`` is Unix time in seconds. Text that is not a JSON
        object is refused as invalid arguments, on record.
        """
        session, request = await self._request(name, arguments, id, run, trace, deadline)
        reply: JsonValue = None
        async with session.invoke(request) as messages:
            async for message in messages:
                if message.kind == "reply":
                    reply = message.data
                elif message.kind == "event" and on_event is not None:
                    await _forward_event(on_event, message)
        return await self._answer(messages.result, reply)

    async def check(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any],  # as for ``call``
        *,
        id: str | None = None,
        run: str | None = None,
        trace: str | None = None,
        deadline: float | None = None,
    ) -> CallAnswer | None:
        """Check a call without making it, and return its refusal, which is on record, or ``None`` if it may be made.

        This is for frameworks that ask whether a call needs an approval before they make it (``Session.check``).
        """
        session, request = await self._request(name, arguments, id, run, trace, deadline)
        refusal = await session.check(request)
        return None if refusal is None else await self._answer(refusal, None)

    async def _request(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any],
        id: str | None,
        run: str | None,
        trace: str | None,
        deadline: float | None,
    ) -> tuple[Session, Message]:
        # An id that is too long for a record is replaced by a new one.
        run = run if run is not None and _is_short(run, MAX_RUN_ID_CHARACTERS) else None
        meta = Meta(
            id=id if id is not None and _is_short(id, 200) else str(uuid4()),
            timestamp=iso(time.time_ns()),
            correlation=run or str(uuid4()),
            deadline=deadline,
            traceparent=trace,
        )
        session = self.session.options(approvals="defer", run=run)
        restored = await self._restored(name, parse_arguments(arguments))
        return session, replace(session.message(name, Json(arguments_json(restored))), meta=meta)

    async def _restored(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a model's arguments to the tool's own schema."""
        snapshot = self.session.snapshot
        installed = snapshot.tools.get(name)
        if installed is None and snapshot.composition.dynamic:
            with suppress(CapsetError):  # the call itself reports it
                installed = (await self.session.current()).tools.get(name)
        return arguments if installed is None else installed.tool.arguments.for_models.restore(arguments)

    async def _answer(self, result: Result[Any], reply: JsonValue) -> CallAnswer:
        if (error := result.error) is not None:
            rendered_error = await self.session.for_model(
                result.record, error_text(error), after=f"\n{error_suffix(error)}"
            )
            return CallAnswer(rendered_error.text, result.record, file=rendered_error.file, error=error)
        rendered = await self.session.for_model(result.record, reply, content=result.content)
        if result.content is not None:
            parts = [part for piece in rendered.pieces if (part := medium_in(piece) or text_of(piece))]
            if not any(isinstance(part, Medium) for part in parts):
                parts = []
            return CallAnswer(rendered.text, result.record, file=rendered.file, is_content=True, parts=parts)
        if rendered.is_cut:
            return CallAnswer(rendered.text, result.record, file=rendered.file)
        return CallAnswer(rendered.text, result.record, reply)


async def _forward_event(on_event: OnEvent, event: Message) -> None:
    """Forward an event. A failing listener does not fail the call, which may already have had its effects."""
    try:
        if (awaitable := on_event(event)) is not None:
            await awaitable
    except Exception:
        _log.exception("a listener of the event %r failed", event.type)


def _is_short(id: str, limit: int) -> bool:
    """Return whether a framework's id can be stored in a record."""
    return 0 < len(id) <= limit and id.isprintable()

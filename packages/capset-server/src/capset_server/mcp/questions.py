"""The client of one MCP request, for handlers that ask it something (spec 7, M12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from mcp.server.context import ServerRequestContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types import InputResponseRequestParams as Answering
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least
from pydantic import BaseModel, ValidationError

from capset.definitions.calls.clients import ClientAnswer, ClientQuestion
from capset.errors import ClientCapabilityMissing, ClientInputRequired, ToolError
from capset.kernel.call.client_questions import FORMS
from capset_server.mcp.kept_streams import KeptStream

APPROVAL_KEY: Final = "capset/approval"
"""The key of the question about an approval, beside those of handlers' own questions."""
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension with which a client accepts a task instead of a result."""
MAX_STATE: Final = 65_536
"""Maximum characters of the answers that a call may collect, as JSON."""
MAX_TRIES: Final = 3
"""How often a form is shown on the stream of a call until an answer fits."""

M = TypeVar("M", bound=BaseModel)


class McpClient:
    """The client of a request, and its answers: those in the request, and those of earlier rounds in its state.

    A question without a valid answer ends the call, and becomes ``pending``. In revisions before 2026-07-28, the call
    asks on its own stream, ``asking``, if it has one, and waits for the answer.
    """

    def __init__(
        self, ctx: ServerRequestContext[dict[str, Any], Any], params: Answering, asking: KeptStream | None = None
    ) -> None:
        self.asked: Final = ctx
        self._asking = asking
        self.is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.pending: ClientQuestion[Any] | None = None
        """The question that the call ended with."""
        # The state is this server's own: its seal was checked before any handler saw it.
        state: dict[str, Any] = json.loads(params.request_state) if params.request_state else {}
        self._earlier: dict[str, dict[str, Any]] = state.get("answers", {})
        self._approval: str | None = state.get("approval")
        self._given = params.input_responses or {}
        self._used: dict[str, dict[str, Any]] = {}

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """All capabilities that the client declares, even unknown ones; read only if they are needed."""
        meta_capabilities = cast("Mapping[str, Any]", self.asked.meta or {}).get(CLIENT_CAPABILITIES_META_KEY)
        if self.is_modern and isinstance(meta_capabilities, Mapping):
            return cast("Mapping[str, Any]", meta_capabilities)
        if self._asking is not None:
            return FORMS
        declared = self.asked.session.client_capabilities
        return {} if declared is None else declared.model_dump(by_alias=True, exclude_none=True, mode="json")

    @property
    def has_urls(self) -> bool:
        """Whether the client can open a page for its user."""
        modes = self.capabilities.get("elicitation")
        return isinstance(modes, Mapping) and cast("Mapping[str, Any]", modes).get("url") is not None

    @property
    def has_tasks(self) -> bool:
        """Whether the client accepts a task instead of a result."""
        return self.is_modern and declares_tasks(self.capabilities)

    async def ask(self, question: ClientQuestion[M], /) -> ClientAnswer[M]:
        """Return the answer to a question. Raises ``ClientInputRequired`` if there is no valid one."""
        if not self.is_modern and self._asking is not None:
            return await self._ask_now(self._asking, question)
        if not self.is_modern:
            raise ClientCapabilityMissing(
                f"This tool has to ask the person who calls it ({question.message!r:.200}), which takes a client of "
                "revision 2026-07-28 here.",
                required=FORMS,
            )
        answer = self._earlier.get(question.key) or self._answer(question.key)
        if answer is None or (answer["action"] == "accept" and not question.accepts(answer["content"])):
            self.pending = question
            raise ClientInputRequired(f"This call asks: {question.message} Make it again, with the answer.")
        self._used[question.key] = answer
        if answer["action"] != "accept":
            return ClientAnswer(answer["action"])
        return ClientAnswer("accept", question.read(answer["content"] or {}))

    def required(self, meta: dict[str, Any]) -> InputRequiredResult:
        """Return the result that asks the pending question, with the answers so far as its state, not sealed yet."""
        question = cast("ClientQuestion[Any]", self.pending)
        state = json.dumps({"answers": self._used})
        if len(state) > MAX_STATE:
            raise ToolError(f"The answers to this call have more than {MAX_STATE:,} characters.", status=413)
        params = ElicitRequestFormParams(message=question.message, requested_schema=dict(question.form))
        return InputRequiredResult(
            input_requests={question.key: ElicitRequest(params=params)}, request_state=state, _meta=meta
        )

    def approval_answer(self, approval: str) -> ElicitResult | None:
        """Return the answer to the question about an approval request, if this round has one."""
        answer = self._given.get(APPROVAL_KEY) if self._approval == approval else None
        return answer if isinstance(answer, ElicitResult) else None

    def approval_required(
        self, approval: str, params: ElicitRequestParams, meta: dict[str, Any]
    ) -> InputRequiredResult:
        """Return the result that asks about an approval request; its state, not sealed yet, is for no other request."""
        state = json.dumps({"answers": self._earlier, "approval": approval})
        return InputRequiredResult(
            input_requests={APPROVAL_KEY: ElicitRequest(params=params)}, request_state=state, _meta=meta
        )

    async def _ask_now(self, asking: KeptStream, question: ClientQuestion[M]) -> ClientAnswer[M]:
        """Ask a question while the call runs, and return the answer; repeat it if the answer is invalid.

        Raises ``ToolError`` if no answer is valid, or one is too long.
        """
        has_titles = is_version_at_least(self.asked.protocol_version, "2025-11-25")
        form = dict(question.form) if has_titles else _older(question.form)
        params = {"message": question.message, "requestedSchema": form}
        for _ in range(MAX_TRIES):
            answer = await asking.ask(params)
            if answer is None:
                return ClientAnswer("cancel")
            try:
                result = ElicitResult.model_validate(answer)
            except ValidationError:
                continue
            content = result.content or {}
            if len(json.dumps(content)) > MAX_STATE:
                raise ToolError(f"The answer to this call has more than {MAX_STATE:,} characters.", status=413)
            if result.action != "accept":
                return ClientAnswer(result.action)
            if question.accepts(content):
                return ClientAnswer("accept", question.read(content))
        raise ToolError(f"The client gave {MAX_TRIES} answers, and none fits the form.", status=422)

    def _answer(self, key: str) -> dict[str, Any] | None:
        answer = self._given.get(key)
        return {"action": answer.action, "content": answer.content} if isinstance(answer, ElicitResult) else None


def _older(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form whose choices have their titles in ``enumNames``, for revisions before 2025-11-25."""
    fields = dict(form["properties"])
    for name, field in fields.items():
        if choices := field.get("oneOf"):
            names = {
                "enum": [choice["const"] for choice in choices],
                "enumNames": [choice["title"] for choice in choices],
            }
            fields[name] = {word: value for word, value in field.items() if word != "oneOf"} | names
    return {**form, "properties": fields}


def declares_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Return whether these capabilities of a client include tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(cast("Mapping[str, Any]", extensions).get(TASKS), Mapping)

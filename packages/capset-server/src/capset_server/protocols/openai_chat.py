"""A turn as a completion of OpenAI's Chat Completions API, whole or in chunks.

The API cannot represent calls that the server makes, or approvals: a completion is the text of the answer. If the turn
waits for approvals, the text ends with a notice, and ``metadata`` has their ids.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

from capset_server.protocols.turn_items import ApprovalAsked, Item, StepUsage, Stop, Text, TextDiscarded

_APART: Final = "\n\n"
ASKS: Final = "This needs an approval by another principal:"
"""The beginning of the notice about an approval request."""


@dataclass(slots=True)
class CompletionBuilder:
    """Builds one completion from the items of a turn. ``created`` is in seconds since 1970."""

    id: str
    model: str
    created: int
    place: dict[str, str]
    """The ids of the session and the turn."""
    metadata: dict[str, str] = field(init=False)
    stop: Stop | None = None
    is_broken: bool = False
    """Whether text that was added has been discarded. Chunks that were sent cannot be withdrawn."""
    text: str = ""
    """The text so far."""
    _kept: str = ""
    """The text up to the model's last complete answer."""
    _part: tuple[int, int] | None = None
    _waits_for: list[str] = field(default_factory=list[str])
    _used: StepUsage = field(default_factory=StepUsage)

    def __post_init__(self) -> None:
        self.metadata = self.place

    @property
    def completion(self) -> dict[str, Any]:
        """The current state of the completion, as JSON data."""
        message = {"role": "assistant", "content": self.text, "refusal": None}
        reason = "stop" if self.stop is not None else None
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    @property
    def failed(self) -> Stop | None:
        """The end of a failed or cancelled turn, else ``None``."""
        return self.stop if self.stop is not None and self.stop.status in ("failed", "cancelled") else None

    def begin(self) -> dict[str, Any]:
        """Return the first chunk."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def add(self, item: Item) -> Generator[dict[str, Any]]:
        """Add an item, and yield its chunks."""
        if isinstance(item, Text) and item.kind == "text":
            apart = _APART if self.text and self._part != item.part else ""
            self._part = item.part
            yield self._add_text(apart + item.text)
        elif isinstance(item, TextDiscarded):
            self.is_broken = self.is_broken or self.text != self._kept
            self.text, self._part = self._kept, None
        elif isinstance(item, StepUsage):
            self._used += item
            self._kept = self.text
        elif isinstance(item, ApprovalAsked):
            self._waits_for.append(item.data["id"])
            notice = f"{ASKS} {item.data['tool']} ({item.data['id']})."
            self._part = None
            yield self._add_text((_APART if self.text else "") + notice)
        elif isinstance(item, Stop):
            self.stop = item
            waits = {"approvals": ",".join(self._waits_for)} if item.status == "waiting" else {}
            self.metadata = {**self.place, "status": item.status, **waits}
            self._waits_for.clear()
            yield self._chunk({}, "stop")

    def usage(self) -> dict[str, Any]:
        """Return the last chunk, which has the tokens of all steps and no choices."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()}

    def _add_text(self, text: str) -> dict[str, Any]:
        self.text += text
        return self._chunk({"content": text})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        members = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**members, "metadata": self.metadata}

    def _usage(self) -> dict[str, Any]:
        used = self._used
        return {
            "prompt_tokens": used.input_tokens,
            "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
            "completion_tokens": used.output_tokens,
            "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
            "total_tokens": used.input_tokens + used.output_tokens,
        }

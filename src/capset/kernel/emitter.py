"""What a processor hands its messages to: each is held to the contract, stamped, and waits for its consumer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from capset.definitions.contracts import Contract
from capset.definitions.messages import Message
from capset.definitions.misfits import MISFITS, misfits
from capset.errors import CapsetError, ConsumerTimeout, InvalidOutput, ToolError
from capset.kernel.emission import emitted, wait_for_consumer
from capset.kernel.invocation import MISSING, Invocation

_log = logging.getLogger("capset.kernel")


class Emitter:
    """The ``emit`` of one processor, for the call that it is working on.

    A reply, an error and a violation of the contract end that call: ``on_end`` is called, and the processor has to
    return soon.
    """

    __slots__ = ("_call", "_events", "_name", "_on_end", "_replies", "error", "reply")

    def __init__(self, contract: Contract, on_end: Callable[[], object]) -> None:
        self._events = contract.events
        self._replies = contract.replies
        self._on_end = on_end

    def begin(self, call: Invocation) -> None:
        """Work for this call from now on."""
        self._call = call
        self._name = call.road.name
        self.reply: Any = MISSING
        self.error: CapsetError | None = None

    @property
    def is_over(self) -> bool:
        """Whether the call has its outcome."""
        return self.reply is not MISSING or self.error is not None

    def outcome(self) -> Any:
        """Return the reply's data, unvalidated, or ``MISSING``. Raises what ended the call instead."""
        if self.error is not None:
            raise self.error
        return self.reply

    async def __call__(self, message: BaseModel | Message, /) -> None:
        """Hand one message over; see ``Emit``."""
        call, emission = self._call, cast("Any", message)
        try:
            kind, name, data = emission.kind, emission.type, getattr(emission, "data", None)
        except AttributeError:
            raise self._violated(f"emitted {type(emission).__name__}, which is no message") from None
        if self.reply is not MISSING or self.error is not None:
            raise self._violated("emitted something after its reply")
        if kind == "event" and (schema := self._events.get(name)) is not None:
            try:
                data = schema.check(data)
                if not schema.is_exact:
                    data = schema.jsonable(data)
            except (ValueError, RecursionError) as error:
                raise self._misfit(name, data, error) from None
            if call.lane is not None:
                turn = call.lane.offer(emitted(call, "event", name, data))
                if turn is not None:
                    await self._wait(turn)
        elif kind == "reply" and (schema := self._replies.get(name)) is not None:
            if len(self._replies) > 1:  # else the road checks it, as every tool's
                try:
                    schema.check(data)
                except MISFITS as error:
                    raise self._misfit(name, data, error) from None
            call.reply_type, self.reply = name, data
            self._on_end()
        elif kind == "error":
            self.error = self._told(data)
            self._on_end()
        else:
            raise self._violated(f"emitted {kind!r:.40} {name!r:.100}, which its outbound does not have")

    async def _wait(self, turn: Any) -> None:
        try:
            await wait_for_consumer(self._call, turn)
        except ConsumerTimeout as error:
            self._fail(error)
            raise

    def _misfit(self, name: str, data: Any, error: Exception) -> InvalidOutput:
        # What came out may hold what nobody should see, so only its places are logged, and no value.
        fields = misfits(error, (), data) if isinstance(error, MISFITS) else ["it has no form in JSON"]
        told = "; ".join(map(str, fields)).replace("(arguments)", "the data")
        _log.error("tool %r, correlation %s: its %r does not fit: %s", self._name, self._call.correlation, name, told)
        return self._violated(f"emitted {name!r} with data that do not fit its schema")

    def _violated(self, what: str) -> InvalidOutput:
        error = InvalidOutput(f"The tool {self._name!r} {what}.")
        self._fail(error)
        return error

    def _fail(self, error: CapsetError) -> None:
        """End the call with an error, the first that there is, whatever the processor makes of it."""
        if not isinstance(self.error, InvalidOutput | ConsumerTimeout):
            self.error = error
        self.reply = MISSING
        self._on_end()

    def _told(self, data: Any) -> CapsetError:
        """Return an error that the processor emitted, as the ``ToolError`` that it could have raised (K2)."""
        said: Mapping[str, Any] = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
        message = said.get("message")
        if not isinstance(message, str) or not message:
            return self._violated("emitted an error without a message")
        try:
            error = ToolError(message, code=said.get("code"), status=said.get("status"))
        except (TypeError, ValueError):
            return self._violated("emitted an error whose code or status is none")
        error.retryable = bool(said.get("retryable", False))
        return error

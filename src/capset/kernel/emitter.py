"""What a processor hands its messages to: each is held to the contract, stamped, and waits for its consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from capset.definitions.contracts import Contract
from capset.definitions.messages import Message
from capset.definitions.misfits import MISFITS, misfits
from capset.definitions.strict_json import MAX_INTEGER
from capset.errors import CapsetError, ConsumerTimeout, Field, InvalidOutput, ToolError
from capset.kernel.emission import emitted, unheard, wait_for_consumer
from capset.kernel.invocation import MISSING, Invocation

_log = logging.getLogger("capset.kernel")


class Emitter:
    """The ``emit`` of one processor, for the call that it is working on.

    A reply, an error and a violation of the contract end that call: ``on_end`` is called, maybe more than once, and the
    processor has to return soon.
    """

    __slots__ = ("_events", "_is_closed", "_name", "_on_end", "_replies", "call", "error", "is_over", "reply")

    def __init__(self, contract: Contract, on_end: Callable[[], object]) -> None:
        self._events = contract.events
        self._replies = contract.replies
        self._on_end = on_end
        self.is_over = self._is_closed = True

    def begin(self, call: Invocation) -> None:
        """Work for this call from now on."""
        self.call = call
        self._name = call.road.name
        self.reply: Any = MISSING
        self.error: CapsetError | None = None
        self.is_over = False  # it has no outcome yet
        self._is_closed = False

    def close(self) -> None:
        """Take no more for this call: what a task that was left behind emits reaches nobody."""
        self._is_closed = self.is_over = True

    def outcome(self) -> Any:
        """Return the reply's data, unvalidated, or ``MISSING``. Raises what ended the call instead."""
        if self.error is not None:
            raise self.error
        return self.reply

    async def __call__(self, message: BaseModel | Message, /) -> None:
        """Hand one message over; see ``Emit``."""
        call, emission = self.call, cast("Any", message)
        try:
            kind, named, data = emission.kind, emission.type, getattr(emission, "data", None)
            schema = self._events.get(named) if kind == "event" else None
        except (AttributeError, TypeError):
            kind, named, data, schema = "", "", None, None
        if self.is_over:
            raise await self._late()
        call.has_emitted = True
        if schema is not None:
            try:
                data = schema.check(data)
                if not schema.is_exact:
                    data = schema.jsonable(data)
                elif isinstance(data, int) and not -MAX_INTEGER < data < MAX_INTEGER:
                    raise ValueError("an integer that is too long to write")
            except (ValueError, RecursionError) as error:
                raise self._misfit(named, data, error) from None
            if call.lane is None:
                await unheard(call)
            elif (turn := call.lane.offer(emitted(call, "event", named, data))) is not None:
                await self._wait(turn)
        elif kind == "reply" and isinstance(named, str) and named in self._replies:
            self._answer(named, data)
        elif kind == "error":
            self.error = self._told(data)
            self._end()
        elif kind:
            has = ", ".join([f"event {one!r}" for one in self._events] + [f"reply {one!r}" for one in self._replies])
            raise self._violated(
                f"emitted {kind!r:.40} {named!r:.100}, which its outbound does not have: that is {has}"
            )
        else:
            raise self._violated(
                f"emitted {type(emission).__name__}, which is no message: emit an instance of an outbound model"
            )

    def _answer(self, name: str, data: Any) -> None:
        if len(self._replies) > 1:  # else the road checks it, as every tool's
            try:
                data = self._replies[name].check(data)  # all of them together might take it for another's
            except MISFITS as error:
                raise self._misfit(name, data, error) from None
        self.call.reply_type, self.reply = name, data
        self._end()

    async def _wait(self, turn: Any) -> None:
        try:
            await wait_for_consumer(self.call, turn)
        except ConsumerTimeout as error:
            self._fail(error)
            raise

    def _misfit(self, name: str, data: Any, error: Exception) -> InvalidOutput:
        # What came out may hold what nobody should see, so only its places are logged, and no value.
        fields = misfits(error, (), data) if isinstance(error, MISFITS) else ["it has no form in JSON"]
        told = "; ".join(map(str, fields)).replace("(arguments)", "the data")
        _log.error("tool %r, correlation %s: its %r does not fit: %s", self._name, self.call.correlation, name, told)
        return self._violated(f"emitted a {name!r} that does not fit its schema")

    def _violated(self, what: str) -> InvalidOutput:
        error = InvalidOutput(f"The tool {self._name!r} {what}.")
        self._fail(error)
        return error

    def _fail(self, error: CapsetError) -> None:
        """End the call with an error, the first that there is, whatever the processor makes of it."""
        if not isinstance(self.error, InvalidOutput | ConsumerTimeout):
            self.error = error
        self.reply = MISSING
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._on_end()

    async def _late(self) -> InvalidOutput:
        """Return the error of an emission after the outcome, or of one that belongs to no call any more.

        Others get their turn before: a processor that swallows it and goes on emitting must not hold up everybody.
        """
        await asyncio.sleep(0)
        return self.left_behind() if self._is_closed else self._violated("emitted something after its reply")

    def left_behind(self) -> InvalidOutput:
        """Return the error of an emission that belongs to no call; no call ends with it."""
        return InvalidOutput(f"The tool {self._name!r} emitted something after its call had ended.")

    def _told(self, data: Any) -> CapsetError:
        """Return an error that the processor emitted, as the ``ToolError`` that it could have raised (K2)."""
        said: Mapping[str, Any] = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
        message = said.get("message")
        if not isinstance(message, str) or not message:
            raise self._violated("emitted an error without a message")
        try:
            fields = [_field(one) for one in said.get("fields", ())]
            error = ToolError(message, code=said.get("code"), status=said.get("status"), fields=fields)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise self._violated("emitted an error whose code, status or fields are none") from None
        error.retryable = bool(said.get("retryable", False))
        return error


def _field(said: Mapping[str, Any]) -> Field:
    path, expected, meant = said["path"], said["expected"], said.get("did_you_mean", "")
    if not all(isinstance(one, str) for one in (path, expected, meant)):
        raise TypeError("the path, the expectation and what was meant are text")
    return Field(path, expected, meant or None)

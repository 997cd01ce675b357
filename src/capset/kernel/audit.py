"""What a call's records say, and what they must not say (spec 4, G19, G20, G23)."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import Any, Final, cast

from capset.clock import iso
from capset.definitions.messages import Json
from capset.definitions.plain import plain, plain_json, unmasked
from capset.definitions.records import Columns, Outcome
from capset.definitions.secrecy import is_secret_name
from capset.definitions.tools import AnyTool
from capset.errors import (
    CapsetError,
    DeadlineExceeded,
    InvalidArguments,
    NotFound,
    PermissionDenied,
    StoreError,
)
from capset.fingerprint.canonical import PROFILE, canonical
from capset.ids import time_of
from capset.kernel.invocation import Invocation

MAX_RECORDED_TEXT: Final = 2_000
"""Characters of one text that a record keeps; the digest always covers all of it."""
MAX_RECORDED_BYTES: Final = 16_384
"""Bytes of JSON that a record keeps of the arguments."""

_OUTCOMES: tuple[tuple[type[CapsetError], Outcome], ...] = (
    (PermissionDenied, "denied"),
    (NotFound, "not_found"),
    (InvalidArguments, "invalid"),
    (DeadlineExceeded, "timed_out"),
    (StoreError, "unavailable"),
)


def outcome_of(error: CapsetError | None) -> Outcome:
    """Return the outcome that an error, or none, stands for."""
    if error is None:
        return "succeeded"
    for kind, outcome in _OUTCOMES:
        if isinstance(error, kind):
            return outcome
    return "failed"


class Intent:
    """The entry that must be durable before a side-effecting handler starts: the call as it was let through."""

    __slots__ = ("_call",)

    def __init__(self, call: Invocation) -> None:
        self._call = call

    def columns(self) -> Columns:
        """Return the intent's columns; the audit writer calls this."""
        columns = _columns(self._call, "intent", time_of(self._call.mark))
        return {**columns, "decision": "allow", "outcome": None, "code": None, "reason": None, "duration_us": None}


class Ended:
    """The entry of a call that has ended; ``time`` is that of its end."""

    __slots__ = ("_call",)

    def __init__(self, call: Invocation) -> None:
        self._call = call

    def columns(self) -> Columns:
        """Return the outcome's columns; the audit writer calls this, off the hot path."""
        return _columns(self._call, "outcome", time_of(self._call.mark) + self._call.duration_us * 1000)


def _columns(call: Invocation, phase: str, time_ns: int) -> dict[str, str | int | None]:
    place, road, own_id = call.place, call.road, call.id
    arguments = _arguments(call)
    covered = _whole(call, arguments)
    whole = canonical(covered)
    digest = place.world.digest(whole)
    return {
        "id": own_id,
        "phase": phase,
        "time": iso(time_ns),
        "correlation": _storable(call.cause[0]) if call.cause else own_id,
        "causation": _storable(call.causation),
        "principal": _storable(place.principal.id),
        "principal_kind": place.principal.kind,
        "org": _storable(place.principal.org),
        "session": place.id,
        "agent": place.block.name,
        "capability": road.capability,
        "tool": _storable(road.name),
        "effect": road.tool.effect if road.tool else None,
        "arguments": _kept(arguments, road.tool, whole if covered is arguments else None),
        "arguments_digest": digest,
        "decision": call.decision,
        "policies": dumps(call.policies, separators=(",", ":")) if call.policies else "[]",
        "reason": _storable(call.reason),
        "outcome": call.outcome,
        "code": _storable(call.error.code if call.error else None),
        "duration_us": call.duration_us,
        "tool_hash": road.hash,
        "static_hash": place.snapshot.static_hash,
        "runtime_hash": place.snapshot.runtime_hash,
        "prompt_hash": place.snapshot.prompt_hash,
        "profile": PROFILE,
    }


def _arguments(call: Invocation) -> Any:
    """Return the arguments as plain JSON data: as validated, or as they came if they never fitted the schema."""
    if call.recorded is None and isinstance(call.given, Json):
        return plain_json(call.given.text)
    return plain(call.recorded)


def _whole(call: Invocation, arguments: Any) -> Any:
    """Return what the digest covers: the arguments, with masked secrets as they are, since they tell calls apart."""
    bare = unmasked(call.recorded)
    return arguments if bare == call.recorded else plain(bare)


def _kept(arguments: Any, tool: AnyTool | None, whole: bytes | None) -> str:
    """Return what a record keeps of the arguments: redacted, and bounded.

    ``whole`` is their canonical form, where it is known; it serves if there is nothing to redact.
    """
    shown = arguments
    if tool is not None and (secrets := tool.arguments.write_only) and isinstance(arguments, Mapping):
        members = cast("Mapping[str, Any]", arguments)
        shown = {name: "[redacted]" if name in secrets else value for name, value in members.items()}
    shown = redacted(shown)
    kept = whole if whole is not None and shown == arguments else canonical(shown)
    if len(kept) > MAX_RECORDED_BYTES:
        kept = canonical({"omitted": f"{len(kept)} bytes of arguments"})
    return kept.decode()


def redacted(value: Any, name: str = "") -> Any:
    """Return plain JSON data with values of secret-looking names replaced, and long texts cut."""
    if value is not None and is_secret_name(name):
        return "[redacted]"
    if isinstance(value, str):
        left = len(value) - MAX_RECORDED_TEXT
        return f"{value[:MAX_RECORDED_TEXT]}… [{left} more characters]" if left > 0 else value
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {key: redacted(member, key) for key, member in members.items()}
    if isinstance(value, list):
        return [redacted(item) for item in cast("list[Any]", value)]
    return value


def _storable(text: str | None) -> str | None:
    """Return text that every database takes: bounded, and without NUL or lone surrogates."""
    if text is None:
        return None
    return text[:MAX_RECORDED_TEXT].replace("\0", "\ufffd").encode(errors="replace").decode()

"""Errors in OpenAI's format, for the paths of its APIs: converted from the problem details of other paths."""

from __future__ import annotations

from typing import Any, Final

from pydantic_core import from_json, to_json
from starlette.types import Message, Send

from capset.wire.errors import MEDIA_TYPE

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def with_openai_errors(send: Send) -> Send:
    """Return a ``send`` that converts problem details to OpenAI's errors; other responses pass unchanged.

    ``x-should-retry`` tells OpenAI's clients whether to retry: going by the status alone, they would repeat a turn.
    """
    start: Message | None = None
    parts: list[bytes] = []

    async def sent(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and _is_problem(message):
            start = message
        elif start is None:
            await send(message)
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                await _send_error(send, start, from_json(b"".join(parts)))

    return sent


def _is_problem(message: Message) -> bool:
    kinds = (value for name, value in message["headers"] if name.lower() == b"content-type")
    return any(kind.startswith(MEDIA_TYPE.encode()) for kind in kinds)


async def _send_error(send: Send, start: Message, problem: dict[str, Any]) -> None:
    status: int = start["status"]
    fields: list[dict[str, Any]] = problem.get("fields") or []
    error = {
        "message": problem["detail"],
        "type": _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error"),
        "param": fields[0]["path"] if fields else None,
        "code": problem["code"],
        "correlation": problem["correlation"],
    }
    if problem.get("approval"):
        error["approval"] = problem["approval"]
    body = to_json({"error": error})
    replaced = (b"content-type", b"content-length")
    headers = [(name, value) for name, value in start["headers"] if name.lower() not in replaced]
    retry = b"true" if problem.get("retryable") else b"false"
    headers += [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-should-retry", retry),
    ]
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": body})

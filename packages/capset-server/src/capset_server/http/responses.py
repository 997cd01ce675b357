"""Responses as plain ASGI messages."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Send

from capset.errors import CapsetError, Field, InvalidArguments, StoreError
from capset.wire.errors import MEDIA_TYPE, problem_of
from capset_server.http.challenges import challenges_of

_log = logging.getLogger("capset.server")


async def answer_problem(send: Send, error: CapsetError, correlation: str, *more: tuple[bytes, bytes]) -> None:
    """Answer with problem details (RFC 9457), and ``more`` headers."""
    status, body, headers = _problem(hide_store_details(error, correlation), correlation)
    await answer(send, status, MEDIA_TYPE.encode(), body, *headers, *more)


async def answer_refusal(
    send: Send,
    error: CapsetError,
    correlation: str,
    call: Mapping[str, Any],  # JSON data
) -> None:
    """Answer a call that was refused in its session: problem details, plus the members of the call."""
    status, body, headers = _problem(error, correlation, call)
    await answer(send, status, MEDIA_TYPE.encode(), body, *headers)


def problem_response(error: CapsetError, correlation: str) -> Response:
    """Return problem details as a Starlette response."""
    status, body, headers = _problem(hide_store_details(error, correlation), correlation)
    response = Response(body, status, media_type=MEDIA_TYPE)
    response.raw_headers.extend(headers)
    return response


def _problem(
    error: CapsetError,
    correlation: str,
    members: Mapping[str, Any] | None = None,  # JSON data
) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    problem = problem_of(error, correlation)
    headers: list[tuple[bytes, bytes]] = []
    headers.extend(challenges_of(error))
    headers.extend(retry_headers(error))
    if problem.status in (408, 413, 431):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    return problem.status, json.dumps({**problem.plain(), **(members or {})}).encode(), headers


def retry_headers(error: CapsetError | None) -> list[tuple[bytes, bytes]]:
    """Return ``Retry-After`` if it is known when a limit ends: in whole seconds, rounded up (RFC 9110 §10.2.3)."""
    if error is None or error.status != 429 or error.retry_after is None:
        return []
    return [(b"retry-after", b"%d" % max(1, math.ceil(error.retry_after)))]


async def answer(send: Send, status: int, media_type: bytes, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a response with a complete body."""
    length = b"%d" % len(body)
    standard = ((b"content-type", media_type), (b"content-length", length))
    await send({"type": "http.response.start", "status": status, "headers": [*standard, *headers]})
    await send({"type": "http.response.body", "body": body})


def misfit(subject: str, fields: Sequence[Field]) -> InvalidArguments:
    """Return a validation error whose message also lists every field."""
    return InvalidArguments(f"Invalid {subject}: {'; '.join(map(str, fields))}", fields=fields)


def hide_store_details(error: CapsetError, correlation: str) -> CapsetError:
    """Return an error fit for clients: details of the store, such as its path, are only logged."""
    if not isinstance(error, StoreError):
        return error
    _log.error("the store failed, correlation %s: %s", correlation, error.message)
    return type(error)(error.public)

"""Requests to the token endpoint of an OAuth 2 authorization server (RFC 6749)."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import quote, urlencode

from capset.definitions.fields import requiring
from capset.errors import ToolError, TransientError
from capset.net.client import HttpClient
from capset.net.urls import parse_url
from capset.schemas.strict_json import parse_json
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.declarations import add_internal_hint, mask_text, maskable
from capset_connect.pins.offers import shown

ClientMethod = Literal["basic", "post"]
"""How a client's credentials are sent: in the header ``Authorization``, or as parameters (RFC 6749, section 2.3.1)."""
CLIENT_METHOD: Final = requiring("{} must be basic or post", lambda method: method in ("basic", "post"))
_SECONDS: Final = 30.0
_MAX_BYTES: Final = 64 * 1024
_MAX_CODE: Final = 100
"""The length to which a provider's error code is cut, in characters."""
_BETWEEN_SCOPES: Final = re.compile(r"[\s,]+")
"""RFC 6749 has blanks between scopes; GitHub has commas."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """Tokens, the lifetime of the access token in seconds (infinity if unknown), and the granted scopes, if stated."""

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    seconds: float
    scopes: tuple[str, ...] | None


class TokenRefused(ToolError):
    """The authorization server refused a token request. ``reason`` is its error code, such as ``invalid_grant``."""

    def __init__(self, message: str, reason: str | None) -> None:
        super().__init__(message, status=502)
        self.reason = reason


async def request_tokens(
    http: HttpClient,
    url: str,
    form: Mapping[str, str],
    *,
    client: tuple[str, str | None],
    method: ClientMethod,
    hidden: Iterable[str] = (),
) -> TokenAnswer:
    """Send a token request for a ``client``, its id and its secret, and return the tokens.

    ``hidden`` are further texts that are masked in errors. Raises ``TokenRefused`` for a refusal, and
    ``TransientError`` if the server cannot be reached or does not work at the moment.
    """
    status, body = await post_form(http, url, form, client=client, method=method)
    members = _members(body)
    access, kind = members.get("access_token"), members.get("token_type", "bearer")
    if 200 <= status < 300 and isinstance(access, str) and _TOKEN.fullmatch(access) and str(kind).lower() == "bearer":
        refresh, scope = members.get("refresh_token"), members.get("scope")
        return TokenAnswer(
            access,
            refresh if isinstance(refresh, str) and _TOKEN.fullmatch(refresh) else None,
            _seconds(members.get("expires_in")),
            tuple(filter(None, _BETWEEN_SCOPES.split(scope))) if isinstance(scope, str) else None,
        )
    texts = (members.get(name) for name in ("error", "error_description"))
    masked = maskable([*hidden, *(text for text in client if text is not None)])
    reason = ": ".join(shown(mask_text(text, masked)) for text in texts if isinstance(text, str))
    message = f"{parse_url(url).host} answered {status}" + (f", {reason}" if reason else " without a token")
    if status == 429 or status >= 500:
        raise TransientError(f"{message}.")
    error = members.get("error")
    code = shown(mask_text(error, masked))[:_MAX_CODE] if isinstance(error, str) else None
    raise TokenRefused(f"{message}.", code)


async def post_form(
    http: HttpClient, url: str, form: Mapping[str, str], *, client: tuple[str, str | None], method: ClientMethod
) -> tuple[int, bytes]:
    """Send a form to an endpoint of an authorization server as a client; return the status and the body."""
    fields, (client_id, client_secret) = dict(form), client
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    if client_secret is None:
        fields["client_id"] = client_id
    elif method == "post":
        fields |= {"client_id": client_id, "client_secret": client_secret}
    else:
        pair = ":".join(quote(text, safe="") for text in (client_id, client_secret))
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    place = parse_url(url)
    opened = http.open("POST", url, timeout=_SECONDS, headers=headers, content=urlencode(fields).encode())
    try:
        async with opened as response:
            return response.status, (await response.read(_MAX_BYTES)).data
    except ToolError as error:
        raise add_internal_hint(error, place.host, place.port) from None


def _members(body: bytes) -> dict[str, Any]:  # JSON
    """Return the members of a response; none if it is not a JSON object."""
    try:
        answer = parse_json(body)
    except SchemaMismatch:
        return {}
    return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}


def _seconds(expires_in: object) -> float:
    """Return the lifetime of a token in seconds; infinity if the server does not state it."""
    try:
        return max(0.0, float(cast("str", expires_in)))
    except (TypeError, ValueError, OverflowError):
        return math.inf

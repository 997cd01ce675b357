"""OAuth client credentials, and access tokens obtained with them (spec 7, M101)."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from capset.definitions.fields import checked_field, store_checked
from capset.definitions.identity import FrozenValue
from capset.definitions.names import checked_mapping, checked_text
from capset.errors import DefinitionError, ToolError, TransientError
from capset.net.client import HttpClient
from capset_connect.declarations import Secret, fill_secrets, optional_url, texts_by, words
from capset_connect.token_requests import CLIENT_METHOD, ClientMethod, TokenAnswer, request_tokens

NO_TOKEN: Final = "no_token"  # noqa: S105  # the code of an error
"""The error code for a token request that failed."""
_SHARE: Final = 0.9
"""The share of its lifetime for which a token is used."""
PARAMETER: Final = re.compile(r"(?!(?:grant_type|client_id|client_secret|scope)$)[A-Za-z][A-Za-z0-9_.-]{0,63}")


def _token_url(field: str, url: str) -> str:
    if optional_url(field, url) is None:
        raise DefinitionError(f"{field} must be the URL of an authorization server's token endpoint")
    return url


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials(FrozenValue):
    """A client of an authorization server that gets access tokens with the OAuth 2 grant ``client_credentials``.

    In ``client_id`` and ``client_secret``, ``${NAME}`` is replaced by the secret of that name. Raises
    ``DefinitionError``, naming the invalid field.
    """

    token_url: str = checked_field(_token_url)
    """The token endpoint of the authorization server."""
    client_id: str = checked_field(checked_text)
    client_secret: str = checked_field(checked_text)
    scopes: Iterable[str] = checked_field(words, ())
    parameters: Mapping[str, str] = checked_field(texts_by("a parameter", PARAMETER), ())
    """Additional parameters of the token request, such as ``resource`` or ``audience``."""
    method: ClientMethod = checked_field(CLIENT_METHOD, "basic")

    def __post_init__(self) -> None:
        store_checked(self)

    @property
    def texts(self) -> tuple[str, str]:
        """The texts that may contain placeholders for secrets."""
        return self.client_id, self.client_secret


def client_credentials_of(field: str, value: ClientCredentials | Mapping[str, Any]) -> ClientCredentials:
    """Return client credentials, created from a mapping if necessary. Raises ``DefinitionError``."""
    if isinstance(value, ClientCredentials):
        return value
    try:
        return ClientCredentials(**checked_mapping(field, value))
    except DefinitionError as error:
        raise DefinitionError(f"{field}: {error.message}") from None
    except TypeError:
        raise DefinitionError(f"{field} must be ClientCredentials; got {list(value)!r:.200}") from None


class AccessTokens:
    """A client's access tokens. A token is used for 90 % of its lifetime, or until it is refused.

    Args:
        owner: the label of their user in messages: ``MCP server 'books'``.
        credentials: the credentials of the client.
        secret: the source of secrets, read for each token request.
        http: returns the HTTP client for token requests, which may reach the same hosts as requests to the owner.
    """

    def __init__(
        self,
        owner: str,
        credentials: ClientCredentials,
        secret: Secret,
        http: Callable[[], Awaitable[HttpClient]],
    ) -> None:
        self._owner = owner
        self._credentials = credentials
        self._secret = secret
        self._http = http
        self._token = ""
        self._until = -math.inf
        self._lock = asyncio.Lock()

    async def get(self, refused: str | None = None) -> str:
        """Return a valid token that is not the ``refused`` one. If necessary, a new one is fetched.

        Raises ``ToolError`` or ``TransientError`` (``no_token``) if the token request fails, and ``DefinitionError``
        for a secret that is not set.
        """
        async with self._lock:
            if self._token == refused or monotonic() >= self._until:
                self._until = -math.inf
                try:
                    answer = await self._fetched()
                except TransientError as error:
                    raise TransientError(self._failure(error.message), code=NO_TOKEN) from None
                except ToolError as error:
                    raise ToolError(self._failure(error.message), code=NO_TOKEN, status=502) from None
                self._token, self._until = answer.access, monotonic() + _SHARE * answer.seconds
            return self._token

    def _failure(self, why: str) -> str:
        return f"The {self._owner} has no access token: {why}"

    async def _fetched(self) -> TokenAnswer:
        credentials = self._credentials
        client = {"client_id": credentials.client_id, "client_secret": credentials.client_secret}
        filled = await fill_secrets(self._owner, "credential", client, self._secret)
        form = {"grant_type": "client_credentials", **credentials.parameters}
        if credentials.scopes:
            form["scope"] = " ".join(credentials.scopes)
        pair = filled["client_id"], filled["client_secret"]
        return await request_tokens(
            await self._http(), credentials.token_url, form, client=pair, method=credentials.method
        )

"""An authorization server on Authlib with accounts of users: refresh tokens that rotate, revocation, token exchange.

Unlike that of ``tests.helpers.server.auth``, its tokens are opaque, and it remembers what each is for.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import httpx2
import uvicorn
from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    AuthorizationServer,
    ClientMixin,
    InvalidGrantError,
    OAuth2Error,
    TokenMixin,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc6749.grants.base import BaseGrant, TokenEndpointMixin
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capset_server.http.uvicorn_server import bind
from tests.helpers.server.auth.authorizing import Answer, Asked

EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_METHODS: Final = ["none", "client_secret_basic", "client_secret_post"]


@dataclass
class Client(ClientMixin):
    """The one client."""

    client_id: str
    secret: str | None
    redirect_uris: list[str] = field(default_factory=list[str])

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope: Any) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return not self.redirect_uris or redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in _METHODS

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return True


@dataclass
class Code(AuthorizationCodeMixin):
    """A code that was issued."""

    code: str
    redirect_uri: str
    scope: str
    user: str
    resource: str | None
    code_challenge: str
    code_challenge_method: str = "S256"

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Issued(TokenMixin):
    """Tokens that were issued together, for a user and an audience."""

    user: str
    scope: str
    access: str
    refresh: str | None
    audience: str | None
    expires_at: float
    is_over: bool = False

    def check_client(self, client: Any) -> bool:
        return True

    def get_scope(self) -> str:
        return self.scope

    def get_expires_in(self) -> int:
        return round(self.expires_at - time.time())

    def is_expired(self) -> bool:
        return self.expires_at <= time.time()

    def get_user(self) -> str:
        return self.user


class _Codes(AuthorizationCodeGrant):
    server: Accounts
    TOKEN_ENDPOINT_AUTH_METHODS = _METHODS

    def save_authorization_code(self, code: str, request: Any) -> None:
        fields = request.payload.data
        self.server.codes[code] = Code(
            code, fields["redirect_uri"], request.scope or "", request.user, fields.get("resource"),
            fields["code_challenge"],
        )  # fmt: skip

    def query_authorization_code(self, code: str, client: Any) -> Code | None:
        return self.server.codes.get(code)

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del self.server.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> str:
        return authorization_code.user


class _Refreshing(RefreshTokenGrant):
    server: Accounts
    TOKEN_ENDPOINT_AUTH_METHODS = _METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Any:
        """Return the tokens. A refresh token that is used twice revokes all tokens of its user (RFC 9700)."""
        issued = next((issued for issued in self.server.issued if issued.refresh == refresh_token), None)
        if issued is None or not issued.is_over:
            return issued
        self.server.revoke(issued.user)
        return None

    def authenticate_user(self, refresh_token: Any) -> str:
        return refresh_token.user

    def revoke_old_credential(self, refresh_token: Any) -> None:
        refresh_token.is_over = True


class _Exchange(BaseGrant, TokenEndpointMixin):
    """Token exchange (RFC 8693) of an access token for one of another audience."""

    server: Accounts
    GRANT_TYPE = EXCHANGE
    TOKEN_ENDPOINT_AUTH_METHODS = _METHODS

    def validate_token_request(self) -> None:
        self.request.client = self.authenticate_token_endpoint_client()
        fields = cast("Asked", self.request).form
        subject = self.server.active(fields.get("subject_token", ""))
        if subject is None:
            raise InvalidGrantError()
        self.request.user = subject.user

    def create_token_response(self) -> Any:
        fields = cast("Asked", self.request).form
        scope = fields.get("scope", "")
        token = self.generate_token(user=self.request.user, scope=scope, include_refresh_token=False)
        token["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
        self.save_token(token)
        return 200, token, self.TOKEN_RESPONSE_HEADER


class _Revocation(RevocationEndpoint):
    server: Accounts
    CLIENT_AUTH_METHODS = _METHODS

    def query_token(self, token_string: str, token_type_hint: str | None) -> Issued | None:
        return next((issued for issued in self.server.issued if token_string in (issued.access, issued.refresh)), None)

    def revoke_token(self, token: Issued, request: Any) -> None:
        token.is_over = True


class Accounts(AuthorizationServer):
    """The authorization server. The ``user`` who is signed in consents at once.

    ``seconds`` is the lifetime of access tokens. ``failing`` is the status of every token request, if set.
    """

    def __init__(self, issuer: str) -> None:
        super().__init__()
        self.issuer = issuer
        self.user = "ada"
        self.client = Client("capset", "client-secret-of-capset")
        self.seconds = 3_600
        self.failing: int | None = None
        self.codes: dict[str, Code] = {}
        self.issued: list[Issued] = []
        self.token_requests: list[dict[str, str]] = []
        self.revoked: list[str] = []
        self.register_token_generator(
            "default",
            BearerTokenGenerator(
                lambda **_: f"access-{secrets.token_hex(16)}",
                lambda **_: f"refresh-{secrets.token_hex(16)}",
                lambda *_: self.seconds,
            ),
        )
        self.register_grant(_Codes, [CodeChallenge(required=True)])
        self.register_grant(_Refreshing)
        self.register_grant(_Exchange)
        self.register_endpoint(_Revocation)
        self.app = Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/revoke", self._revoke, methods=["POST"]),
            ]
        )

    def active(self, access: str) -> Issued | None:
        """Return what an access token is for, if it is valid."""
        return next((issued for issued in self.issued if issued.access == access and self._is_valid(issued)), None)

    def _is_valid(self, issued: Issued) -> bool:
        return not issued.is_over and not issued.is_expired()

    def revoke(self, user: str) -> None:
        """Revoke all tokens of a user, as the user does in the provider's own settings."""
        for issued in self.issued:
            if issued.user == user:
                issued.is_over = True

    def expire(self) -> None:
        """Let all access tokens expire."""
        for issued in self.issued:
            issued.expires_at = time.time() - 1

    def query_client(self, client_id: str) -> Any:
        return self.client if client_id == self.client.client_id else None

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        fields = request.payload.data
        code = self.codes.get(fields.get("code", ""))
        audience = fields.get("resource") or fields.get("audience") or (code and code.resource)
        expires_at = time.time() + token.get("expires_in", 3_600)
        self.issued.append(
            Issued(request.user, token.get("scope", ""), token["access_token"], token.get("refresh_token"), audience,
                   expires_at)
        )  # fmt: skip

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nothing listens."""

    def create_oauth2_request(self, request: Asked) -> Asked:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Answer:
        return Answer(json.dumps(body) if isinstance(body, dict) else body, status, dict(headers))

    async def _metadata(self, request: Request) -> Response:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "revocation_endpoint": "revoke"}
        urls = {name: f"{self.issuer}/{path}" for name, path in names.items()}
        return JSONResponse({"issuer": self.issuer, "response_types_supported": ["code"], **urls})

    async def _authorize(self, request: Request) -> Response:
        asked = Asked(request, request.query_params.multi_items())
        try:
            grant = self.get_consent_grant(asked, self.user)
        except OAuth2Error as error:
            return cast("Response", self.handle_error_response(asked, error))
        return cast("Response", self.create_authorization_response(asked, self.user, grant))

    async def _token(self, request: Request) -> Response:
        fields = await _form(request)
        self.token_requests.append(dict(fields))
        if self.failing is not None:
            return Response("{}", self.failing)
        return cast("Response", self.create_token_response(Asked(request, fields)))

    async def _revoke(self, request: Request) -> Response:
        fields = await _form(request)
        self.revoked.append(dict(fields)["token"])
        return cast("Response", self.create_endpoint_response("revocation", Asked(request, fields)))


async def _form(request: Request) -> list[tuple[str, str]]:
    async with request.form() as form:
        return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


async def consent(url: str) -> dict[str, str]:
    """Open the page of the provider, whose user consents at once; return the parameters of the way back."""
    async with httpx2.AsyncClient(trust_env=False) as browser:
        answer = await browser.get(url, follow_redirects=False)
    assert answer.status_code == 302, answer.text
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


async def follow_consent(url: str) -> int:
    """Consent, and follow the way back to the redirect URI; return the status there."""
    back = await consent(url)
    redirect_uri = parse_qs(urlsplit(url).query)["redirect_uri"][0]
    async with httpx2.AsyncClient(trust_env=False) as browser:
        return (await browser.get(redirect_uri, params=back)).status_code


@asynccontextmanager
async def accounts() -> AsyncGenerator[Accounts]:
    """Run the authorization server on a free port of this machine."""
    bound = bind("127.0.0.1", 0)
    running = Accounts(f"http://127.0.0.1:{bound.getsockname()[1]}")
    server = uvicorn.Server(uvicorn.Config(running.app, lifespan="off", log_config=None, timeout_graceful_shutdown=5))
    serving = asyncio.ensure_future(server._serve([bound]))  # without taking the process's signals
    try:
        yield running
    finally:
        server.should_exit = True
        await serving

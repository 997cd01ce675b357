"""A small authorization server on Authlib: codes with PKCE for resources, JWTs as access tokens, clients by URL."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx2
import uvicorn
from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    AuthorizationServer,
    ClientMixin,
    InvalidRequestError,
    OAuth2Error,
    OAuth2Payload,
    OAuth2Request,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oauth2.rfc9207 import IssuerParameter
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capset_server.auth.open_id import OpenIdClient, OpenIdSignIn
from capset_server.auth.tokens import Issuer, Tokens
from capset_server.http.uvicorn_server import bind
from tests.helpers.server.support import Site, site

CALLBACK: Final = "http://127.0.0.1:9/callback"
"""Where a browser would be sent with a code. Nothing listens there."""


@dataclass
class Person:
    """Who is signed in, and the resource that a token is asked for."""

    name: str
    resource: str

    def get_user_id(self) -> str:
        return self.name


@dataclass
class Known(ClientMixin):
    """A client that was registered beforehand, or whose metadata document was read. It may have a secret."""

    client_id: str
    redirect_uris: list[str]
    provider: Provider
    secret: str | None = None

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirect_uris[0]

    def get_allowed_scope(self, scope: Any) -> str:
        """Return what the person consents to of it."""
        return " ".join(self.provider.narrowed.get(scope_name, scope_name) for scope_name in (scope or "").split())

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == ("none" if self.secret is None else "client_secret_basic")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass
class Code(AuthorizationCodeMixin):
    """A code that was given out, and for what."""

    code: str
    client_id: str
    redirect_uri: str
    scope: str
    user: Person
    code_challenge: str
    code_challenge_method: str
    nonce: str | None = None

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


class Payload(OAuth2Payload):
    """The parameters of a request, by name, with all their values."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._listed: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in pairs:
            self._listed[name].append(value)

    @property
    def data(self) -> dict[str, str]:
        return {name: values[-1] for name, values in self._listed.items()}

    @property
    def datalist(self) -> defaultdict[str, list[str]]:
        return self._listed


class Asked(OAuth2Request):
    """A request, as Authlib reads it."""

    def __init__(self, request: Request, pairs: Iterable[tuple[str, str]]) -> None:
        super().__init__(request.method, str(request.url), headers=request.headers)
        self.payload: Any = Payload(pairs)

    @property
    def args(self) -> dict[str, str | None]:
        return self.payload.data

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data


class Answer(Response):
    """A response whose ``Location`` extensions may change."""

    @property
    def location(self) -> str | None:
        return self.headers.get("location")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["location"] = value


class Grant(AuthorizationCodeGrant):
    """Codes for public clients, each for one resource (RFC 8707)."""

    server: Provider

    def __init__(self, request: OAuth2Request, server: AuthorizationServer) -> None:
        super().__init__(request, server)
        self.TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic"]

    def save_authorization_code(self, code: str, request: Any) -> None:
        fields = request.payload.data
        if fields.get("code_challenge_method") != "S256" or "resource" not in fields:
            raise InvalidRequestError("S256 and a resource are needed", redirect_uri=fields["redirect_uri"])
        person = Person(self.server.person, fields["resource"])
        details = (fields["client_id"], fields["redirect_uri"], request.scope, person, fields["code_challenge"], "S256")
        self.server.codes[code] = Code(code, *details, nonce=fields.get("nonce"))

    def query_authorization_code(self, code: str, client: Any) -> Code | None:
        authorization = self.server.codes.get(code)
        resource = cast("Asked", self.request).payload.data.get("resource")
        return (
            authorization
            if authorization and authorization.client_id == client.client_id and resource == authorization.user.resource
            else None
        )

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del self.server.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> Person:
        return authorization_code.user


class AccessTokens(JWTBearerTokenGenerator):
    """Access tokens as RFC 9068 has them, for the resource that was asked for."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider.issuer, "ES256", expires_generator=300)
        self._provider = provider

    def get_jwks(self) -> ECKey:
        return self._provider.key

    def get_audiences(self, client: Known, user: Person, scope: str) -> str:
        return user.resource

    def get_extra_claims(self, client: Known, grant_type: str, user: Person, scope: str) -> dict[str, str]:
        return {"org": "acme"}


class IdTokens(OpenIDCode):
    """ID tokens as OpenID Connect has them, where the scope ``openid`` was asked for."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(require_nonce=True)
        self._provider = provider

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return any(code.nonce == nonce for code in self._provider.codes.values())

    def resolve_client_private_key(self, client: Known) -> ECKey:
        return self._provider.key

    def get_client_algorithm(self, client: Known) -> str:
        return "ES256"

    def get_client_claims(self, client: Known) -> dict[str, Any]:
        return {"iss": self._provider.issuer, "aud": [client.client_id]}

    def get_encode_header(self, client: Known) -> dict[str, str]:
        return {"alg": "ES256", "kid": "one"}

    def get_authorization_code_claims(self, authorization_code: Any) -> dict[str, Any]:
        return {"nonce": authorization_code.get_nonce(), **self._provider.id_claims}

    def generate_user_info(self, user: Person, scope: str) -> UserInfo:
        return UserInfo(sub=self._provider.id_claims.get("sub", user.name))


class Provider(AuthorizationServer):
    """The authorization server. Each client is shown to one ``person``, who consents at once.

    ``narrowed`` are the scopes in whose place another is given. ``trust`` has the certificate of those whose metadata
    documents are read; ``asked`` are the requests for codes, as they came.
    """

    def __init__(self, issuer: str, trust: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.issuer = issuer
        self.person = "grace"
        self.narrowed: dict[str, str] = {}
        self.key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
        self.clients: dict[str, Known] = {}
        self.codes: dict[str, Code] = {}
        self.id_claims: dict[str, Any] = {}
        """Claims of ID tokens in the place of those that they would have."""
        self.answered: Callable[[dict[str, Any]], Any] = lambda tokens: tokens
        """Returns the answer in the place of tokens: JSON data, or bytes."""
        self.described_as: dict[str, Any] = {}
        """Members of the metadata in the place of those that they would have."""
        self.asked: list[dict[str, str]] = []
        self.described = 0
        self._trust = trust
        provider = self

        class Named(IssuerParameter):
            def __init__(self, server: AuthorizationServer) -> None:
                self(server)

            def get_issuer(self) -> str:
                return provider.issuer

        self.register_token_generator("default", AccessTokens(self))
        self.register_grant(Grant, [CodeChallenge(required=True), IdTokens(self)])
        self.register_extension(Named)
        self.app = Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/jwks", self._jwks),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    def register(self, client_id: str, *redirect_uris: str, secret: str | None = None) -> None:
        """Register a client."""
        self.clients[client_id] = Known(client_id, list(redirect_uris), self, secret)

    def token(self, **claims: Any) -> str:
        """Return a token of this server's, as no client could ask for it."""
        now = int(time.time())
        usual = {"iss": self.issuer, "sub": self.person, "org": "acme", "iat": now, "exp": now + 300}
        return jwt.encode({"alg": "ES256", "kid": "one", "typ": "at+jwt"}, {**usual, **claims}, self.key)

    def query_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        """Keep none: a token says by itself what it is for."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: Asked) -> Asked:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Answer:
        return Answer(json.dumps(body) if isinstance(body, dict) else body, status, dict(headers))

    async def _metadata(self, request: Request) -> Response:
        self.described += 1
        metadata = AuthorizationServerMetadata(
            issuer=self.issuer,
            authorization_endpoint=f"{self.issuer}/authorize",
            token_endpoint=f"{self.issuer}/token",
            jwks_uri=f"{self.issuer}/jwks",
            response_types_supported=["code"],
            grant_types_supported=["authorization_code"],
            code_challenge_methods_supported=["S256"],
            token_endpoint_auth_methods_supported=["none"],
        )
        metadata.validate()
        more = {"client_id_metadata_document_supported": True, "authorization_response_iss_parameter_supported": True}
        return JSONResponse({**metadata, **more, **self.described_as})

    async def _jwks(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def _authorize(self, request: Request) -> Response:
        oauth_request = Asked(request, request.query_params.multi_items())
        self.asked.append(oauth_request.payload.data)
        await self._learn(oauth_request.payload.client_id)
        try:
            grant = self.get_consent_grant(oauth_request, self.person)
        except OAuth2Error as error:
            return cast("Response", self.handle_error_response(oauth_request, error))
        return cast("Response", self.create_authorization_response(oauth_request, self.person, grant))

    async def _token(self, request: Request) -> Response:
        async with request.form() as form:
            fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        response = cast("Response", self.create_token_response(Asked(request, fields)))
        if response.status_code != 200:
            return response
        answer = self.answered(json.loads(bytes(response.body)))
        return Response(answer) if isinstance(answer, bytes) else JSONResponse(answer)

    async def _learn(self, client_id: str | None) -> None:
        """Read the metadata document of a client whose id is its URL."""
        if client_id is None or client_id in self.clients or not client_id.startswith("https://"):
            return
        async with httpx2.AsyncClient(verify=self._trust or True, trust_env=False) as http:
            document = (await http.get(client_id)).raise_for_status().json()
        assert document["client_id"] == client_id, "a document speaks for its own address only"
        self.register(client_id, *document["redirect_uris"])


@asynccontextmanager
async def provider(trust: ssl.SSLContext | None = None) -> AsyncGenerator[Provider]:
    """Run an authorization server on a free port of this machine."""
    bound = bind("127.0.0.1", 0)
    authorization_server = Provider(f"http://127.0.0.1:{bound.getsockname()[1]}", trust)
    server = uvicorn.Server(
        uvicorn.Config(authorization_server.app, lifespan="off", log_config=None, timeout_graceful_shutdown=5)
    )
    serving = asyncio.ensure_future(server._serve([bound]))  # without taking the process's signals
    try:
        yield authorization_server
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def protected(by: Provider, declared: str | None = None, **options: Any) -> AsyncGenerator[Site]:
    """Serve a site that clients find the authorization server of, knowing its URL alone.

    ``declared`` is the path of the one resource that it is, if there is one. ``client`` is the id and the secret by
    which people sign in to its console there.
    """
    bound = bind("127.0.0.1", 0)
    public = f"http://127.0.0.1:{bound.getsockname()[1]}"
    audience = None if declared is None else public + declared
    issuer = Issuer(by.issuer, audience, f"{by.issuer}/jwks", public_url=public)
    if (client := options.pop("client", None)) is not None:
        options["open_id"] = lambda kernel: OpenIdSignIn(OpenIdClient(issuer, *client), kernel)
    async with site(tokens=lambda kernel: Tokens(kernel, issuer), bound=bound, **options) as server:
        yield server

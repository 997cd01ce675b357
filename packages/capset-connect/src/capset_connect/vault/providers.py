"""Authorization servers at which users connect their accounts (spec 11, V10).

Authorization codes with PKCE (RFC 6749, RFC 7636, RFC 9700), refresh tokens, token exchange (RFC 8693) and revocation
(RFC 7009). The endpoints are declared, or discovered from the issuer's metadata (RFC 8414, OpenID Connect Discovery).
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from capset.definitions.fields import checked_field, requiring, store_checked
from capset.definitions.identity import FrozenValue
from capset.definitions.names import checked_flag, checked_optional, checked_text
from capset.errors import CapsetError, DefinitionError, ToolError, TransientError
from capset.net.addresses import is_loopback
from capset.net.client import HttpClient
from capset.net.urls import parse_url
from capset.schemas.strict_json import parse_json
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.client_credentials import PARAMETER
from capset_connect.declarations import (
    Secret,
    fill_secrets,
    optional_url,
    proxies_of,
    secrets_in,
    source_name,
    texts_by,
    words,
)
from capset_connect.token_requests import CLIENT_METHOD, ClientMethod, TokenAnswer, post_form, request_tokens

_METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_METADATA_SECONDS: Final = 300.0
"""How long an issuer's metadata is cached."""
_MAX_BYTES: Final = 256 * 1024
_TIMEOUT: Final = 10.0
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  # the name of a type
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider(FrozenValue):
    """An authorization server, and this server as its client.

    In ``client_id`` and ``client_secret``, ``${NAME}`` is replaced by the secret of that name. Raises
    ``DefinitionError``, naming the invalid field.
    """

    name: str = checked_field(source_name("a provider"))
    issuer: str | None = checked_field(optional_url, None)
    """The issuer, whose metadata has the endpoints; or else the endpoints are declared."""
    authorize_url: str | None = checked_field(optional_url, None)
    token_url: str | None = checked_field(optional_url, None)
    revoke_url: str | None = checked_field(optional_url, None)
    client_id: str = checked_field(checked_text)
    client_secret: str | None = checked_field(checked_optional, None)
    """The secret of a confidential client; a public client has none."""
    method: ClientMethod = checked_field(CLIENT_METHOD, "basic")
    scopes: Iterable[str] = checked_field(words, ())
    """The scopes of every connection, in addition to those that a server declares."""
    parameters: Mapping[str, str] = checked_field(texts_by("a parameter", PARAMETER), ())
    """Additional parameters of the authorization request, such as ``access_type``."""
    exchange: bool = checked_field(checked_flag, False)
    """Whether users connect to the provider once, and each server gets a token by exchange (RFC 8693)."""
    internal: Iterable[str] = checked_field(words, ())
    """The internal hosts that may be contacted, as ``host`` or ``host:port``."""
    ca_file: str | None = checked_field(
        requiring("{} must be a path", lambda path: isinstance(path, str), optional=True), None
    )

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"provider {self.name!r:.80}: {error.message}", hint=error.hint) from None
        declared = [name for name in ("authorize_url", "token_url", "revoke_url") if getattr(self, name) is not None]
        if (self.issuer is None) == (self.authorize_url is None or self.token_url is None) or (
            self.issuer and declared
        ):
            raise DefinitionError(
                f"provider {self.name!r} needs either an issuer, or an authorize_url and a token_url, and a revoke_url "
                "if it has one"
            )
        for name in ("issuer", *declared):
            url = getattr(self, name)
            if url is not None and _safe_endpoint(url) is None:
                raise DefinitionError(f"provider {self.name!r}: {name} must be https, except on this machine")

    @property
    def label(self) -> str:
        """Its kind and name, for messages."""
        return f"provider {self.name!r}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs."""
        return secrets_in((self.client_id, self.client_secret or ""))


@dataclass(frozen=True, slots=True)
class AuthorizationStart:
    """The page of the provider to open, and what has to be kept until the provider redirects back."""

    url: str
    state: str = field(repr=False)
    verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Endpoints:
    authorize: str
    token: str
    revoke: str | None


class ProviderClient:
    """The exchanges with one provider. ``secret`` is the source of secrets, read for each request."""

    def __init__(self, provider: Provider, secret: Secret) -> None:
        self.provider: Final = provider
        self._secret = secret
        self._discovered: tuple[float, _Endpoints] | None = None

    async def begin(self, redirect_uri: str, scopes: Iterable[str], audience: str | None) -> AuthorizationStart:
        """Return the page at which a user connects an account. Raises ``TransientError`` without the metadata."""
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        client_id, _ = await self._client()
        query = {
            **self.provider.parameters,
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **_target(audience),
        }
        if wanted := self.scopes(scopes):
            query["scope"] = " ".join(wanted)
        endpoint = (await self._endpoints()).authorize
        separator = "&" if "?" in endpoint else "?"
        return AuthorizationStart(f"{endpoint}{separator}{urlencode(query, quote_via=quote)}", state, verifier)

    async def prepare(self) -> None:
        """Read the metadata if necessary, so that the next request does not wait for it. Raises ``TransientError``."""
        await self._endpoints()

    def scopes(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the scopes to request for a server: those of the provider and of the server, without repetitions."""
        return tuple(dict.fromkeys((*self.provider.scopes, *scopes)))

    async def redeem(self, code: str, verifier: str, redirect_uri: str, audience: str | None) -> TokenAnswer:
        """Exchange an authorization code for tokens. Raises ``TokenRefused`` or ``TransientError``."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            **_target(audience),
        }
        return await self._tokens(form, (code, verifier))

    async def refresh(self, token: str, audience: str | None) -> TokenAnswer:
        """Return new tokens for a refresh token. Raises ``TokenRefused`` or ``TransientError``."""
        form = {"grant_type": "refresh_token", "refresh_token": token, **_target(audience)}
        return await self._tokens(form, (token,))

    async def exchange(self, token: str, scopes: Iterable[str], audience: str | None) -> TokenAnswer:
        """Exchange a user's access token for one that is meant for ``audience``. Raises as ``refresh`` does."""
        form = {
            "grant_type": _EXCHANGE,
            "subject_token": token,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            **_target(audience),
        }
        if wanted := tuple(scopes):
            form["scope"] = " ".join(wanted)
        return await self._tokens(form, (token,))

    async def revoke(self, token: str) -> bool:
        """Revoke a token at the provider. Return ``False`` if it has no endpoint for that, or did not answer 2xx."""
        endpoint = (await self._endpoints()).revoke
        if endpoint is None:
            return False
        status, _ = await post_form(
            await self._http(), endpoint, {"token": token}, client=await self._client(), method=self.provider.method
        )
        return 200 <= status < 300

    async def _tokens(self, form: Mapping[str, str], hidden: Iterable[str]) -> TokenAnswer:
        endpoint = (await self._endpoints()).token
        http, client = await self._http(), await self._client()
        return await request_tokens(http, endpoint, form, client=client, method=self.provider.method, hidden=hidden)

    async def _http(self) -> HttpClient:
        provider = self.provider
        proxies = await proxies_of(provider.label, None, provider.internal, self._secret)
        return HttpClient(allow=provider.internal, ca_file=provider.ca_file, proxies=proxies)

    async def _client(self) -> tuple[str, str | None]:
        provider = self.provider
        texts = {"client_id": provider.client_id}
        if provider.client_secret is not None:
            texts["client_secret"] = provider.client_secret
        filled = await fill_secrets(provider.label, "credential", texts, self._secret)
        return filled["client_id"], filled.get("client_secret")

    async def _endpoints(self) -> _Endpoints:
        """Return the declared or discovered endpoints. Raises ``TransientError`` if there is no usable metadata."""
        provider = self.provider
        if provider.issuer is None:
            return _Endpoints(cast("str", provider.authorize_url), cast("str", provider.token_url), provider.revoke_url)
        if self._discovered is None or monotonic() - self._discovered[0] >= _METADATA_SECONDS:
            self._discovered = monotonic(), await self._discover(provider.issuer)
        return self._discovered[1]

    async def _discover(self, issuer: str) -> _Endpoints:
        failure = f"The {self.provider.label} has no metadata at {issuer}."
        for path in _METADATA:
            metadata = await self._metadata(_metadata_url(issuer, path))
            if metadata is None:
                continue
            if metadata.get("issuer") != issuer:
                failure = f"The metadata of the {self.provider.label} is for another issuer than {issuer}."
                continue
            names = ("authorization_endpoint", "token_endpoint", "revocation_endpoint")
            authorize, token, revoke = (_safe_endpoint(metadata.get(name)) for name in names)
            if authorize is not None and token is not None:
                return _Endpoints(authorize, token, revoke)
            failure = f"The metadata of the {self.provider.label} lacks an endpoint, or has one that is not https."
        raise TransientError(failure)

    async def _metadata(self, url: str) -> Mapping[str, Any] | None:  # JSON
        try:
            http = await self._http()
            async with http.open("GET", url, timeout=_TIMEOUT, redirects=None) as answer:
                parsed = parse_json((await answer.read(_MAX_BYTES)).data) if answer.status == 200 else None
        except SchemaMismatch:
            return None
        except CapsetError as error:
            raise TransientError(f"The metadata of the {self.provider.label} cannot be read: {error.message}") from None
        return cast("Mapping[str, Any]", parsed) if isinstance(parsed, dict) else None


def _metadata_url(issuer: str, path: str) -> str:
    """Return the URL of an issuer's metadata. OpenID appends the path; RFC 8414 puts it before the issuer's own."""
    base = issuer.rstrip("/")
    if path == _METADATA[1]:
        return base + path
    place = parse_url(base)
    own_path = base.split("://", 1)[1].partition("/")[2]
    return f"{place.scheme}://{place.authority}{path}" + (f"/{own_path}" if own_path else "")


def _safe_endpoint(url: object) -> str | None:
    """Return the URL of an endpoint that may receive codes and tokens: https, or http on loopback."""
    try:
        place = parse_url(url if isinstance(url, str) else "")
    except ToolError:
        return None
    return cast("str", url) if place.scheme == "https" or is_loopback(place.host) else None


def _target(audience: str | None) -> Mapping[str, str]:
    """Return the parameter that names who the token is for: ``resource`` (RFC 8707) for a URL, else ``audience``."""
    if audience is None:
        return {}
    return {"resource" if "://" in audience else "audience": audience}

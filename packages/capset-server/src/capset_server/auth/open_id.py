"""Sign-in with an OpenID provider: authorization codes with PKCE (OpenID Connect Core 1.0, RFC 7636, RFC 9700)."""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from urllib.parse import quote, urlencode, urlsplit

from pydantic_core import from_json

from capset.errors import CapsetError, DefinitionError, ToolError, Unauthenticated, Unreachable
from capset.kernel.kernel import Kernel
from capset.net.addresses import is_loopback
from capset.net.client import HttpClient
from capset.net.urls import parse_url
from capset_server.auth.jwks import Jwks
from capset_server.auth.keys import Scope
from capset_server.auth.tokens import Issuer, Tokens

CALLBACK: Final = "/login/callback"
"""The path that the provider redirects to. It must be registered there, below the public URL."""
SCOPES: Final[tuple[Scope, ...]] = ("capset:read", "capset:call", "capset:write", "capset:approve", "capset:audit")
"""The scopes to request besides ``openid``, by default. The provider may grant fewer."""
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_TIMEOUT: Final = 10.0
_KNOWN_SECONDS: Final = 60.0
"""How long the provider's metadata is cached: anyone can start a sign-in, which needs it."""
_MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class OpenIdClient:
    """The server as a client of an OpenID provider, whose access tokens it accepts.

    Args:
        issuer: the provider, as the issuer of tokens for this server. It must have the server's public URL.
        client_id: the server's client id at the provider.
        client_secret: the secret of a confidential client; ``None`` for a public one.
        scopes: the scopes to request besides ``openid``.

    Raises ``DefinitionError`` for an empty client id, and an issuer that has no public URL.
    """

    issuer: Issuer
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = SCOPES

    def __post_init__(self) -> None:
        """Validate the fields."""
        if not (self.client_id.strip() and self.client_id.isprintable()):
            raise DefinitionError(f"the id of an OpenID client must be printable text; got {self.client_id!r:.80}")
        if self.issuer.public_url is None:
            raise DefinitionError(
                "a sign-in with an OpenID provider redirects back to this server: it needs --public-url",
                hint=f"register the public URL with {CALLBACK} as the redirect URI at the provider",
            )


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """A sign-in under way. The browser keeps it, encrypted, until the provider redirects back."""

    state: str
    verifier: str
    nonce: str
    following: str

    def text(self) -> str:
        """Serialise the attempt."""
        return "\n".join((self.state, self.verifier, self.nonce, self.following))

    @classmethod
    def read(cls, text: str) -> SignInAttempt:
        """Parse a serialised attempt."""
        return cls(*text.split("\n", 3))


class OpenIdSignIn:
    """The exchange with the provider. ``jwks`` and ``http`` replace those made from the issuer's URLs."""

    def __init__(
        self, client: OpenIdClient, kernel: Kernel, *, jwks: Jwks | None = None, http: HttpClient | None = None
    ) -> None:
        self._client = client
        provider = parse_url(client.issuer.issuer)
        self._http = http or HttpClient(allow=[provider.authority])
        issuer = replace(client.issuer, audience=client.client_id, public_url=None)
        self._id_tokens = Tokens(kernel, issuer, jwks=jwks)
        self._known: tuple[float, Mapping[str, str]] | None = None

    @property
    def provider(self) -> str:
        """The provider's host, as its name for people."""
        return urlsplit(self._client.issuer.issuer).netloc

    async def begin(self, following: str) -> tuple[str, SignInAttempt]:
        """Return the URL of the provider's sign-in, and the attempt to keep until the provider redirects back.

        Raises ``Unreachable`` if the provider's metadata cannot be fetched.
        """
        state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = SignInAttempt(state, verifier, nonce, following)
        endpoint = (await self._metadata())["authorization_endpoint"]
        challenge = urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self._client.scopes))),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self._resource,
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query, quote_via=quote)}", attempt

    async def finish(self, attempt: SignInAttempt, answered: Mapping[str, str]) -> tuple[str, str]:
        """Exchange the code in the provider's redirect; return the access token and the subject of the ID token.

        The ID token is verified, the access token is not. Raises ``Unauthenticated`` for a response to another attempt,
        from another issuer, or with an error, and for an ID token that is not for this client and this attempt;
        ``Unreachable`` if the provider does not return both tokens.
        """
        if not secrets.compare_digest(answered.get("state", "").encode(), attempt.state.encode()):
            raise Unauthenticated("This response is for another sign-in. Sign in again.")
        if answered.get("iss", self._client.issuer.issuer) != self._client.issuer.issuer:  # RFC 9207
            raise Unauthenticated("This response is from another provider. Sign in again.")
        if "error" in answered:
            description = answered.get("error_description") or answered["error"]
            raise Unauthenticated(f"The provider did not sign you in: {description:.200}")
        tokens = await self._exchange(answered.get("code", ""), attempt.verifier)
        access, identity = tokens.get("access_token"), tokens.get("id_token")
        if not isinstance(access, str) or not isinstance(identity, str):
            missing = "access token" if not isinstance(access, str) else "ID token"
            raise Unreachable(f"{self.provider} returned no {missing}")
        return access, await self._subject(identity, attempt)

    async def _subject(self, identity: str, attempt: SignInAttempt) -> str:
        """Return the subject of an ID token for this client and this attempt (OpenID Connect Core 1.0, 3.1.3.7)."""
        try:
            claims = await self._id_tokens.claims(identity)
        except Unauthenticated:
            raise Unauthenticated(
                "The provider's ID token is not for this server: the log says why (capset.tokens)."
            ) from None
        audience, party, subject = claims["aud"], claims.get("azp"), claims["sub"]
        is_shared = isinstance(audience, list) and len(cast("list[object]", audience)) > 1
        if (party is not None or is_shared) and party != self._client.client_id:
            raise Unauthenticated("The provider's ID token was issued to another party (azp). Sign in again.")
        if claims.get("nonce") != attempt.nonce or not isinstance(subject, str):
            raise Unauthenticated("The provider's response is for another sign-in. Sign in again.")
        return subject

    async def _exchange(self, code: str, verifier: str) -> Mapping[str, Any]:  # JSON data
        endpoint = (await self._metadata())["token_endpoint"]
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": self._client.client_id,
            "code_verifier": verifier,
            **self._resource,
        }
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        if (secret := self._client.client_secret) is not None:  # RFC 6749 §2.3.1: both are form-encoded first
            pair = f"{quote(self._client.client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return await self._json("POST", endpoint, headers, urlencode(form).encode())

    async def _metadata(self) -> Mapping[str, str]:
        """Return the URLs of the provider's endpoints. Raises ``Unreachable``, also for metadata of another issuer."""
        issuer = self._client.issuer.issuer
        if self._known is not None and time.monotonic() - self._known[0] < _KNOWN_SECONDS:
            return self._known[1]
        metadata = await self._json("GET", issuer.rstrip("/") + _WELL_KNOWN, {"accept": "application/json"}, None)
        if metadata.get("issuer") != issuer:
            raise Unreachable(f"the metadata of {self.provider} is for another issuer than {issuer}")
        endpoints = {name: _endpoint(name, metadata.get(name)) for name in ("authorization_endpoint", "token_endpoint")}
        self._known = time.monotonic(), endpoints
        return endpoints

    async def _json(
        self, method: Any, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> Mapping[str, Any]:  # JSON data
        """Return the JSON object of the provider's response. Redirects are not followed."""
        try:
            async with self._http.open(
                method, url, timeout=_TIMEOUT, headers=headers, content=content, redirects=None
            ) as answer:
                data = (await answer.read(_MAX_BYTES)).data
                status = answer.status
            parsed: object = from_json(data)
        except (CapsetError, ValueError) as error:
            raise Unreachable(f"the request to {self.provider} failed: {error!s:.200}") from None
        if not isinstance(parsed, dict):
            raise Unreachable(f"{self.provider} answered {status} without a JSON object")
        body = cast("dict[str, Any]", parsed)
        if status != 200:
            why = body.get("error_description") or body.get("error") or status
            raise Unauthenticated(f"The provider did not sign you in: {why!s:.200}")
        return body

    @property
    def _redirect_uri(self) -> str:
        return cast("str", self._client.issuer.public_url).rstrip("/") + CALLBACK

    @property
    def _resource(self) -> Mapping[str, str]:
        """The parameter ``resource`` (RFC 8707); empty if the declared audience is not a URL."""
        audience = self._client.issuer.audience or cast("str", self._client.issuer.public_url).rstrip("/")
        return {"resource": audience} if "://" in audience else {}


def _endpoint(name: str, url: object) -> str:
    """Return the URL of an endpoint that may receive codes and tokens, in ASCII and without a fragment.

    Raises ``Unreachable`` unless it is https, or http on loopback.
    """
    try:
        endpoint = parse_url(url if isinstance(url, str) else "")
    except ToolError:
        raise Unreachable(f"the provider's {name} is not a URL") from None
    if endpoint.scheme != "https" and not is_loopback(endpoint.host):
        raise Unreachable(f"the provider's {name} is not https")
    return str(endpoint)

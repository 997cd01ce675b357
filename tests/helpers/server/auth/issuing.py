"""An issuer of tokens with keys of its own, at an address of this machine."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, KeyParameters, OKPKey, RSAKey

from capset import Kernel
from capset.definitions.capabilities import AnyCapability
from capset_server.auth.jwks import Jwks
from capset_server.auth.tokens import Issuer, Tokens
from tests.helpers.net.support import Server, answer, server
from tests.helpers.server.support import Site, site

ISSUER = "https://login.example.com/"
AUDIENCE = "https://capset.example.com"
READ = "capset:read capset:call"


def key(kid: str, kind: str = "EC") -> Key:
    """Return a private key; the same one for the same names, since those of RSA take long to find."""
    return _key(kid, kind)


@cache
def _key(kid: str, kind: str) -> Key:
    parameters: KeyParameters = {"kid": kid, "use": "sig"}
    if kind == "RSA":
        return RSAKey.generate_key(2048, parameters)
    if kind == "OKP":
        return OKPKey.generate_key("Ed25519", parameters)
    return ECKey.generate_key("P-256" if kind == "EC" else kind, parameters)


ALG = {"EC": "ES256", "RSA": "RS256", "OKP": "Ed25519"}


def key_set(*keys: Key | dict[str, Any]) -> bytes:
    """Return the JSON of a set of public keys, and of whatever else is given."""
    return json.dumps(
        {"keys": [entry.as_dict(private=False) if isinstance(entry, Key) else entry for entry in keys]}
    ).encode()


def claims(**more: Any) -> dict[str, Any]:
    """Return claims that are good for an hour; one that is ``None`` is left out."""
    now = int(time.time())
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "grace", "org": "acme", "iat": now, "exp": now + 3600}
    return {name: value for name, value in {**usual, "scope": READ, **more}.items() if value is not None}


def token(by: Key | None = None, header: dict[str, Any] | None = None, **more: Any) -> str:
    """Return a token that is signed by a key, or by the usual one."""
    by = by or key("one")
    full_header: dict[str, Any] = {"alg": ALG[by.key_type], "kid": by.kid, **(header or {})}
    return write({name: value for name, value in full_header.items() if value is not None}, claims(**more), by)


def write(header: dict[str, Any], payload: dict[str, Any], by: Key) -> str:
    """Return a token with just this in it, by any algorithm."""
    registry = jws.JWSRegistry(algorithms=list(jws.JWSRegistry.algorithms), strict_check_header=False)
    return jwt.encode(header, payload, by, registry=registry)


def signed(payload: bytes, **header: Any) -> str:
    """Return what is signed by the usual key, whatever it is."""
    by = key("one")
    registry = jws.JWSRegistry(strict_check_header=False)
    return jws.serialize_compact({"alg": "ES256", "kid": by.kid, **header}, payload, by, registry=registry)


@dataclass
class Clock:
    """A time that stands still until it is moved."""

    now: float = 1_000.0

    def __call__(self) -> float:
        """Return it."""
        return self.now


@dataclass
class Issuing:
    """A site that takes the tokens of an issuer, whose keys ``server`` shows."""

    site: Site
    server: Server
    clock: Clock = field(default_factory=Clock)

    def shows(self, *keys: Key | dict[str, Any]) -> None:
        """Show these keys from now on."""
        self.server.pages["/jwks"] = answer(200, key_set(*keys))

    @property
    def fetches(self) -> int:
        """How often the keys were asked for."""
        return len(self.server.asked)

    async def status(self, bearer: str, path: str = "/v1/agents") -> int:
        """Return what a token is answered with."""
        async with self.site.client(None, headers={"Authorization": f"Bearer {bearer}"}) as client:
            return (await client.get(path)).status_code

    async def statuses(self, tokens: Iterable[str]) -> set[int]:
        """Return what some tokens are answered with."""
        return {await self.status(bearer) for bearer in tokens}


@asynccontextmanager
async def issuing(
    *keys: Key | dict[str, Any],
    more: dict[str, Any] | None = None,
    capabilities: Iterable[AnyCapability] = (),
    **options: Any,
) -> AsyncGenerator[Issuing]:
    """Serve a site that takes the tokens of an issuer with these keys, or the usual one."""
    clock = Clock()
    async with server() as jwks_server:

        def tokens(kernel: Kernel) -> Tokens:
            settings: dict[str, Any] = {"audience": AUDIENCE, "jwks": jwks_server.url("/jwks"), **(more or {})}
            named = Issuer(ISSUER, **settings)
            return Tokens(kernel, named, jwks=Jwks(named.jwks, monotonic=clock))

        async with site(*capabilities, tokens=tokens, **options) as open_site:
            issuer = Issuing(open_site, jwks_server, clock)
            issuer.shows(*(keys or (key("one"),)))
            yield issuer

"""Authentication by JSON Web Tokens of an issuer that the host trusts (spec 5, P14; RFC 7519, RFC 8725)."""

from __future__ import annotations

import hashlib
import logging
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NoReturn, cast

from joserfc.errors import BadSignatureError, JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key, KeySet
from joserfc.jws import JWSRegistry, deserialize_compact
from joserfc.jwt import JWTClaimsRegistry
from pydantic_core import from_json

from capset.definitions.names import ATTRIBUTE, PERMISSION, checked_name
from capset.definitions.principals import MAX_ATTRIBUTES, Attributes, Principal
from capset.errors import DefinitionError, Unauthenticated
from capset.kernel.kernel import Kernel
from capset.kernel.ttl_cache import TtlCache
from capset_server.auth.callers import ISSUED, REFUSED, Caller
from capset_server.auth.jwks import Jwks
from capset_server.auth.keys import is_scope
from capset_server.auth.resources import WHOLE, ProtectedResource

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
"""The accepted signature algorithms: no shared secrets, and no unsigned tokens."""
MAX_TOKEN: Final = 8_192
"""The maximum length of a token in characters."""
MAX_TRIED: Final = 4
"""The maximum number of keys that are tried for a token: several may match one without a ``kid``."""
LEEWAY_SECONDS: Final = 30
"""The tolerated difference from the issuer's clock."""
_MAX_NAME: Final = 200
_TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
"""The accepted values of a token's ``typ``, if it has one. Other tokens of the same issuer, such as those for a logout
or a change, identify no caller."""
_BOUND: Final = {"cnf": "is bound to a key that its sender must prove to have"}
"""Claims that restrict a token in ways not enforced here: such a token is refused, not partly honoured."""
_MAX_ACTORS: Final = 4
"""The maximum number of parties that act for one another in a token."""
_log = logging.getLogger("capset.tokens")


@dataclass(frozen=True, slots=True)
class Issuer:
    """A trusted issuer of tokens, and the meaning of its claims.

    Args:
        issuer: the claim ``iss``, matched exactly.
        audience: the claim ``aud``, or one of its values: the token is meant for this server. ``None`` if it is the URL
            of the requested resource below ``public_url`` (RFC 8707), or of one that contains it.
        jwks: the source of the issuer's public keys: an https URL, or a file.
        algorithms: the accepted signature algorithms.
        org_claim: the claim with the caller's organisation.
        org: the organisation for tokens without that claim. If it is ``None``, such a token is refused.
        attributes: the claims that become attributes of the principal, by the attributes' names: ``{"tier":
            "plan.tier"}`` takes the member ``tier`` of the claim ``plan``, unless there is a claim ``plan.tier``. A
            claim that is absent or null leaves its attribute out.
        public_url: the URL at which clients reach the server, if they should discover the issuer (RFC 9728).

    Raises ``DefinitionError`` for an empty text, for an algorithm not in ``ALGORITHMS``, for attributes that a
    principal cannot have, if there is neither an audience nor a public URL, and as ``ProtectedResource`` does.
    """

    issuer: str
    audience: str | None
    jwks: str
    algorithms: tuple[str, ...] = ALGORITHMS
    org_claim: str = "org"
    org: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    public_url: str | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        for name in ("issuer", "audience", "jwks", "org_claim"):
            value = getattr(self, name)
            if value is not None and not value.strip():
                raise DefinitionError(f"a token's {name} must not be empty")
        if self.resource is None and self.audience is None:
            raise DefinitionError("a token must be for this server: name its audience, or the server's public URL")
        if self.org is not None and not _is_name(self.org):
            raise DefinitionError(f"an organisation's name must be printable text, and not empty; got {self.org!r}")
        wrong = next((algorithm for algorithm in self.algorithms if algorithm not in ALGORITHMS), None)
        if not self.algorithms or wrong is not None:
            raise DefinitionError(f"tokens are signed by one of {', '.join(ALGORITHMS)}; got {wrong or 'none'}")
        if len(self.attributes) > MAX_ATTRIBUTES:
            raise DefinitionError(f"attributes are at most {MAX_ATTRIBUTES}; got claims for {len(self.attributes)}")
        for name, claim in self.attributes.items():
            checked_name("the name of an attribute", name, ATTRIBUTE)
            if not _is_name(claim):
                raise DefinitionError(f"the attribute {name!r} needs the name of a claim; got {claim!r:.80}")
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    @property
    def resource(self) -> ProtectedResource | None:
        """The server as a resource that this issuer issues tokens for; ``None`` without a public URL."""
        if self.public_url is None:
            return None
        return ProtectedResource(self.public_url, self.issuer, self.audience)


class Tokens:
    """Authenticator of one issuer's tokens. ``jwks`` overrides the key source of ``issuer``.

    Raises ``DefinitionError`` as ``Jwks`` does.
    """

    def __init__(self, kernel: Kernel, issuer: Issuer, *, jwks: Jwks | None = None) -> None:
        self._kernel = kernel
        self._issuer = issuer
        self._jwks = jwks or Jwks(issuer.jwks)
        self._resource = issuer.resource
        self._registry = _Registry(algorithms=issuer.algorithms, strict_check_header=False)
        self._claims = JWTClaimsRegistry(
            self._now,
            LEEWAY_SECONDS,
            iss={"essential": True, "value": issuer.issuer},
            aud={"essential": True} if issuer.audience is None else {"essential": True, "value": issuer.audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        self._known: TtlCache[bytes, tuple[Caller, float]] = TtlCache()

    @property
    def resource(self) -> ProtectedResource | None:
        """The server as an OAuth resource; ``None`` if the issuer has no public URL of it."""
        return self._resource

    async def identify(self, token: str) -> Caller:
        """Return the sender of a token. Raises ``Unauthenticated``, with the same message for every defect."""
        if len(token) > MAX_TOKEN or not token.isascii():
            _refuse("it is too long, or not a token")
        digest = hashlib.sha256(token.encode()).digest()
        caller, expires = await self._known.get(digest, lambda: self._verify(token))
        if self._now() >= expires + LEEWAY_SECONDS:
            _refuse("it has expired")
        return caller

    async def _verify(self, token: str) -> tuple[Caller, float]:
        claims = await self.claims(token)
        return self._caller(claims), claims["exp"]

    async def claims(self, token: str) -> Mapping[str, Any]:  # JSON data
        """Return the claims of a token that this issuer has signed for this audience. Raises ``Unauthenticated``."""
        header = _header(token)
        # No extension beyond RFC 7519 is supported; RFC 7797 forbids its own for JWTs.
        if "crit" in header or str(header.get("typ", "jwt")).lower() not in _TYPES:
            _refuse("it is a token of another kind")
        kid = header.get("kid")
        if header.get("alg") not in self._issuer.algorithms or not isinstance(kid, str | None):
            _refuse("its algorithm or its kid is not accepted")
        keys = await self._jwks.keys(kid)
        try:
            claims: object = from_json(self._payload(token, header["alg"], keys, kid))
            if not isinstance(claims, dict):
                _refuse("its claims are not an object")
            members = cast("dict[str, Any]", claims)
            self._claims.validate(members)
        except (JoseError, ValueError) as error:
            _refuse(str(error))
        return members

    def _payload(self, token: str, algorithm: str, keys: KeySet, kid: str | None) -> bytes:
        """Return the payload of a token, verified with one of the keys that match it.

        A ``kid`` is optional (RFC 7515 §4.1.4), and keys of different types may share one (RFC 7517 §4.5). Raises
        ``JoseError`` if no key verifies it.
        """
        by = self._registry.get_alg(algorithm)
        fitting = [key for key in keys if _fits(key, by) and kid in (None, key.kid)]
        if len(fitting) > MAX_TRIED:
            _refuse(f"{len(fitting)} keys match it: at most {MAX_TRIED} are tried")
        for key in fitting:
            with suppress(BadSignatureError):
                return deserialize_compact(token, key, registry=self._registry).payload
        raise BadSignatureError

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        for name, why in _BOUND.items():
            if claims.get(name) is not None:
                _refuse(f"its claim {name!r} says that it {why}")
        org = claims.get(self._issuer.org_claim)
        org = self._issuer.org if org is None else org
        subject, agent = claims["sub"], claims.get("agent")
        if not _is_name(org) or not _is_name(subject) or (agent is not None and not _is_name(agent)):
            _refuse("its organisation, its subject or its agent is missing or not a valid name")
        granted = frozenset(filter(PERMISSION.fullmatch, _texts(claims, "permissions")))
        roles = self._kernel.governance.roles
        granted |= roles.expand(*(role for role in _texts(claims, "roles") if role in roles.permissions))
        scopes = frozenset(filter(is_scope, (*_texts(claims, "scope"), *_texts(claims, "scp"))))
        attributes = self._attributes(claims)
        user = Principal(cast("str", subject), permissions=granted, org=cast("str", org), attributes=attributes)
        principal = _acting_for(user, _actors(claims))
        return Caller(
            principal, scopes, f"{ISSUED}{self._issuer.issuer}", cast("str | None", agent), self._parts(claims)
        )

    def _parts(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the parts of this server that a token is for; a declared audience means all of them."""
        if self._resource is None or self._issuer.audience is not None:
            return WHOLE
        parts = self._resource.parts(_audiences(claims["aud"]))
        if not parts:
            _refuse("it is for another resource")
        return parts

    def _attributes(self, claims: Mapping[str, Any]) -> Attributes:
        values = {name: _claim(claims, claim) for name, claim in self._issuer.attributes.items()}
        try:
            return Attributes({name: value for name, value in values.items() if value is not None})
        except DefinitionError as error:
            _refuse(f"its claims do not fit: {error.message}")

    def _now(self) -> int:
        return self._kernel.clock.time_ns() // 1_000_000_000


class _Registry(JWSRegistry):
    """A registry that accepts exactly the given algorithms, without warnings about older names."""

    max_header_length = 4_096  # it may hold certificates

    def get_alg(self, name: str) -> Any:  # joserfc's class of an algorithm, which it does not export
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"the algorithm {name!r} is not accepted")
        return self.algorithms[name]


def _fits(key: Key, algorithm: Any) -> bool:  # joserfc's class of an algorithm, which it does not export
    """Whether a key may verify an algorithm's signatures, by the key's type, curve and declared use."""
    try:
        algorithm.check_key(key)
        key.check_use("sig")
        key.check_alg(algorithm.name)
        key.check_key_op("verify")
    except JoseError:
        return False
    return True


def _header(token: str) -> dict[str, Any]:
    first = token.partition(".")[0]
    try:
        header: object = from_json(urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except ValueError:
        header = None
    if not isinstance(header, dict):
        _refuse("it has no header")
    return cast("dict[str, Any]", header)


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    """Return the strings of a claim. Some issuers write a list, others one string separated by spaces."""
    value = claims.get(name)
    texts = value.split() if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in cast("list[object]", texts)):
        _refuse(f"its claim {name!r} is not a list of texts")
    return cast("list[str]", texts)


def _audiences(claim: object) -> list[str]:
    """Return the audiences of a token: one text, or a list of texts (RFC 7519, 4.1.3)."""
    audiences = cast("list[object]", claim) if isinstance(claim, list) else [claim]
    if not all(isinstance(audience, str) for audience in audiences):
        _refuse("its audience is neither a text nor a list of texts")
    return cast("list[str]", audiences)


def _claim(claims: Mapping[str, Any], named: str) -> Any:  # any JSON
    """Return a claim by its whole name, or a nested member by its dotted path; ``None`` if there is none."""
    if named in claims:
        return claims[named]
    current: object = claims
    for step in named.split("."):
        if not isinstance(current, Mapping):
            _refuse(f"its claim {named!r} is inside a value that is not an object")
        current = cast("Mapping[str, object]", current).get(step)
        if current is None:
            return None
    return current


def _actors(claims: Mapping[str, Any]) -> list[str]:
    """Return the parties that act for the subject of a token, the newest first (RFC 8693, section 4.1)."""
    actors: list[str] = []
    act: object = claims.get("act")
    while act is not None:
        members: Mapping[str, object] = cast("Mapping[str, object]", act) if isinstance(act, Mapping) else {}
        name = members.get("sub")
        if not _is_name(name) or len(actors) == _MAX_ACTORS:
            _refuse(f"its claim 'act' has no valid name, or more than {_MAX_ACTORS} of them")
        actors.append(cast("str", name))
        act = members.get("act")
    return actors


def _acting_for(user: Principal, actors: Sequence[str]) -> Principal:
    """Return the user, or the newest of the actors, acting for those before it and for the user."""
    principal = user
    try:
        for name in reversed(actors):
            actor = Principal(name, kind="agent", permissions=user.permissions, org=user.org)
            principal = actor.acting_for(principal)
    except DefinitionError as error:
        _refuse(error.message)
    return principal


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and bool(value.strip()) and value.isprintable()


def _refuse(why: str) -> NoReturn:
    """Refuse a token. Logs the reason, and does not tell the client."""
    _log.info("a token was refused: %s", why)
    raise Unauthenticated(REFUSED)

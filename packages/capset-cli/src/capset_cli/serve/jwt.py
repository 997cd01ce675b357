"""Tokens on the command line: ``--jwt-…`` of ``capset serve`` (spec 5, P14)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capset.errors import DefinitionError
from capset_cli.common.exits import require_extra

if TYPE_CHECKING:
    from capset_server.auth.open_id import OpenIdClient
    from capset_server.auth.tokens import Issuer

_SECRET: Final = "CAPSET_OIDC_SECRET"  # noqa: S105 - the name of a variable
JwtIssuer = Annotated[
    str | None,
    typer.Option(
        "--jwt-issuer", metavar="URL", envvar="CAPSET_JWT_ISSUER", help="Accept JSON Web Tokens of this issuer (iss)."
    ),
]
JwtAudience = Annotated[
    str | None,
    typer.Option(
        "--jwt-audience",
        metavar="NAME",
        envvar="CAPSET_JWT_AUDIENCE",
        help="The audience of the tokens (aud); by default the resource below --public-url.",
    ),
]
JwtJwks = Annotated[
    str | None,
    typer.Option(
        "--jwt-jwks", metavar="URL|FILE", envvar="CAPSET_JWT_JWKS", help="The location of the issuer's public keys."
    ),
]
PublicUrl = Annotated[
    str | None,
    typer.Option(
        "--public-url",
        metavar="URL",
        envvar="CAPSET_PUBLIC_URL",
        help="This server's URL for clients and people, by which they find the issuer and the page to approve a call.",
    ),
]
JwtOrgClaim = Annotated[
    str | None,
    typer.Option(
        "--jwt-org-claim",
        metavar="NAME",
        envvar="CAPSET_JWT_ORG_CLAIM",
        help="The claim that has the organisation; by default org.",
    ),
]
JwtOrg = Annotated[
    str | None,
    typer.Option(
        "--jwt-org", metavar="NAME", envvar="CAPSET_JWT_ORG", help="The organisation of tokens that name none."
    ),
]
JwtAlgorithm = Annotated[
    list[str] | None,
    typer.Option(
        "--jwt-algorithm",
        metavar="NAME",
        envvar="CAPSET_JWT_ALGORITHMS",
        help="A signature algorithm of the tokens; may be repeated.",
    ),
]
JwtAttribute = Annotated[
    list[str] | None,
    typer.Option(
        "--jwt-attribute",
        metavar="NAME=CLAIM",
        envvar="CAPSET_JWT_ATTRIBUTES",
        help="An attribute of the principal, and the claim that has it, such as tier=plan.tier; may be repeated.",
    ),
]

OidcClient = Annotated[
    str | None,
    typer.Option(
        "--oidc-client",
        metavar="ID",
        envvar="CAPSET_OIDC_CLIENT",
        help="The client id with which people sign in to the console at the issuer; the client's secret, if any, is in "
        "CAPSET_OIDC_SECRET.",
    ),
]
OidcScope = Annotated[
    list[str] | None,
    typer.Option(
        "--oidc-scope",
        metavar="SCOPE",
        envvar="CAPSET_OIDC_SCOPES",
        help="A scope to request besides openid; by default capset:read, capset:call, capset:write, capset:approve and "
        "capset:audit; may be repeated.",
    ),
]


def make_open_id_client(issuer: Issuer | None, client_id: str | None, scopes: list[str] | None) -> OpenIdClient | None:
    """Return the OpenID client for signing in to the console, ``None`` without one.

    Raises ``DefinitionError`` if it has no issuer or no public URL.
    """
    if client_id is None:
        if scopes:
            raise DefinitionError("--oidc-scope is for signing in at a provider: name the client with --oidc-client")
        return None
    if issuer is None:
        raise DefinitionError(
            "--oidc-client signs people in at the issuer of tokens: name the issuer with --jwt-issuer",
            hint="and --jwt-jwks and --public-url with it",
        )
    from capset_server.auth.open_id import SCOPES, OpenIdClient

    return OpenIdClient(issuer, client_id, os.environ.get(_SECRET) or None, tuple(scopes or SCOPES))


def make_issuer(
    issuer: str | None,
    audience: str | None,
    jwks: str | None,
    *,
    public_url: str | None,
    org_claim: str | None,
    org: str | None,
    algorithms: list[str] | None,
    attributes: list[str] | None,
) -> Issuer | None:
    """Return the trusted issuer, ``None`` without one. Raises ``DefinitionError`` for an incomplete set of options.

    A public URL alone names no issuer: it also leads to the pages where people approve calls.

    No settings file can set these: one planted in a folder must not let anyone in.
    """
    if not any((issuer, audience, jwks, org_claim, org, algorithms, attributes)):
        return None
    needed = {"--jwt-issuer": issuer, "--jwt-audience": audience or public_url, "--jwt-jwks": jwks}
    if missing := [name for name, value in needed.items() if not value]:
        raise DefinitionError(
            f"tokens need all of {', '.join(needed)}; missing: {', '.join(missing)}",
            hint="--public-url URL takes the place of --jwt-audience",
        )
    require_extra("server", "joserfc", "httpcore2")
    from capset_server.auth.tokens import ALGORITHMS, Issuer

    claimed = "org" if org_claim is None else org_claim
    return Issuer(
        issuer or "",
        audience or None,
        jwks or "",
        tuple(algorithms or ALGORITHMS),
        claimed,
        org,
        _parse_claims(attributes or ()),
        public_url or None,
    )


def _parse_claims(options: Sequence[str]) -> dict[str, str]:
    claims: dict[str, str] = {}
    for option in options:
        name, separator, claim = option.partition("=")
        if not separator:
            raise DefinitionError(f"--jwt-attribute must be NAME=CLAIM, such as tier=plan.tier; got {option!r}")
        if name in claims:
            raise DefinitionError(f"--jwt-attribute {name} is given twice: an attribute has one claim")
        claims[name] = claim
    return claims

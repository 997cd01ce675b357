"""Tokens on the command line: ``--jwt-…`` of ``capset serve`` (spec 5, P14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from capset.cli.extras import needs_extra
from capset.errors import DefinitionError

if TYPE_CHECKING:
    from capset.server.tokens import Issuer

JwtIssuer = Annotated[
    str | None,
    typer.Option(
        "--jwt-issuer", metavar="URL", envvar="CAPSET_JWT_ISSUER", help="Take JSON Web Tokens of this issuer (iss)."
    ),
]
JwtAudience = Annotated[
    str | None,
    typer.Option(
        "--jwt-audience", metavar="NAME", envvar="CAPSET_JWT_AUDIENCE", help="What they say they are for (aud)."
    ),
]
JwtJwks = Annotated[
    str | None,
    typer.Option(
        "--jwt-jwks", metavar="URL|FILE", envvar="CAPSET_JWT_JWKS", help="Where the issuer's public keys are."
    ),
]
JwtOrgClaim = Annotated[
    str | None,
    typer.Option(
        "--jwt-org-claim",
        metavar="NAME",
        envvar="CAPSET_JWT_ORG_CLAIM",
        help="The claim of the organisation, else org.",
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
        help="How they are signed; may be repeated.",
    ),
]


def issuer_of(
    issuer: str | None,
    audience: str | None,
    jwks: str | None,
    *,
    org_claim: str | None,
    org: str | None,
    algorithms: list[str] | None,
) -> Issuer | None:
    """Return whose tokens are taken, ``None`` for nobody's. Raises ``DefinitionError`` for half of what it takes.

    No settings file says any of it: whoever lays one into a folder lets nobody in.
    """
    needed = {"--jwt-issuer": issuer, "--jwt-audience": audience, "--jwt-jwks": jwks}
    if not any((*needed.values(), org_claim, org, algorithms)):
        return None
    if missing := [name for name, value in needed.items() if not value]:
        raise DefinitionError(f"tokens need all of {', '.join(needed)}; missing: {', '.join(missing)}")
    needs_extra("server", "joserfc", "httpcore2")
    from capset.server.tokens import ALGORITHMS, Issuer

    named = (issuer or "", audience or "", jwks or "")
    return Issuer(*named, tuple(algorithms or ALGORITHMS), "org" if org_claim is None else org_claim, org)

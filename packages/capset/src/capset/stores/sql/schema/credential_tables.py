"""The tables of users' credentials, in addition to those of ``schema.tables``."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, Integer, Table, Text, UniqueConstraint

from capset.stores.sql.schema.tables import metadata

credentials: Final = Table(
    "credentials",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "principal", "server", "kind", "sealed", "data_key")),
    *(Column(name, Text, nullable=False) for name in ("binding", "created_at", "renewed_at", "scopes")),
    Column("version", Integer, nullable=False),
    *(Column(name, Text) for name in ("expires_at", "used_at", "lease_until", "problem")),
    UniqueConstraint("org", "principal", "server", name="uq_credentials_principal"),
    Index("ix_credentials_org", "org", "id"),
    Index("ix_credentials_server", "org", "server", "id"),
)
"""The credentials: ``stores.base.CredentialRow``; ``scopes`` is a JSON list of strings."""

delegations: Final = Table(
    "delegations",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "principal", "server", "delegate", "tools", "created_at")),
    *(Column(name, Text) for name in ("arguments", "expires_at")),
    Index("ix_delegations_principal", "org", "principal", "id"),
    Index("ix_delegations_server", "org", "principal", "server", "delegate", "id"),
)
"""What other principals may use credentials for: ``stores.base.DelegationRow``; ``tools`` is a JSON list of strings."""

data_keys: Final = Table(
    "data_keys",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "wrapped", "wrapped_by", "created_at")),
    UniqueConstraint("org", name="uq_data_keys_org"),
)
"""The data keys: ``stores.base.DataKeyRow``."""

authorizations: Final = Table(
    "authorizations",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "principal", "server", "sealed", "data_key")),
    *(Column(name, Text, nullable=False) for name in ("redirect_uri", "created_at", "expires_at")),
    Index("ix_authorizations_expires_at", "expires_at"),
)
"""The authorizations that have begun: ``stores.base.AuthorizationRow``."""

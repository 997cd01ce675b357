"""The schema of a database: tables, revisions, creation, upgrades, checks and backup."""

from __future__ import annotations

# Importing any module of the schema registers all tables, since upgrades and checks process all of them.
from capset.stores.sql.schema import credential_tables as credential_tables
from capset.stores.sql.schema import lineage_tables as lineage_tables
from capset.stores.sql.schema import run_tables as run_tables

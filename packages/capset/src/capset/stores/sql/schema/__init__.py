"""The schema of a database: tables, revisions, creation, upgrades, checks and backup."""

from __future__ import annotations

# All tables are known as soon as one module of the schema is: what upgrades and checks goes over all of them.
from capset.stores.sql.schema import lineage_tables as lineage_tables
from capset.stores.sql.schema import run_tables as run_tables

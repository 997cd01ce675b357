"""The schema of a database: tables, revisions, creation, upgrades, checks and backup."""

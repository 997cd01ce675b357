"""Principals who administer keys."""

from __future__ import annotations

from tests.helpers.server.support import ALL_SCOPES

ADMIN = (*ALL_SCOPES, "capset:admin")
BOT = {"name": "bot", "principal": "bot", "kind": "agent", "scopes": ["capset:call:kit.echo"]}

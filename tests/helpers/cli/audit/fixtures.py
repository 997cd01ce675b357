from __future__ import annotations

from tests.helpers.cli.fixtures import run

__all__ = ["run"]

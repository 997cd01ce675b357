"""Column types that engines spell differently, for the migrations: they never change."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Text

TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared by its code points on every engine, as in SQLite, regardless of a database's collation."""

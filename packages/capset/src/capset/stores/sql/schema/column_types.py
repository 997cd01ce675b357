"""Column types for migrations that differ between engines. They never change."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Text

TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared by code points on every engine, as in SQLite, regardless of a database's collation."""

"""The types of columns that engines spell in different ways, for the migrations: what is here never changes."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Text

TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared by its code points on every engine, as SQLite does, whatever a database's own collation is."""

"""Adapters for Python's text in the driver; imports psycopg when a connection is adapted."""

from __future__ import annotations

from functools import cache
from typing import Any

from capset.stores.sql.postgres.texts import escaped, given


def adapt(raw: Any) -> None:
    """Make a psycopg connection store any text, NUL included, and return it unchanged."""
    dumper, loader = _adapters()
    raw.adapters.register_dumper(str, dumper)
    raw.adapters.register_loader("text", loader)


@cache
def _adapters() -> tuple[type, type]:
    from psycopg.adapt import Dumper, Loader

    class TextDumper(Dumper):
        """Sends text without a type, as psycopg does by itself: the server knows the type."""

        def dump(self, obj: str) -> bytes:
            return escaped(obj).encode()

    class TextLoader(Loader):
        def load(self, data: bytes | bytearray | memoryview) -> str | bytes:
            return given(str(data, "utf-8"))

    return TextDumper, TextLoader

"""Python's text as the driver sends it and takes it; imports psycopg when a connection is adapted."""

from __future__ import annotations

from functools import cache
from typing import Any

from capset.stores.sql.postgres.texts import escaped, given


def adapt(raw: Any) -> None:
    """Have a connection of psycopg's keep every text, NUL included, and give back the same."""
    dumper, loader = _adapters()
    raw.adapters.register_dumper(str, dumper)
    raw.adapters.register_loader("text", loader)


@cache
def _adapters() -> tuple[type, type]:
    from psycopg.adapt import Dumper, Loader

    class TextDumper(Dumper):
        """Sends text without a type, as psycopg does by itself: the server knows what it must be."""

        def dump(self, obj: str) -> bytes:
            return escaped(obj).encode()

    class TextLoader(Loader):
        def load(self, data: bytes | bytearray | memoryview) -> str | bytes:
            return given(str(data, "utf-8"))

    return TextDumper, TextLoader

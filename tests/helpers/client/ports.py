"""A port on which nothing listens."""

from __future__ import annotations

from tests.ports import unused_port


def closed_port() -> str:
    return f"http://127.0.0.1:{unused_port()}"

"""The old path of ``capset.server.http.middleware``."""

from capset.server.http.middleware import Gate, Names

__all__ = ["Gate", "Names"]

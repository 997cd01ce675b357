"""The old path of ``capset.server.auth.keys``."""

from capset.server.auth.keys import create_key

__all__ = ["create_key"]

"""The old path of ``capset.server.auth.tokens``."""

from capset.server.auth.tokens import Issuer, Tokens

__all__ = ["Issuer", "Tokens"]

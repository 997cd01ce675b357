"""The old path of ``capset.server.auth.callers``."""

from capset.server.auth.callers import Caller, Callers

__all__ = ["Caller", "Callers"]

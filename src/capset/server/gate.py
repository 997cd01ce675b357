"""The old path of ``capset.server.http.middleware``, where ``Names`` is ``AllowedHosts``."""

from capset.server.http.middleware import AllowedHosts as Names

__all__ = ["Names"]

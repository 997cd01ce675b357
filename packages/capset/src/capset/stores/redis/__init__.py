"""Redis beside a store: its processes tell each other of changes. Nothing is stored in Redis; loaded by entry point."""

from __future__ import annotations

from capset.stores.redis.store import share_by_redis

__all__ = ["share_by_redis"]

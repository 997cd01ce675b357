"""Change notifications between the processes of a store, through Redis. Loaded by entry point.

All data stays in the store.
"""

from __future__ import annotations

from capset.stores.redis.store import share_by_redis

__all__ = ["share_by_redis"]

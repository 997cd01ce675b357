"""What third parties run on their own code: a clock that they move, and suites for what implements a port."""

from __future__ import annotations

from capset.testing.clock import FakeClock
from capset.testing.store_suite import store_suite

__all__ = ["FakeClock", "store_suite"]

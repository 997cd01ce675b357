"""Flows run on what the kernel's tests run on: the same stores, and the same look at what is left behind."""

from __future__ import annotations

from tests.helpers.kernel.fixtures import anyio_backend, nothing_is_left_behind, store

__all__ = ["anyio_backend", "nothing_is_left_behind", "store"]

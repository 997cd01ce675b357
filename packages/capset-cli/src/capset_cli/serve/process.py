"""The settings of a process that serves: memory, threads and garbage."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress


def tune_process() -> None:
    """Return large buffers to the system as soon as they are freed, and let threads switch sooner.

    By default, the C library of most Linux systems raises the size from which it returns buffers up to 32 MiB, and
    keeps freed memory for each thread (``mallopt(3)``). A statement that runs on a thread releases the interpreter to
    the event loop, and then waits to get it back: with Python's default of 5 ms, the two delay each other under load.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1024 * 1024)  # M_MMAP_THRESHOLD, in bytes
        libc.mallopt(-8, 2)  # M_ARENA_MAX
    sys.setswitchinterval(0.0005)  # seconds (ADR 85)


def tune_garbage_collection() -> None:
    """Collect garbage less often, and exclude long-lived objects. Most calls leave no garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)

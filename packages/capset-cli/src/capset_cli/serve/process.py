"""The settings of a process that serves: memory, threads and garbage."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from typing import Final

_MMAP_THRESHOLD: Final = (-3, 1024 * 1024)
_ARENAS: Final = (-8, 2)
_SWITCH_SECONDS: Final = 0.0005
"""How long a thread keeps the interpreter while another waits for it (ADR 85)."""


def prepare() -> None:
    """Have large buffers returned to the system as soon as they are freed, and threads take turns soon.

    The C library of most Linux systems raises the size from which it does so up to 32 MiB by itself, and keeps freed
    memory for each thread (``mallopt(3)``). A statement on a thread gives the interpreter to the event loop and then
    waits for it again: with the 5 ms of Python's default, the two hold each other up where there is much to do.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        for option, value in (_MMAP_THRESHOLD, _ARENAS):
            ctypes.CDLL(None).mallopt(option, value)
    sys.setswitchinterval(_SWITCH_SECONDS)


def settle() -> None:
    """Collect garbage less often, and exclude long-lived objects: most calls leave no garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)

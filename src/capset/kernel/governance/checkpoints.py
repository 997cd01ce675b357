"""Automatic checkpoints of a kernel's records, and the retention of those records (spec 4, G21, G23)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from capset.clock import iso
from capset.definitions.limits import window_seconds
from capset.errors import CapsetError, DefinitionError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.kernel.runtime import KernelRuntime

_logger = logging.getLogger("capset.kernel")
EVERY: Final = "5m"
"""The default interval between checkpoints."""


@dataclass(frozen=True, slots=True, init=False)
class Checkpoints:
    """The key and the interval of a kernel's signed checkpoints, and the retention of its records.

    Args:
        key: the signing key: ``CheckpointKey.read(FILE)``, or ``CheckpointKey.load(TEXT)`` of a secret.
        every: a window such as ``5m``: the interval of checkpoints while records come; the kernel makes another
            when it closes.
        keep: a window such as ``90d``: older records are deleted, up to the newest checkpoint that covers no younger
            one; ``None`` keeps all.

    Raises ``DefinitionError`` for a value of another kind.
    """

    key: CheckpointKey
    every: int
    keep: int | None

    def __init__(self, key: CheckpointKey, *, every: str = EVERY, keep: str | None = None) -> None:
        if not isinstance(key, CheckpointKey):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise DefinitionError("checkpoints are signed by a CheckpointKey", hint="CheckpointKey.read(FILE)")
        store = object.__setattr__
        store(self, "key", key)
        store(self, "every", window_seconds(every))
        store(self, "keep", None if keep is None else window_seconds(keep))


async def keep_checkpoints(runtime: KernelRuntime, checkpoints: Checkpoints) -> None:
    """Make checkpoints and delete old records until cancelled; failures are logged and retried."""
    told = ""
    while True:
        await asyncio.sleep(checkpoints.every)
        try:
            await make_checkpoint(runtime, checkpoints)
            if checkpoints.keep is not None:
                now = runtime.clock.time_ns()
                oldest = iso(now - checkpoints.keep * 1_000_000_000)
                await runtime.audit.prune(oldest, checkpoints.key, now=iso(now))
        except CapsetError as error:
            if error.code != told:  # log a failure once, not every time
                _logger.error("the audit log: %s", error.message)
            told = error.code
        else:
            told = ""


async def make_checkpoint(runtime: KernelRuntime, checkpoints: Checkpoints) -> None:
    """Sign the current end of the records. Raises ``StoreError`` as ``AuditLog.checkpoint`` does."""
    await runtime.audit.checkpoint(checkpoints.key, now=iso(runtime.clock.time_ns()))

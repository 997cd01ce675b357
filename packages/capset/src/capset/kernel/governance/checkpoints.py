"""Automatic checkpoints of a kernel's records, their key, and the retention of the records (spec 4, G21, G23, G41)."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from capset.clock import iso
from capset.definitions.governance.limits import window_seconds
from capset.errors import CapsetError, DefinitionError
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, PublicKey, succession
from capset.ids import Ids
from capset.kernel.governance.acts import ActEntry, Actor, act_entry
from capset.kernel.runtime import KernelRuntime
from capset.stores.base import Pruned

_logger = logging.getLogger("capset.kernel")
_KERNEL: Final = Actor("capset", "agent", None, "kernel")
"""The actor for what a kernel does by itself."""
_OTHER_KEY: Final = "the log has another checkpoint key: capset audit succeed --to FILE lets this one take over"


@dataclass(frozen=True, slots=True, init=False)
class Checkpoints:
    """The key and the interval of a kernel's signed checkpoints, and the retention of its records.

    Args:
        key: the signing key: ``CheckpointKey.read(FILE)``, or ``CheckpointKey.load(TEXT)`` of a secret.
        every: a window such as ``5m``: the interval of checkpoints while records come; the kernel makes another
            when it closes.
        keep: a window such as ``90d``: older records are deleted, up to the newest checkpoint that covers no younger
            one; ``None`` keeps all.
        records: the number of new records after which a checkpoint is made early.

    Raises ``DefinitionError`` for an invalid value.
    """

    key: CheckpointKey
    every: int
    keep: int | None
    records: int

    def __init__(self, key: CheckpointKey, *, every: str = "5m", keep: str | None = None, records: int = 1_000) -> None:
        if not isinstance(key, CheckpointKey):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise DefinitionError("checkpoints are signed by a CheckpointKey", hint="CheckpointKey.read(FILE)")
        if type(records) is not int or records < 1:
            raise DefinitionError(f"records must be a number of records, 1 or more; got {records!r}")
        store = object.__setattr__
        store(self, "key", key)
        store(self, "every", window_seconds(every))
        store(self, "keep", None if keep is None else window_seconds(keep))
        store(self, "records", records)


@dataclass(slots=True)
class Signing:
    """The state of a kernel's signing: the id of the key that it signs with, or the reason why it does not sign.

    ``is_bound`` is whether it signs only as long as the log's own key is this one.
    """

    key: str | None = None
    reason: str | None = "it has no checkpoint key"
    is_bound: bool = False

    def end(self, reason: str) -> None:
        """Mark the kernel as no longer signing."""
        self.key, self.reason = None, reason


async def begin_signing(runtime: KernelRuntime, key: PublicKey, by: Actor) -> Signing:
    """Adopt a key if the log has none, and return whether the log is signed with it. Raises ``StoreError``."""
    log = runtime.audit
    if await log.signer() is None:
        await log.adopt(key, replacing=None, act=adoption_act(runtime.ids, key, by))
    return Signing(key.id, None, is_bound=True) if await _is_log_key(runtime, key) else Signing(None, _OTHER_KEY)


async def _is_log_key(runtime: KernelRuntime, key: PublicKey) -> bool:
    signer = await runtime.audit.signer()
    return signer is not None and signer.id == key.id


async def keep_checkpoints(runtime: KernelRuntime, checkpoints: Checkpoints, signing: Signing) -> None:
    """Make checkpoints and delete old records until cancelled, or the key is succeeded; log and retry failures."""
    last_error, covered, last_time = "", 0, time.monotonic()
    while True:
        await asyncio.sleep(min(1.0, checkpoints.every))  # other processes add records, too
        try:
            span = await runtime.audit.span()
            is_due = time.monotonic() - last_time >= checkpoints.every
            if not is_due and (span is None or span[1] - covered < checkpoints.records):
                continue
            if not await _may_sign(runtime, checkpoints, signing):
                return
            checkpoint = await runtime.audit.checkpoint(checkpoints.key, now=iso(runtime.clock.time_ns()))
            covered = checkpoint.seq if checkpoint else 0
            if is_due:
                last_time = time.monotonic()
                await _prune(runtime, checkpoints)
        except CapsetError as error:
            if error.code != last_error:  # log a failure once, not every time
                _logger.error("the audit log: %s", error.message)
            last_error = error.code
        else:
            last_error = ""


async def _may_sign(runtime: KernelRuntime, checkpoints: Checkpoints, signing: Signing) -> bool:
    if signing.is_bound and not await _is_log_key(runtime, checkpoints.key.public):
        signing.end(_OTHER_KEY)
        _logger.warning("the audit log is no longer signed here: %s", signing.reason)
    return signing.key is not None


async def _prune(runtime: KernelRuntime, checkpoints: Checkpoints) -> None:
    if checkpoints.keep is None:
        return
    now = runtime.clock.time_ns()
    oldest = iso(now - checkpoints.keep * 1_000_000_000)
    act = partial(prune_act, runtime.ids, oldest, by=_KERNEL)
    await runtime.audit.prune(oldest, checkpoints.key, now=iso(now), act=act)


async def make_checkpoint(runtime: KernelRuntime, checkpoints: Checkpoints, signing: Signing) -> Checkpoint | None:
    """Sign the current end of the records, and return the newest checkpoint.

    Returns ``None`` if the kernel no longer signs, or there are no records. Raises ``StoreError`` as
    ``AuditLog.checkpoint`` does.
    """
    if not await _may_sign(runtime, checkpoints, signing):
        return None
    return await runtime.audit.checkpoint(checkpoints.key, now=iso(runtime.clock.time_ns()))


def prune_act(ids: Ids, before: str, done: Pruned, by: Actor) -> ActEntry:
    """Return the entry of the act ``log.prune``."""
    return act_entry(ids, "log.prune", {"before": before, "removed": done.removed, "since": done.since}, by=by)


def adoption_act(ids: Ids, key: PublicKey, by: Actor) -> ActEntry:
    """Return the entry of the act ``checkpoint_key.adopt``, for a log's first key."""
    return act_entry(ids, "checkpoint_key.adopt", {"id": key.id, "public": key.pem()}, by=by)


def succession_act(ids: Ids, key: PublicKey, before: str, old: CheckpointKey | None, by: Actor) -> ActEntry:
    """Return the entry of the act ``checkpoint_key.succeed``; ``before`` is the id of ``old``, which signs if given."""
    return act_entry(ids, "checkpoint_key.succeed", succession(key, before, old), by=by)

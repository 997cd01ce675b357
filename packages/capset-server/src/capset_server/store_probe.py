"""The readiness probe of the store, with a timeout; concurrent requests share one probe (spec 5, P13)."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Final

from capset.errors import StoreError
from capset.kernel.kernel import Kernel

PROBE_SECONDS: Final = 2.0
"""How long the store may take to answer."""


class StoreProbe:
    """A probe of a kernel's store.

    A read that hangs keeps its thread, so there is never more than one, however many requests ask.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._probing: asyncio.Task[StoreError | None] | None = None

    async def check(self) -> None:
        """Return once pending writes are done and the store has answered.

        Raises ``StoreError`` if it fails, or does neither within ``PROBE_SECONDS``.
        """
        probing = self._probing
        if probing is None or probing.done():
            # In an empty context, so that its time is charged to no caller.
            probing = self._probing = asyncio.create_task(self._probe(), name="capset-probe", context=Context())
        done, _ = await asyncio.wait([probing], timeout=PROBE_SECONDS)
        if not done:
            raise StoreError(f"the store did not answer within {PROBE_SECONDS:g} s")
        if (error := probing.result()) is not None:
            raise error.copy()

    async def close(self) -> None:
        """Cancel a running probe."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])

    async def _probe(self) -> StoreError | None:
        try:
            await self._kernel.audit.flush()
            await self._kernel.store.keys.find("")
        except StoreError as error:
            return error
        return None

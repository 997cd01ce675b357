"""A session whose files somebody else changes at the worst moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from capset import Agent, Kernel, Principal, Session
from capset.stores.base import FileStore
from capset_tools.session_file_system import session_file_system
from tests.helpers.kernel.support import TappedStore
from tests.helpers.tools.support import FILES


class Meddling:
    """A real file store; ``before`` says what happens before an operation of this name, each time."""

    def __init__(self, inner: FileStore) -> None:
        self._inner = inner
        self.asked: Counter[str] = Counter()
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}

    def __getattr__(self, name: str) -> Any:
        async def count_call(*args: Any, **kwargs: Any) -> Any:
            self.asked[name] += 1
            if (before := self.before.get(name)) is not None:
                await before()
            return await getattr(self._inner, name)(*args, **kwargs)

        return count_call


class MeddledStore(TappedStore):
    def __init__(self) -> None:
        super().__init__(lambda phase: None)
        self.meddling = Meddling(self.inner.files)

    @property
    def files(self) -> FileStore:
        return cast("FileStore", self.meddling)


@asynccontextmanager
async def meddled() -> AsyncGenerator[tuple[Session, Meddling]]:
    """Open a session with the file tools, and give what can be done to its files behind their back."""
    store, agent = MeddledStore(), Agent("tester", uses=[session_file_system])
    async with (
        Kernel(store=store) as kernel,
        kernel.open(agent, principal=Principal("user-1", permissions=FILES)) as session,
    ):
        yield session, store.meddling


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return data in pieces, some of them perhaps empty."""
    ends = sorted(cut % (len(data) + 1) for cut in cuts)
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]

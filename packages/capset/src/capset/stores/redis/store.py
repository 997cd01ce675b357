"""A store that announces its changes in a Redis stream, once they are stored, and the stream itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import wraps
from inspect import signature
from itertools import count, islice
from typing import Any, Final, cast, get_args
from urllib.parse import urlsplit
from uuid import uuid4

from capset.errors import DefinitionError
from capset.extras import install_command
from capset.stores.base import ChangeKind, ChangeNotice, NoticeCallback, Store

MAX_ENTRIES: Final = 1_000
"""Approximate maximum number of entries in the stream. Older entries are trimmed."""
RECONNECT_SECONDS: Final = 1.0
"""Pause after an error before Redis is tried again."""
BLOCK_SECONDS: Final = 1.0
"""How long one read blocks for an entry."""
RESPONSE_SECONDS: Final = 2.0
"""How long a response of Redis may take in addition."""
_SCHEMES: Final = ("redis", "rediss", "unix")
_HINT: Final = "write it as redis://USER:PASSWORD@HOST:PORT/NUMBER, or with rediss:// for TLS"
_KINDS: Final[frozenset[str]] = frozenset(get_args(ChangeKind))
_log = logging.getLogger("capset.stores")


class ChangeStream:
    """The changes of one database, sent and received through the Redis server at ``url``."""

    def __init__(self, url: str) -> None:
        self._client = _connect(url)
        parts = urlsplit(url)
        self._address = (
            f"{parts.hostname or 'localhost'}:{parts.port or 6379}" if parts.scheme != "unix" else parts.path
        )
        self._key = ""
        self._sender = ""
        self._numbers = count(1)
        self._waiting: dict[ChangeNotice | None, None] = {}
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def start(self, database: str) -> None:
        """Start to announce changes. ``database`` identifies the database in Redis."""
        self._key = f"capset:{{{database}}}:changes"
        self._sender = uuid4().hex
        self._numbers = count(1)
        self._sent.set()
        self._sending = asyncio.get_running_loop().create_task(self._send(), name="capset-announce")

    async def stop(self) -> None:
        """Send the waiting notices, if Redis accepts them in time, and disconnect."""
        sending, self._sending = self._sending, None
        if sending is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_SECONDS):
                await self._sent.wait()
        await _end(sending)
        self._waiting.clear()
        await self._client.aclose()

    def announce(self, notice: ChangeNotice) -> None:
        """Queue a notice of a change for other processes. Never waits and never fails."""
        if self._sending is None:
            return
        if is_full := len(self._waiting) >= 10_000:
            self._waiting.clear()
        # None says that some notices may have been missed. Ids are limited to 1,000 characters.
        self._waiting[None if is_full or len(notice.id) > 1_000 else notice] = None
        self._sent.clear()
        self._wake.set()

    @asynccontextmanager
    async def subscribe(self, on_notice: NoticeCallback) -> AsyncGenerator[Callable[[], bool]]:
        """Read the stream inside the context, and yield a function that returns whether Redis responds."""
        is_connected = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._listen(on_notice, is_connected), name="capset-listen")
        try:
            yield is_connected.is_set
        finally:
            await _end(task)

    async def _send(self) -> None:
        is_unreachable = False
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = [*islice(self._waiting, 100)]  # notices per entry
                try:
                    await self._append(batch)
                except _connection_errors() as error:
                    if not is_unreachable:
                        self._warn("other processes are notified of changes later", error)
                    is_unreachable = True
                    await asyncio.sleep(RECONNECT_SECONDS)
                else:
                    is_unreachable = False
                    for notice in batch:
                        self._waiting.pop(notice, None)
            self._sent.set()

    async def _append(self, notices: list[ChangeNotice | None]) -> None:
        entry = {"by": self._sender, "number": next(self._numbers), "notices": json.dumps(notices)}
        async with self._client.pipeline(transaction=False) as commands:
            commands.xadd(self._key, entry, maxlen=MAX_ENTRIES, approximate=True)
            commands.expire(self._key, 3_600)  # seconds after the last entry
            await commands.execute()

    async def _listen(self, on_notice: NoticeCallback, is_connected: asyncio.Event) -> None:
        is_unreachable = False
        while True:
            try:
                last = await self._last()
                is_connected.set()
                is_unreachable = False
                on_notice(None)  # earlier changes may have been missed
                await self._read(on_notice, last)
            except _connection_errors() as error:
                is_connected.clear()
                if not is_unreachable:
                    self._warn("changes by other processes are read from the store", error)
                is_unreachable = True
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _last(self) -> str:
        newest = await self._client.xrevrange(self._key, count=1)
        return newest[0][0] if newest else "0-0"

    async def _read(self, on_notice: NoticeCallback, after: str) -> None:
        """Pass the notices of each entry later than ``after`` to ``on_notice``, until the connection breaks."""
        numbers: dict[str, int] = {}
        while True:
            entries = _entries(await self._client.xread({self._key: after}, block=round(BLOCK_SECONDS * 1_000)))
            for _, entry in entries:
                for notice in self._notices_of(entry, numbers):
                    on_notice(notice)
            if entries:
                after = entries[-1][0]

    def _notices_of(self, entry: Mapping[str, str], numbers: dict[str, int]) -> list[ChangeNotice | None]:
        """Return an entry's notices. ``None`` comes first if entries were missed, and alone if the entry is invalid."""
        try:
            sender, number = entry["by"], int(entry["number"])
            notices = [_notice(pair) for pair in json.loads(entry["notices"])]
        except (KeyError, TypeError, ValueError, RecursionError):
            return [None]
        is_complete = number <= numbers.get(sender, number - 1) + 1
        if len(numbers) > 1_000:  # senders
            numbers.clear()
        numbers[sender] = number
        # A process signals its own events itself, when it stores them.
        is_own = sender == self._sender
        relevant = [
            notice
            for notice in notices
            if notice != _UNKNOWN and not (is_own and (notice is None or notice.kind == "events"))
        ]
        return relevant if is_complete else [None, *relevant]

    def _warn(self, consequence: str, error: BaseException) -> None:
        # Not the error's own text, which may contain parts of the URL.
        _log.warning("Redis at %s does not answer (%s): %s", self._address, type(error).__name__, consequence)


_UNKNOWN: Final = ChangeNotice("lists", "?")
"""Stands for a notice of an unknown kind, as a newer version may send."""


def _notice(pair: Any) -> ChangeNotice | None:  # the data in Redis may have any form
    if pair is None:
        return None
    kind, name = pair
    if not isinstance(kind, str) or not isinstance(name, str):
        raise TypeError
    return ChangeNotice(cast("ChangeKind", kind), name) if kind in _KINDS else _UNKNOWN


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: a client that times out at the same moment may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=RECONNECT_SECONDS)


def _entries(answer: Any) -> list[tuple[str, Mapping[str, str]]]:
    """Return the entries of a response to XREAD, whose form depends on the Redis protocol version."""
    if not answer:
        return []
    # Only one stream is read. RESP2 returns [[name, entries]], RESP3 {name: [entries]}.
    if isinstance(answer, dict):
        ((entries,),) = cast("dict[str, Any]", answer).values()
    else:
        ((_, entries),) = answer
    return entries


def _connection_errors() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return (RedisError, OSError, TimeoutError)


def _connect(url: str) -> Any:  # a client of redis, which is imported only here
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise DefinitionError(
            "announcing changes through Redis needs the extra 'redis', which is not installed",
            hint=install_command("redis"),
        ) from None
    try:
        parts = urlsplit(url)
        number = parts.path.strip("/")
        if parts.scheme not in _SCHEMES or (parts.scheme != "unix" and number and not number.isdecimal()):
            raise ValueError
        client: Any = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            decode_responses=True,
            encoding_errors="replace",  # other clients may have written text that is not UTF-8
            retry=Retry(NoBackoff(), 0),  # this module retries, after a pause
            socket_connect_timeout=RESPONSE_SECONDS,
            socket_timeout=BLOCK_SECONDS + RESPONSE_SECONDS,
        )
        client.connection_pool.make_connection()  # rejects unknown options
    except (ValueError, TypeError):  # whose texts may contain the URL
        raise DefinitionError("the URL of Redis is invalid", hint=_HINT) from None
    return client


NoticeFactory = Callable[[Mapping[str, Any]], ChangeNotice | None]
"""Maps the arguments of a method, by name, to the notice of the change that it makes, or to ``None``."""


def _events(session: str) -> ChangeNotice:
    return ChangeNotice("events", session)


def _appended(arguments: Mapping[str, Any]) -> ChangeNotice | None:
    has_news = arguments["events"] or arguments["then"] is None  # otherwise the turn was only renewed
    return _events(arguments["held"].session) if has_news else None


def _decided(arguments: Mapping[str, Any]) -> ChangeNotice | None:
    row = arguments["row"]
    return ChangeNotice("approval", row.id) if arguments["expected"] == "pending" != row.status else None


_LISTS: Final = ChangeNotice("lists")
ANNOUNCED: Final[Mapping[str, Mapping[str, NoticeFactory]]] = {
    "events": {
        "begin": lambda arguments: _events(arguments["turn"].session),
        "append": _appended,
        "interrupt": lambda arguments: _events(arguments["session"]),
    },
    "sessions": {
        "delete": lambda arguments: _events(arguments["id"]),
        "move": lambda _: _LISTS,
    },
    "approvals": {"move": _decided},
    "agents": {"replace": lambda _: _LISTS},
    "pins": {"change": lambda _: _LISTS},
    "keys": {"revoke": lambda arguments: ChangeNotice("key", arguments["id"])},
}
"""The methods whose changes are announced, by part of the store, and the function that makes each notice."""


def share_by_redis(store: Store, url: str) -> Store:
    """Return a store that announces its changes through Redis, and receives those of other processes.

    ``url`` is ``redis://…``, ``rediss://…`` (TLS) or ``unix://…``. Raises ``DefinitionError`` if it is invalid, or if
    the extra is not installed. No error repeats the URL, since it may contain a password.
    """
    # All parts are the parts of ``store``, except that a few methods announce their changes.
    return cast("Store", AnnouncingStore(store, ChangeStream(url)))


class AnnouncingStore:
    """A wrapper around a store in which some methods announce their changes."""

    def __init__(self, store: Store, stream: ChangeStream) -> None:
        self._store = store
        self.changes: Final = stream
        self._parts = {
            name: _AnnouncingPart(getattr(store, name), methods, stream.announce) for name, methods in ANNOUNCED.items()
        }

    def __getattr__(self, name: str) -> Any:  # a part or another attribute of the store
        return self._parts.get(name) or getattr(self._store, name)

    async def open(self) -> None:
        """Open the store and start to announce changes. Redis need not be reachable."""
        await self._store.open()
        try:
            secret = await self._store.audit.digest_key()
        except BaseException:
            await self._store.close()
            raise
        # Equal for all processes of a database, even if their URLs differ, and different for every other database.
        self.changes.start(hashlib.sha256(b"capset changes " + secret).hexdigest()[:32])

    async def close(self) -> None:
        """Announce the waiting changes, if Redis accepts them in time, and close the store."""
        try:
            await self.changes.stop()
        finally:
            await self._store.close()


class _AnnouncingPart:
    """A wrapper around a part of a store in which some methods announce their changes."""

    def __init__(
        self, part: object, methods: Mapping[str, NoticeFactory], announce: Callable[[ChangeNotice], None]
    ) -> None:
        self._part = part
        self._methods = {
            name: _announcing(getattr(part, name), make_notice, announce) for name, make_notice in methods.items()
        }

    def __getattr__(self, name: str) -> Any:  # a method of the part
        return self._methods.get(name) or getattr(self._part, name)


def _announcing(
    method: Callable[..., Awaitable[Any]], make_notice: NoticeFactory, announce: Callable[[ChangeNotice], None]
) -> Callable[..., Awaitable[Any]]:
    """Wrap a method so that it announces its change, unless it returns ``False`` for no change."""
    parameters = signature(method)

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:  # as for the method
        notice = make_notice(parameters.bind(*args, **kwargs).arguments)
        try:
            result = await method(*args, **kwargs)
        except asyncio.CancelledError:  # the change may be stored nevertheless
            if notice is not None:
                announce(notice)
            raise
        if notice is not None and result is not False:
            announce(notice)
        return result

    return call

"""Names to addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from threading import BoundedSemaphore, Thread
from typing import Final, Protocol

AT_ONCE: Final = 64
"""How many names are looked up at once in a process, those included that nobody waits for any more."""
_free: Final = BoundedSemaphore(AT_ONCE)


class Resolver(Protocol):
    """Tells the addresses of a name; ``system_resolver`` is one."""

    async def __call__(self, host: str, /) -> Sequence[str]:
        """Return every address of a host, as text, best first. Raises ``OSError`` where there is none."""
        ...


async def system_resolver(host: str, /) -> Sequence[str]:
    """Ask the machine, as every program on it does: its hosts file and its name servers.

    Each look-up has a thread of its own, which nothing waits for when its caller has given up: in a pool, few names
    whose servers do not answer would keep all others waiting. Raises ``socket.gaierror``, ``EAI_AGAIN`` if there are
    too many at once.
    """
    if not _free.acquire(blocking=False):
        raise socket.gaierror(socket.EAI_AGAIN, "too many names are looked up at once")
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str], failure: OSError | None) -> None:
        if found.done():
            return  # its caller has given up
        if failure is None:
            found.set_result(addresses)
        else:
            found.set_exception(failure)

    def look_up() -> None:
        addresses, failure = list[str](), None
        try:
            told = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(address[0]) for *_, address in told))
        except OSError as error:
            failure = error
        except UnicodeError:  # of a name that no DNS knows
            failure = socket.gaierror(socket.EAI_NONAME, "no name")
        finally:
            _free.release()
        try:
            loop.call_soon_threadsafe(tell, addresses, failure)
        except RuntimeError:
            return  # the loop is closed

    try:
        Thread(target=look_up, name="capset-resolver", daemon=True).start()
    except RuntimeError:
        _free.release()
        raise socket.gaierror(socket.EAI_AGAIN, "no thread can be started") from None
    return await found

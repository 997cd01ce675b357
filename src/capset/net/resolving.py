"""Names to addresses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol


class Resolver(Protocol):
    """Tells the addresses of a name; ``system_resolver`` is one."""

    async def __call__(self, host: str, /) -> Sequence[str]:
        """Return every address of a host, as text, best first. Raises ``OSError`` where there is none."""
        ...


async def system_resolver(host: str, /) -> Sequence[str]:
    """Ask the machine, as every program on it does: its hosts file and its name servers."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))

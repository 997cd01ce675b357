"""Classification of addresses as public or internal, and resolution of names (spec 4, G29)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from threading import BoundedSemaphore, Thread
from typing import Annotated, Final, Literal, Protocol

from pydantic import AfterValidator, Field

from capset.errors import DefinitionError, ToolError, TransientError
from capset.net.urls import parse_authority

AddressClass = Literal["public", "internal", "refused"]
"""``internal`` is this machine or a private network, and may be allowed by name; ``refused`` is never allowed."""

_INTERNAL_4: Final = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),  # behind a carrier's NAT
    IPv4Network("127.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
)
_REFUSED_4: Final = (
    IPv4Network("0.0.0.0/8"),  # this machine, on many systems
    IPv4Network("168.63.129.16/32"),  # a public address where a cloud serves its machines' metadata
    IPv4Network("169.254.0.0/16"),  # link-local; most clouds serve their machines' metadata here
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.0.2.0/24"),  # documentation, as are 198.51.100.0/24 and 203.0.113.0/24
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("198.18.0.0/15"),  # benchmarks
    IPv4Network("198.51.100.0/24"),
    IPv4Network("203.0.113.0/24"),
    IPv4Network("224.0.0.0/4"),  # multicast
    IPv4Network("240.0.0.0/4"),  # reserved, and broadcast
)
_INTERNAL_6: Final = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_PUBLIC_6: Final = IPv6Network("2000::/3")
"""All addresses assigned as global unicast; NAT64, mapped, compatible and site-local addresses lie outside."""
_REFUSED_6: Final = (
    IPv6Network("2001::/23"),  # Teredo, benchmarks, ORCHID and other special protocols
    IPv6Network("2001:db8::/32"),  # documentation
    IPv6Network("2002::/16"),  # 6to4, which carries any IPv4 address
    IPv6Network("3fff::/20"),  # documentation
)


def classify_address(address: str) -> AddressClass:
    """Return the class of an address; text that is not an address, or has a zone, is ``refused``.

    An IPv6 address that embeds an IPv4 address is always refused: write the IPv4 address instead.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "refused"
    return _classify_ipv4(parsed) if isinstance(parsed, IPv4Address) else _classify_ipv6(parsed)


def _classify_ipv4(address: IPv4Address) -> AddressClass:
    if any(address in network for network in _INTERNAL_4):
        return "internal"
    # Addresses that Python knows to be special are refused even if they are not listed here.
    return "public" if address.is_global and not any(address in network for network in _REFUSED_4) else "refused"


def _classify_ipv6(address: IPv6Address) -> AddressClass:
    if address.scope_id is not None:
        return "refused"
    if any(address in network for network in _INTERNAL_6):
        return "internal"
    is_public = address in _PUBLIC_6 and address.is_global and not any(address in network for network in _REFUSED_6)
    return "public" if is_public else "refused"


def is_address(host: str) -> bool:
    """Whether the host of a URL is an IP address rather than a name."""
    return ":" in host or host.replace(".", "").isdigit()


def is_loopback(host: str) -> bool:
    """Whether ``host`` is ``localhost`` or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


MAX_LOOKUPS: Final = 64
"""The maximum number of concurrent lookups of a process, including abandoned ones."""
_lookup_slots: Final = BoundedSemaphore(MAX_LOOKUPS)


class NotSent(TransientError):
    """Raised if nothing of a request was sent, for example because its host cannot be resolved or reached."""


class Resolver(Protocol):
    """Resolves names to addresses; ``system_resolver`` is one."""

    async def __call__(self, host: str, /) -> Sequence[str]:
        """Return every address of a host, as text, best first. Raises ``OSError`` if there is none."""
        ...


async def system_resolver(host: str, /) -> Sequence[str]:
    """Resolve a name with the system's resolver: the hosts file and the name servers of this machine.

    Each lookup has its own thread, and nothing waits for it once its caller is cancelled: in a pool, a few names whose
    servers do not respond would block all other lookups. Raises ``socket.gaierror``, with ``EAI_AGAIN`` if there are
    too many concurrent lookups.
    """
    if not _lookup_slots.acquire(blocking=False):
        raise socket.gaierror(socket.EAI_AGAIN, "too many names are being looked up at once")
    loop = asyncio.get_running_loop()
    lookup: asyncio.Future[list[str]] = loop.create_future()

    def set_outcome(addresses: list[str], failure: OSError | None) -> None:
        if lookup.done():
            return  # the caller was cancelled
        if failure is None:
            lookup.set_result(addresses)
        else:
            lookup.set_exception(failure)

    def look_up() -> None:
        addresses, failure = list[str](), None
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(address[0]) for *_, address in entries))
        except OSError as error:
            failure = error
        except UnicodeError:  # for a name that DNS cannot represent
            failure = socket.gaierror(socket.EAI_NONAME, "invalid host name")
        finally:
            _lookup_slots.release()
        try:
            loop.call_soon_threadsafe(set_outcome, addresses, failure)
        except RuntimeError:
            return  # the loop is closed

    try:
        Thread(target=look_up, name="capset-resolver", daemon=True).start()
    except RuntimeError:
        _lookup_slots.release()
        raise socket.gaierror(socket.EAI_AGAIN, "no thread can be started") from None
    return await lookup


@dataclass(frozen=True, slots=True)
class HostAllowlist:
    """Hosts that may resolve to this machine or a private network: exact names, with any port or a specific one.

    Addresses that are neither public nor internal stay refused even for these: link-local addresses (where clouds serve
    the secrets of their machines), multicast and the like.
    """

    entries: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> HostAllowlist:
        """Parse entries of the form ``host`` or ``host:port``, such as ``intranet.example:8080`` or ``[::1]:8080``.

        Raises ``DefinitionError``, naming the entry, if one has another form or is an address that is always refused.
        """
        return cls(frozenset(map(_parse_entry, entries)))

    def permits(self, host: str, port: int, address: str) -> bool:
        """Whether a connection to ``host`` may use this ``address``."""
        kind = classify_address(address)
        return self.contains(host, port) if kind == "internal" else kind == "public"

    def contains(self, host: str, port: int) -> bool:
        """Whether ``host`` is allowed at this port."""
        return (host, None) in self.entries or (host, port) in self.entries


def _parse_entry(entry: str) -> tuple[str, int | None]:
    try:
        host, port = parse_authority(entry)
    except ToolError as error:
        reason = error.message.replace("The URL has", "it has")
        raise DefinitionError(f"an allowed host is host or host:port; got {entry!r}: {reason}") from None
    if is_address(host) and classify_address(host) == "refused":
        raise DefinitionError(f"an allowed host cannot be {entry!r}: its address is neither public nor private")
    return host, port


def _checked_hosts(allow: tuple[str, ...]) -> tuple[str, ...]:
    try:
        HostAllowlist.parse(allow)
    except DefinitionError as error:
        raise ValueError(error.message) from None
    return allow


AllowedHosts = Annotated[
    tuple[str, ...],
    Field(
        max_length=1_000,
        description="Hosts of this machine or of private networks that may be asked: host, or host:port.",
    ),
    AfterValidator(_checked_hosts),
]
"""The type of a config field for the ``allow`` of ``HttpClient``. Entries that are not hosts are refused."""

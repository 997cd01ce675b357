"""The internal hosts that a configuration allows (spec 4, G29)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from capset.errors import DefinitionError, ToolError
from capset.net.addresses import reach_of
from capset.net.urls import read_authority


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hosts that may lead to this machine or a private network: exact names, with any port or with one.

    They never lead to addresses that are neither public nor internal: link-local addresses (where clouds serve the
    secrets of their machines), multicast and the like stay refused.
    """

    entries: frozenset[tuple[str, int | None]] = frozenset()

    @classmethod
    def read(cls, entries: Iterable[str]) -> Allowed:
        """Parse ``host`` and ``host:port``, such as ``intranet.example:8080`` or ``[::1]:8080``.

        Raises ``DefinitionError``, naming the entry, for anything else, and for an address that stays refused.
        """
        return cls(frozenset(map(_read, entries)))

    def takes(self, host: str, port: int, address: str) -> bool:
        """Whether a host may be connected to at this one of its addresses."""
        reach = reach_of(address)
        if reach == "internal":
            return (host, None) in self.entries or (host, port) in self.entries
        return reach == "public"


def _read(entry: str) -> tuple[str, int | None]:
    try:
        host, port = read_authority(entry)
    except ToolError as error:
        why = error.message.replace("The URL has", "it has")
        raise DefinitionError(f"an allowed host is host or host:port; got {entry!r}: {why}") from None
    if (":" in host or host.replace(".", "").isdigit()) and reach_of(host) == "refused":
        raise DefinitionError(f"an allowed host cannot be {entry!r}: its address is neither public nor of a network")
    return host, port


def _are_hosts(allow: tuple[str, ...]) -> tuple[str, ...]:
    try:
        Allowed.read(allow)
    except DefinitionError as error:
        raise ValueError(error.message) from None
    return allow


AllowedHosts = Annotated[
    tuple[str, ...],
    Field(
        max_length=1_000,
        description="Hosts of this machine or of private networks that may be asked: host, or host:port.",
    ),
    AfterValidator(_are_hosts),
]
"""The type of a config's field passed on as ``allow`` of ``HttpClient``; entries that are not hosts are refused."""

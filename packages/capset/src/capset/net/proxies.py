"""HTTP proxies, as a host declares them, or as the environment does (spec 7, M104).

A proxy looks names up by itself, so nothing here can say to which addresses they lead: it is asked for URLs that a host
declares, and never for those that models or stored agents choose.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import unquote

from capset.errors import DefinitionError, ToolError
from capset.net.addresses import is_loopback
from capset.net.urls import read_url


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy, which is spoken to over TLS if its scheme is ``https``."""

    scheme: str
    host: str
    port: int
    credentials: str = field(default="", repr=False)
    """``USER:PASSWORD``; empty if it takes none."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that are for the proxy alone."""
        if not self.credentials:
            return []
        return [(b"Proxy-Authorization", b"Basic " + base64.b64encode(self.credentials.encode()))]


Proxies = Callable[[str, str, int], Proxy | None]
"""Returns the proxy for the scheme, host and port of a URL; ``None`` if there is none on the way."""


def read_proxy(text: str) -> Proxy:
    """Parse ``http://HOST:PORT`` or ``https://HOST:PORT``; credentials stand before the host, percent-encoded.

    Raises ``DefinitionError``, which shows no credentials, for anything else.
    """
    scheme, _, rest = text.partition("://")
    credentials, _, authority = rest.rpartition("@")
    try:
        url = read_url(f"{scheme}://{authority}")
    except ToolError as error:
        raise DefinitionError(f"a proxy is http://HOST:PORT or https://HOST:PORT. {error.message}") from None
    return Proxy(url.scheme, url.host, url.port, unquote(credentials))


def environment_proxy(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` or ``ALL_PROXY`` names for a URL.

    There is none for this machine, and for hosts that ``NO_PROXY`` names. Raises ``DefinitionError`` for a proxy that
    does not speak HTTP.
    """
    from urllib.request import getproxies_environment  # takes long to import

    named = getproxies_environment()
    text = named.get(scheme) or named.get("all")
    if not text or is_loopback(host) or _is_exempt(host, port, named.get("no", "")):
        return None
    return read_proxy(text if "://" in text else f"http://{text}")


def _is_exempt(host: str, port: int, exemptions: str) -> bool:
    """Return whether ``NO_PROXY`` has a host: by its name or address, its domain, its network, or as ``*``.

    An entry may end with a port.
    """
    for entry in (part.strip().lower() for part in exemptions.split(",")):
        has_port = entry.count(":") == 1 or "]:" in entry
        name = entry.removesuffix(f":{port}") if has_port else entry
        name = name.strip("[]").removeprefix("*").removeprefix(".")
        if entry == "*" or (name and (host == name or host.endswith(f".{name}"))) or _is_in_network(host, name):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False

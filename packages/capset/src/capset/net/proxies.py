"""HTTP proxies, configured by the application or by environment variables (spec 7, M104).

A proxy resolves names itself, so the addresses that it connects to cannot be checked here. It is used only for URLs
that the application configures, never for those that models or stored agents choose.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import unquote

from capset.errors import DefinitionError, ToolError
from capset.net.addresses import is_loopback
from capset.net.urls import parse_url


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy, connected to over TLS if its scheme is ``https``."""

    scheme: str
    host: str
    port: int
    credentials: str = field(default="", repr=False)
    """``USER:PASSWORD``; empty if it needs none."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that only the proxy gets."""
        if not self.credentials:
            return []
        return [(b"Proxy-Authorization", b"Basic " + base64.b64encode(self.credentials.encode()))]


ProxySelector = Callable[[str, str, int], Proxy | None]
"""Returns the proxy for the scheme, host and port of a URL, or ``None`` for a direct connection."""


def parse_proxy(text: str) -> Proxy:
    """Parse ``http://HOST:PORT`` or ``https://HOST:PORT``, with optional percent-encoded credentials before the host.

    Raises ``DefinitionError``, which shows no credentials, for anything else.
    """
    scheme, _, remainder = text.partition("://")
    credentials, _, authority = remainder.rpartition("@")
    try:
        url = parse_url(f"{scheme}://{authority}")
    except ToolError as error:
        raise DefinitionError(f"a proxy is http://HOST:PORT or https://HOST:PORT. {error.message}") from None
    return Proxy(url.scheme, url.host, url.port, unquote(credentials))


def environment_proxy(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy that ``HTTPS_PROXY``, ``HTTP_PROXY`` or ``ALL_PROXY`` names for a URL.

    Returns ``None`` for this machine and for hosts in ``NO_PROXY``. Raises ``DefinitionError`` if the proxy is not an
    HTTP proxy.
    """
    from urllib.request import getproxies_environment  # slow to import

    proxies = getproxies_environment()
    text = proxies.get(scheme) or proxies.get("all")
    if not text or is_loopback(host) or _is_exempt(host, port, proxies.get("no", "")):
        return None
    return parse_proxy(text if "://" in text else f"http://{text}")


def _is_exempt(host: str, port: int, exemptions: str) -> bool:
    """Return whether ``NO_PROXY`` exempts a host: by name, address, domain or network, or with ``*``.

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

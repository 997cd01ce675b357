"""Allowances that the operator grants to MCP servers of stored agents: internal hosts and secrets (spec 7, M26)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError, ToolError
from capset.net.addresses import HostAllowlist
from capset.net.urls import Url, parse_authority
from capset_connect.declarations import SECRET

_ANY: Final = "*"


class ServerAllowances:
    """Allowances for the MCP servers of stored agents, by organisation. By default, nothing is allowed.

    ``hosts`` are internal hosts that servers may run on, as ``ORG=HOST`` or ``ORG=HOST:PORT``. ``secrets`` may be used
    in headers, as ``ORG=NAME@HOST``: they are sent to that host only, over HTTPS or to an allowed internal host. The
    organisation ``*`` stands for all, and an empty one for agents without an organisation.
    """

    def __init__(self, hosts: Iterable[str] = (), secrets: Iterable[str] = ()) -> None:
        """Raise ``DefinitionError`` for an option that cannot be parsed."""
        self._hosts = [_parts(option, "ORG=HOST") for option in hosts]
        HostAllowlist.parse(host for _, host in self._hosts)
        self._secrets: list[tuple[str, str, tuple[str, int | None]]] = []
        for secret in secrets:
            org, rest = _parts(secret, "ORG=NAME@HOST")
            name, at, host = rest.partition("@")
            if not at or SECRET.fullmatch(f"${{{name}}}") is None:
                raise DefinitionError(f"an allowed secret is ORG=NAME@HOST; got {secret!r:.80}")
            try:
                self._secrets.append((org, name, parse_authority(host)))
            except ToolError as error:
                raise DefinitionError(
                    f"an allowed secret is ORG=NAME@HOST; got {secret!r:.80}: {error.message}"
                ) from None

    def internal(self, org: str | None) -> tuple[str, ...]:
        """Return the internal hosts that an organisation's servers may run on."""
        return tuple(host for owner, host in self._hosts if owner in (_ANY, org or ""))

    def secrets(self, org: str | None, url: Url) -> frozenset[str]:
        """Return the names of the secrets that agents of an organisation may send to a URL."""
        places = ((url.host, None), (url.host, url.port))
        is_internal = any(place in HostAllowlist.parse(self.internal(org)).entries for place in places)
        if url.scheme != "https" and not is_internal:
            return frozenset()
        return frozenset(name for owner, name, place in self._secrets if owner in (_ANY, org or "") and place in places)


class AllowedSecrets:
    """A filter on a source of secrets: only the given names are available."""

    def __init__(self, secrets: Secrets, names: frozenset[str]) -> None:
        self._all = secrets
        self._names = names

    async def get(self, name: str) -> str | None:
        """Return a secret, or ``None`` if it does not exist or is not allowed."""
        return await self._all.get(name) if name in self._names else None


def _parts(option: str, form: str) -> tuple[str, str]:
    org, separator, rest = option.rpartition("=")
    if not separator or not rest:
        raise DefinitionError(f"expected {form}, or *{form[3:]} for every organisation; got {option!r:.80}")
    return org, rest

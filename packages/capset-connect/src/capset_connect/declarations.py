"""Checks and helpers shared by the declarations of MCP servers and APIs (spec 7)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any, Final, cast

from capset.definitions.fields import POSITIVE, REAL, Check, requiring, within
from capset.definitions.names import checked_list, checked_mapping, checked_text
from capset.definitions.secrets import MASK
from capset.errors import DefinitionError, ToolError
from capset.net.addresses import HostAllowlist, classify_address, is_address
from capset.net.proxies import ProxySelector, environment_proxy, parse_proxy
from capset.net.urls import parse_url

SOURCE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
"""The name of a server or an API. It is also the prefix of the names of its tools."""
HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
SECRET: Final = re.compile(r"\$\{([A-Za-z][A-Za-z0-9_]{0,99})\}")
"""A placeholder for a secret in a text: ``Bearer ${GITHUB_TOKEN}``."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that are invalid in a header value (RFC 9110, section 5.5)."""
ANSWER_BYTES: Final = 1024 * 1024
"""The default maximum size of a response, in bytes."""
_MAX_NAME: Final = 64
"""The maximum length of a tool's name, in characters."""
_LONG_ENOUGH: Final = 8
"""The minimum length, in characters, of a secret that is masked in responses."""
Secret = Callable[[str], Awaitable[str | None]]
"""Returns the secret with a name, or ``None``."""

SECONDS: Final = requiring("{} must be a positive number of seconds", within(REAL, POSITIVE))
BYTES: Final = requiring("{} must be a number of bytes from 1,024 to 64 MiB", within(int, 1024, 64 * 1024 * 1024))


def source_name(kind: str) -> Check:
    """Return a check for names of one ``kind``, such as ``an MCP server``."""

    def check(_: str, name: object) -> str:
        if not isinstance(name, str) or not SOURCE.fullmatch(name):
            raise DefinitionError(f"the name of {kind} must match {SOURCE.pattern}; got {name!r:.80}")
        return name

    return check


def short_name(name: str, own_name: str) -> str:
    """Return a tool's name; if it is too long, its end is replaced by a part of the hash of ``own_name``."""
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9]}_{hashlib.sha256(own_name.encode()).hexdigest()[:8]}"


def texts_by(kind: str, grammar: re.Pattern[str]) -> Check:
    """Return a check for mappings from names that match ``grammar`` to texts."""

    def check(field: str, texts: Mapping[str, str]) -> Mapping[str, str]:
        checked = {
            name: checked_text(f"{field} {name!r}", text) for name, text in checked_mapping(field, texts or {}).items()
        }
        for name in checked:
            if not grammar.fullmatch(name):
                raise DefinitionError(f"{field}: {name!r} is not a valid name of {kind}")
        return MappingProxyType(checked)

    return check


def words(field: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts as a tuple, in order. Raises ``DefinitionError`` for other values."""
    return tuple(checked_text(f"{field}: a word", text) for text in checked_list(field, texts))


def distinct_names(field: str, names: Iterable[str]) -> frozenset[str]:
    """Return names as a set."""
    return frozenset(words(field, list(names) if isinstance(names, Set) else names))


def optional_names(field: str, names: Iterable[str] | None) -> frozenset[str] | None:
    """Return names as a set, or ``None``."""
    return None if names is None else distinct_names(field, names)


def optional_url(field: str, url: str | None) -> str | None:
    """Return the URL after checking that it can be requested, or ``None``. Raises ``DefinitionError``."""
    if url is not None:
        try:
            parse_url(url)
        except ToolError as error:
            raise DefinitionError(f"{field}: {error.message}") from None
    return url


def optional_proxy(field: str, url: str | None) -> str | None:
    """Return the URL of a proxy, with placeholders for secrets, or ``None``. Raises ``DefinitionError``."""
    if url is not None:
        try:
            parse_proxy(SECRET.sub("x", checked_text(field, url)))
        except DefinitionError as error:
            raise DefinitionError(f"{field}: {error.message}") from None
    return url


def secrets_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the secrets that texts have placeholders for."""
    return tuple(dict.fromkeys(name for text in texts for name in SECRET.findall(text)))


async def fill_secrets(owner: str, kind: str, texts: Mapping[str, str], secret: Secret) -> dict[str, str]:
    """Replace the placeholders in texts by secrets. ``kind`` names the texts in messages: ``header``.

    Raises ``DefinitionError``, starting with ``owner``, for a secret that is not set or is invalid in a header.
    """
    filled: dict[str, str] = {}
    for name, text in texts.items():
        values: dict[str, Any] = {}
        for secret_name in secrets_in([text]):
            if (value := await secret(secret_name)) is None:
                raise DefinitionError(
                    f"{owner}: the {kind} {name!r} needs the secret {secret_name!r}, which is not set"
                )
            if kind == "header" and _CONTROL.search(value):
                raise DefinitionError(
                    f"{owner}: the {kind} {name!r} cannot contain the secret {secret_name!r}, because it has a line "
                    "break or another control character"
                )
            values[secret_name] = value
        filled[name] = SECRET.sub(lambda place: values[place[1]], text)  # noqa: B023  # used within this iteration
    return filled


async def proxies_of(owner: str, declared: str | None, internal: Iterable[str], secret: Secret) -> ProxySelector:
    """Return a function that returns the proxy for a URL: the declared one, or one from the environment.

    Placeholders in the declared proxy are filled with secrets. ``internal`` hosts use no proxy from the environment.
    Raises ``DefinitionError``, starting with ``owner``, for a secret that is not set.
    """
    if declared is None:
        direct = HostAllowlist.parse(internal)
        return lambda scheme, host, port: None if direct.contains(host, port) else environment_proxy(scheme, host, port)
    filled = await fill_secrets(owner, "proxy", {declared: declared}, secret)
    proxy = parse_proxy(filled[declared])
    return lambda _scheme, _host, _port: proxy


def maskable(secrets: Iterable[str]) -> list[str]:
    """Return the texts to mask in responses, longest first: secrets, and each line of one, such as of a private key.

    Short ones are omitted: many texts contain them.
    """
    texts = {text for secret in secrets for text in (secret, *secret.splitlines()) if len(text) >= _LONG_ENOUGH}
    return sorted(texts, key=len, reverse=True)


def mask_text(text: str, hidden: Iterable[str]) -> str:
    """Mask secrets in a text."""
    for secret in hidden:
        text = text.replace(secret, MASK)
    return text


def mask_value(value: Any, hidden: Collection[str]) -> Any:  # JSON
    """Mask secrets in the texts of a value. Without secrets, return the value itself."""
    if not hidden:
        return value
    match value:
        case str():
            return mask_text(value, hidden)
        case list():
            return [mask_value(item, hidden) for item in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {mask_text(name, hidden): mask_value(member, hidden) for name, member in members.items()}
        case _:
            return value


def add_internal_hint(error: ToolError, host: str, port: int) -> ToolError:
    """Add advice on how to allow a refused address to its error, if possible. Return other errors unchanged."""
    if error.code != "address_refused" or (is_address(host) and classify_address(host) == "refused"):
        return error
    message = f"{error.message} If this is intended, {internal_member(host, port)}."
    return ToolError(message, code=error.code, status=error.status)


def internal_member(host: str, port: int) -> str:
    """Return advice for a declaration: how to allow an internal host."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f'allow it with internal: ["{authority}"]'

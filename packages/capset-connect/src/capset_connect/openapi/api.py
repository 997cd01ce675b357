"""Declarations of APIs whose operations agents may use (spec 7, M8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from capset.definitions.fields import checked_field, requiring, store_checked
from capset.definitions.governance.acts import ActName
from capset.definitions.governance.limits import checked_limits
from capset.definitions.identity import FrozenValue
from capset.definitions.names import checked_flag, checked_mapping, checked_permissions, checked_text
from capset.definitions.tools.options import Effect, Limits
from capset.errors import DefinitionError, ToolError
from capset.net.addresses import HostAllowlist
from capset.net.client import checked_headers
from capset.schemas.strict_json import copy_json
from capset.schemas.validation_errors import SchemaMismatch
from capset.wire.tool_sources import ApiShape, ProviderShape
from capset_connect.client_credentials import ClientCredentials, client_credentials_of
from capset_connect.declarations import (
    ANSWER_BYTES,
    BYTES,
    HEADER,
    SECONDS,
    optional_names,
    optional_proxy,
    optional_url,
    secrets_in,
    short_name,
    source_name,
    texts_by,
    words,
)
from capset_connect.tool_rules import Rules, checked_rules
from capset_connect.vault.user_auth import PLACEHOLDER, UserCredential, user_credential_of

_SCHEME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
EFFECTS: Final[Mapping[str, Effect]] = {
    "GET": "read",
    "HEAD": "read",
    "OPTIONS": "read",
    "POST": "external",
    "PUT": "external",
    "PATCH": "external",
    "DELETE": "destructive",
}
"""The effect of each method. ``write`` is not used: it is for the host's own data."""


def _document(field: str, document: str | Path | Mapping[str, Any]) -> str | Mapping[str, Any]:
    if isinstance(document, Path):
        return str(document)
    if isinstance(document, str):
        return optional_url(field, document) or document if _URL.match(document) else checked_text(field, document)
    if not isinstance(document, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts may pass any type
        raise DefinitionError(f"{field} must be a path, a URL or a mapping; got {type(document).__name__}")
    try:
        return MappingProxyType(cast("dict[str, Any]", copy_json(dict(document))))
    except SchemaMismatch as error:
        raise DefinitionError(f"{field}: {error}") from None


def _base_url(field: str, base_url: str | None) -> str | None:
    if (url := optional_url(field, base_url)) is None:
        return None
    if "?" in url or "#" in url:
        raise DefinitionError(f"{field} must have no query and no fragment: paths are added to it; got {url!r:.80}")
    return url.rstrip("/")


def _headers(field: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    checked = texts_by("a header", HEADER)(field, headers)
    try:
        checked_headers(dict.fromkeys(checked, ""))
    except ToolError as error:
        raise DefinitionError(f"{field}: {error.message}") from None
    return cast("Mapping[str, str]", checked)


def _oauth(field: str, clients: Mapping[str, ClientCredentials]) -> Mapping[str, ClientCredentials]:
    checked = {
        name: client_credentials_of(f"{field}: {name}", client)
        for name, client in checked_mapping(field, clients or {}).items()
    }
    for name in checked:
        if not isinstance(name, str) or not _SCHEME.fullmatch(name):
            raise DefinitionError(f"{field}: {name!r:.80} is not a valid name of a security scheme")
    return MappingProxyType(checked)


def _hosts(field: str, names: Iterable[str]) -> tuple[str, ...]:
    hosts = words(field, names)
    HostAllowlist.parse(hosts)
    return hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSource(FrozenValue):
    """An API, identified by its name alone."""

    name: str = checked_field(source_name("an API"))
    """Letters, digits, ``_`` and ``-``; also the prefix of its tools' names."""

    def __post_init__(self) -> None:
        store_checked(self)

    @property
    def label(self) -> str:
        """Its kind and name, for messages."""
        return f"API {self.name!r}"

    @property
    def capability(self) -> str:
        """The name of the capability of its tools."""
        return f"api:{self.name}"

    @property
    def pin_key(self) -> str:
        """The key of its tools' pins in a store. No MCP server can have the same key."""
        return self.capability

    @property
    def approval_act(self) -> ActName:
        """The act that approves its tools."""
        return "api.approve"

    @property
    def said(self) -> str:
        """The description of its capability."""
        return "Operations of an API."

    def tool_name(self, original_name: str) -> str:
        """Return the name of an operation's tool: the API's name and the operation's, with ``_`` for other characters.

        An operation without an id is named after its method and path: ``pets_get_pets_id``. A name of more than 64
        characters is cut, and ends with a part of the hash of the operation's name.
        """
        base = original_name.lower() if original_name.partition(" ")[0] in EFFECTS else original_name
        return short_name(f"{self.name}_{_NO_NAME.sub('_', base).strip('_')}", original_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApi(ApiSource):
    """An API as its document describes it (OpenAPI 3.0 to 3.2, Swagger 2.0), and its operations that become tools.

    Headers, credentials and the proxy may contain ``${NAME}``, which stands for the secret of that name. Raises
    ``DefinitionError``, naming the API and the field.
    """

    document: str | Path | Mapping[str, Any] = checked_field(_document)
    """A file (JSON or YAML), a URL, or the document itself; ``Any`` since its members have any JSON type."""
    url: str | None = checked_field(_base_url, None)
    """The base URL of all paths, instead of the document's ``servers``."""
    operations: Iterable[str] | None = checked_field(optional_names, None)
    """The operations to use, by ``operationId`` or as ``GET /pets/{id}``."""
    tags: Iterable[str] | None = checked_field(optional_names, None)
    """The tags whose operations are used, in addition to ``operations``. If both are left out, all operations are."""
    rules: Rules = checked_field(checked_rules, ())
    """The rules of each operation, by its id or by method and path, or ``*`` for every one.

    If they set no effect, that of the operation's method applies.
    """
    limits: Limits = checked_field(checked_limits, ())
    """Call limits for all of its operations together, in addition to each operation's own."""
    permissions: Iterable[str] = checked_field(checked_permissions, frozenset())
    """The permissions that a principal needs to call any of its tools."""
    headers: Mapping[str, str] = checked_field(_headers, ())
    """Sent with every request to the API. Tools have no arguments for these headers."""
    credentials: Mapping[str, str] = checked_field(texts_by("a security scheme", _SCHEME), ())
    """The credential of each security scheme of the document, by its name: a key, a token, or ``USER:PASSWORD``."""
    oauth: Mapping[str, ClientCredentials] = checked_field(_oauth, ())
    """The client credentials that obtain access tokens for each security scheme of the document, by its name."""
    auth: UserCredential | None = checked_field(
        requiring("{} must be a UserCredential", lambda auth: isinstance(auth, UserCredential), optional=True), None
    )
    """Each call uses the credential of its user, which replaces ``${USER_CREDENTIAL}`` in headers and credentials."""
    internal: Iterable[str] = checked_field(_hosts, ())
    """The internal hosts that may be contacted, as ``host`` or ``host:port``; others are refused."""
    ca_file: str | None = checked_field(
        requiring("{} must be a path", lambda path: isinstance(path, str), optional=True), None
    )
    """A PEM file of certificate authorities that are trusted in addition to the machine's."""
    proxy: str | None = checked_field(optional_proxy, None)
    """The proxy for requests to the API, instead of the one in the environment (``HTTPS_PROXY``).

    The proxy resolves host names itself, so their addresses are not checked.
    """
    slashes: bool = checked_field(checked_flag, False)
    """Whether arguments in paths may contain slashes, sent as ``%2F``, which many servers read as a slash."""
    timeout: float = checked_field(SECONDS, 30.0)
    """Seconds that a call may take."""
    answer_bytes: int = checked_field(BYTES, ANSWER_BYTES)
    """The maximum size of a response, in bytes."""
    trust_first_use: bool = checked_field(checked_flag, False)
    """Whether the operations that it offers at its first use are approved automatically."""

    def __post_init__(self) -> None:
        try:
            store_checked(self)
        except DefinitionError as error:
            raise DefinitionError(f"API {self.name!r:.80}: {error.message}", hint=error.hint) from None
        if both := sorted(self.credentials.keys() & self.oauth.keys()):
            raise DefinitionError(f"API {self.name!r}: {both[0]!r} is in credentials and in oauth; give one of them")
        self._check_user()

    def _check_user(self) -> None:
        """Raise ``DefinitionError`` unless the credential of a user, if there is one, has a place."""
        is_placed = any(PLACEHOLDER in text for text in (*self.headers.values(), *self.credentials.values()))
        if self.auth is None and is_placed:
            raise DefinitionError(f"API {self.name!r}: {PLACEHOLDER} needs auth: user")
        if self.auth is not None and not is_placed:
            raise DefinitionError(
                f"API {self.name!r}: auth: user needs {PLACEHOLDER} in headers or credentials",
                hint=f'credentials: {{SCHEME: "{PLACEHOLDER}"}}',
            )
        if self.auth is not None and self.url is None:
            raise DefinitionError(
                f"API {self.name!r}: auth: user needs the url of its paths: a document could name another"
            )
        if PLACEHOLDER in (self.proxy or ""):
            raise DefinitionError(f"API {self.name!r}: a proxy cannot have the credential of a user")

    @property
    def document_url(self) -> str | None:
        """The URL of its document, if it was given as a URL."""
        return self.document if isinstance(self.document, str) and _URL.match(self.document) else None

    @property
    def place(self) -> str:
        """The place of its document, and its URL. An API of the same name at another place is a different API."""
        return f"{self.document if isinstance(self.document, str) else ''} {self.url or ''}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs."""
        clients = (text for client in self.oauth.values() for text in client.texts)
        names = secrets_in((*self.headers.values(), *self.credentials.values(), *clients, self.proxy or ""))
        return names if self.auth is None else self.auth.secrets(names)


def api_of(
    name: str, shape: ApiShape, folder: Path, providers: Mapping[str, ProviderShape] = MappingProxyType({})
) -> OpenApi:
    """Return the API that a file in ``folder`` declares, with its ``providers``. Raises ``DefinitionError``."""
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    if shape.auth is not None:
        options["auth"] = user_credential_of(f"API {name!r}", shape.auth, providers, folder)
    if not _URL.match(shape.document):
        options["document"] = str(folder / shape.document)
    if shape.ca_file is not None:
        options["ca_file"] = str(folder / shape.ca_file)
    return OpenApi(name=name, **options)

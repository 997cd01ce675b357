"""The client of an API: reads its document from time to time, and calls its operations (spec 7, M9, M109)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from capset.definitions.calls.contexts import Context
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError, ToolError, TransientError
from capset.kernel.governance.sent_requests import sending
from capset.net.addresses import NotSent
from capset.net.client import REDIRECT_STATUSES, HttpClient
from capset.net.media import UTF_8, codec_of, decode, describe_media_type, is_text, media_type_of
from capset.net.response import HttpResponse
from capset.net.urls import parse_url
from capset.schemas.strict_json import parse_json
from capset.schemas.validation_errors import SchemaMismatch
from capset_connect.client_credentials import NO_TOKEN, AccessTokens
from capset_connect.declarations import add_internal_hint, fill_secrets, mask_text, mask_value, maskable, proxies_of
from capset_connect.openapi.api import OpenApi
from capset_connect.openapi.credentials import Filled, chosen, filled
from capset_connect.openapi.document import MAX_DOCUMENT_BYTES, ApiDocument, document_of, parse_document
from capset_connect.openapi.operations import is_left_out, names_in, offers_of, unmatched
from capset_connect.openapi.parameters import is_json
from capset_connect.openapi.requests import ApiRequest, request_of
from capset_connect.pins.offers import Offer
from capset_connect.vault.user_secrets import UserSecrets, secrets_of_call

_EXCERPT: Final = 2_000
"""The maximum length of the excerpt of an error's body, in characters."""
_ERROR_BYTES: Final = 16 * 1024
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_TRANSIENT: Final = frozenset({429, 502, 503, 504})
_THREAD_FROM: Final = 64 * 1024
"""The size in bytes from which JSON is parsed in a thread."""
FRESH_SECONDS: Final = 300.0
"""How long a document that was read counts as current."""
_PAUSE_SECONDS: Final = 5.0
"""The pause before a document that could not be read is tried again."""
_REDIRECTS: Final = 5
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class OpenApiClient:
    """Reads the document of one API, and calls its operations. It keeps no connections open.

    Args:
        api: the declaration.
        secrets: the source of secrets, asked at each call that needs one.
    """

    def __init__(self, api: OpenApi, secrets: Secrets) -> None:
        self.api: Final = api
        self._secrets = secrets
        self._tokens = {
            name: AccessTokens(api.label, client, secrets.get, self._http) for name, client in api.oauth.items()
        }
        self._document: ApiDocument | None = None
        self._last: tuple[tuple[bytes, str | None], ApiDocument] | None = None
        self._offers: Sequence[Offer] = ()
        self._names = frozenset[str]()
        self.failure: CapsetError | None = None
        """The error of the last attempt to read the document, or ``None`` if it succeeded."""
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        """Whether its document was read."""
        return self._document is not None

    @property
    def known_offers(self) -> Sequence[Offer] | None:
        """The operations of the document when it was last read, or ``None`` if there is none."""
        return None if self._document is None else self._offers

    @property
    def last_output(self) -> Sequence[str]:
        """Nothing: an API is not a process."""
        return ()

    @property
    def names(self) -> frozenset[str]:
        """The names of all operations of the document when it was last read, selected or not."""
        return self._names

    async def offers(self, *, at_once: bool = False) -> Sequence[Offer]:
        """Return the operations of the document: of a few minutes ago, or the current ones if ``at_once``.

        Raises ``DefinitionError`` for an invalid document, ``TransientError`` if it is unavailable for now, and
        ``ToolError`` if its server refuses it.
        """
        async with self._reading:
            await self._refresh(at_once=at_once)
            return self._offers

    async def first_offers(self) -> Sequence[Offer]:
        """Return the operations of the document.

        Raises as ``offers`` does, and ``DefinitionError`` that names each declared operation, tag and security scheme
        that is not in the document.
        """
        if odd := await self.unmatched():
            raise DefinitionError(f"{self.api.label}: {'; '.join(odd)}")
        return self._offers

    async def unmatched(self) -> list[str]:
        """Return a sentence for each declared name that the document does not have.

        Raises as ``offers`` does.
        """
        async with self._reading:
            return unmatched(self.api, await self._refresh())

    async def leaves_out(self, shape: Mapping[str, Any]) -> bool:
        """Return whether the declaration leaves out an approved operation of this shape that the document still has.

        Raises as ``offers`` does.
        """
        async with self._reading:
            return is_left_out(self.api, await self._refresh(), shape["name"])

    async def user_secrets(self, ctx: Context) -> UserSecrets:
        """Return the secrets for a call, with the credential of its user."""
        return await secrets_of_call(self.api, ctx, self._secrets)

    async def call(
        self, shape: Mapping[str, Any], arguments: Mapping[str, Any], user: UserSecrets | None = None
    ) -> Any:  # JSON
        """Call an operation as approved, with arguments that match its schema; files are ``Upload`` objects.

        ``user`` has the secrets with the credential of the calling user, if the API needs one.

        Raises ``ToolError`` for an argument that cannot be sent, a secret that is not set, a status of 300 or more, and
        an invalid response; ``TransientError`` if a retry may succeed.
        """
        api, secrets = self.api, list[str]()
        source: Secrets = user or self._secrets
        headers, credentials = await self._credentials(shape, source, secrets)
        request = request_of(api, shape, arguments, headers, credentials)
        is_safe = request.method in _SAFE
        try:
            with nullcontext() if is_safe else sending():
                async with self._sent(request) as response:
                    renewed = headers, credentials
                    if response.status == 401:
                        renewed = await self._renewed(shape, source, secrets, credentials)
                    if renewed == (headers, credentials):
                        return await answer_of(api.label, request.method, response, api.answer_bytes, secrets)
                async with self._sent(request_of(api, shape, arguments, *renewed)) as response:
                    return await answer_of(api.label, request.method, response, api.answer_bytes, secrets)
        except TransientError as error:
            if is_safe or isinstance(error, NotSent) or error.code.startswith("http_") or error.code == NO_TOKEN:
                raise
            lost = TransientError(
                f"{error.message} If the request arrived, its outcome is unknown.",
                code=error.code,
                status=error.status,
            )
            lost.answer_lost = True
            raise lost from None

    async def _renewed(
        self, shape: Mapping[str, Any], source: Secrets, secrets: list[str], refused: Filled
    ) -> tuple[dict[str, str], Filled]:
        """Return the headers and credentials after a 401. Raises as ``_credentials`` does; the call was refused."""
        if isinstance(source, UserSecrets):
            source.refuse()
        try:
            return await self._credentials(shape, source, secrets, refused)
        except TransientError as error:
            raise TransientError(error.message, code=NO_TOKEN) from None

    async def _credentials(
        self, shape: Mapping[str, Any], source: Secrets, secrets: list[str], refused: Filled | None = None
    ) -> tuple[dict[str, str], Filled]:
        """Return the declared headers and the credentials of an operation, and add their secrets to ``secrets``.

        Tokens differ from the ``refused`` ones. Raises ``ToolError`` for a secret that is not set, and as
        ``AccessTokens.get`` does.
        """
        api = self.api

        async def noted(name: str) -> str | None:
            if (value := await source.get(name)) is not None:
                secrets.append(value)
            return value

        schemes = chosen(shape.get("security", ()), api.credentials, api.oauth) or ()
        names = [scheme["scheme"] for scheme in schemes]
        token = None if refused is None else refused.headers.get("authorization", "").partition(" ")[2]
        try:
            headers = await fill_secrets(api.label, "header", api.headers, noted)
            declared = {name: api.credentials[name] for name in names if name in api.credentials}
            texts = await fill_secrets(api.label, "credential", declared, noted)
            texts |= {name: await self._tokens[name].get(token) for name in names if name in self._tokens}
        except DefinitionError as error:
            raise ToolError(f"{error.message}.", code="no_secret", status=500) from None
        credentials = filled(schemes, texts)
        secrets += [text.partition(" ")[2] for text in credentials.headers.values()]
        secrets += [quote(text, safe="") for _, text in credentials.query]
        return headers, credentials

    async def _http(self) -> HttpClient:
        """Return a client for public addresses and declared hosts, through the declared proxy."""
        api = self.api
        proxies = await proxies_of(api.label, api.proxy, api.internal, self._secrets.get)
        return HttpClient(allow=api.internal, ca_file=api.ca_file, proxies=proxies)

    async def _refresh(self, *, at_once: bool = False) -> ApiDocument:
        age = monotonic() - self._read_at
        if self._document is not None and not at_once and (age < FRESH_SECONDS or self._is_given):
            return self._document
        if self.failure is not None and not at_once and age < _PAUSE_SECONDS:
            raise self.failure.with_traceback(None)
        try:
            document = await self._load()
        except CapsetError as error:
            self._document, self.failure, self._read_at = None, error, monotonic()
            raise
        self._document, self.failure, self._read_at = document, None, monotonic()
        return document

    @property
    def _is_given(self) -> bool:
        """Whether the document is part of the declaration, so that it cannot change."""
        return not isinstance(self.api.document, str)

    async def _load(self) -> ApiDocument:
        """Read the document, and its operations if it has changed."""
        declared, url = self.api.document, self.api.document_url
        data, source, where = b"", None, "the document"
        try:
            if url is not None:
                data, source = await self._fetched(url)
            elif isinstance(declared, str):
                where = f"the document {declared!r}"
                data = await asyncio.to_thread(_read, Path(declared), where)
            read = (hashlib.sha256(data).digest(), source)
            if self._last is None or self._last[0] != read:
                document = (
                    await asyncio.to_thread(parse_document, data, where, source)
                    if isinstance(declared, str)
                    else document_of(declared)
                )
                self._offers = await asyncio.to_thread(offers_of, self.api, document)
                self._names = names_in(document)
                self._last = (read, document)
            return self._last[1]
        except DefinitionError as error:
            raise DefinitionError(f"{self.api.label}: {error.message}", hint=error.hint) from None

    async def _fetched(self, url: str) -> tuple[bytes, str]:
        """Fetch the document at a URL without credentials, and return it with its final URL."""
        accept = {"accept": "application/json, application/yaml;q=0.9, */*;q=0.1"}
        async with self._sent(ApiRequest("GET", url, accept)) as response:
            status = response.status
            if status != 200:
                message = f"The document of the {self.api.label} cannot be fetched: its server answered {status}."
                if status == 429 or status >= 500:
                    raise TransientError(message, code="unreachable")
                raise ToolError(message, code="no_document", status=502)
            read = await response.read(MAX_DOCUMENT_BYTES + 1)
            return read.data, response.url

    @asynccontextmanager
    async def _sent(self, request: ApiRequest) -> AsyncGenerator[HttpResponse]:
        """Send a request, following redirects of safe methods within its origin. Raises ``ToolError`` for others."""
        api, url, http = self.api, request.url, await self._http()
        for _ in range(_REDIRECTS + 1):
            opened = http.open(
                request.method,
                url,
                timeout=api.timeout,
                headers=request.headers,
                content=request.content,
                redirects=None,
            )
            try:
                async with opened as response:
                    location = response.location if response.status in REDIRECT_STATUSES else None
                    if location is None:
                        yield response
                        return
                    current_url = parse_url(url)
                    target_url = current_url.join(location)
                    if request.method not in _SAFE or target_url.origin != current_url.origin:
                        raise ToolError(
                            f"The {api.label} answered {response.status}, a redirect to "
                            f"{target_url.scheme}://{target_url.authority}, which is not followed.",
                            code="redirected",
                            status=502,
                        )
            except ToolError as error:
                at = parse_url(url)
                raise add_internal_hint(error, at.host, at.port) from None
            url = str(target_url)
        raise ToolError(f"There were more than {_REDIRECTS} redirects.", code="too_many_redirects", status=502)


def _read(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise DefinitionError(f"{where} cannot be read: {error.strerror}") from None


async def answer_of(label: str, method: str, response: HttpResponse, limit: int, secrets: Iterable[str]) -> Any:  # JSON
    """Return the result of a call: a JSON value, a text, or ``None`` for an empty body. Secrets in it are masked.

    For ``HEAD`` it has ``status`` and ``headers``; for a body that is neither JSON nor text, ``media_type`` and
    ``bytes``; for a body that is declared as JSON but invalid, ``text`` and a ``note``.

    Raises ``ToolError`` for a status of 300 or more (``http_404``), with the beginning of the body, and
    ``TransientError`` if a retry may succeed. A body that is too large or cannot be decoded is an error of methods that
    only read (``too_large``, ``bad_encoding``). For other methods, whose effect has happened, it becomes a ``note``.
    """
    hidden = maskable(secrets)
    if response.status >= 300:
        raise await _error(label, response, hidden)
    if method == "HEAD":
        headers = {name: mask_text(value, hidden) for name, value in response.headers if name != "set-cookie"}
        return {"status": response.status, "headers": headers}
    content_type = response.header("content-type") or ""
    media = media_type_of(content_type)
    length = response.header("content-length") or ""
    try:
        read = await response.read(limit)
    except TransientError:
        raise
    except ToolError as error:
        if method in _SAFE:
            raise
        return {"note": f"The {label} did it, and its answer cannot be read: {error.message}"}
    if media and not is_json(media) and not is_text(media):
        size = len(read.data) if read.truncated_by is None else int(length) if length.isdigit() else None
        return {"media_type": media, "bytes": size} if read.data else None
    if read.truncated_by is not None:
        large = f"The response of the {label} has more than {limit:,} bytes"
        if method in _SAFE:
            raise ToolError(f"{large}.", code="too_large", status=502)
        text = mask_text(_text(read.data, content_type, is_cut=True), hidden)
        return {"note": f"{large}; this is its beginning.", "text": text[: min(_EXCERPT, len(text) // 2)]}
    if not read.data:
        return None
    if is_json(media):
        return await _value(label, read.data, content_type, hidden)
    if not media and b"\0" in read.data:
        return {"media_type": None, "bytes": len(read.data)}
    return mask_text(_text(read.data, content_type), hidden)


async def _value(label: str, data: bytes, content_type: str, hidden: list[str]) -> Any:  # JSON
    def parsed() -> Any:
        text = _text(data, content_type)
        try:
            return mask_value(parse_json(text), hidden)
        except SchemaMismatch as error:
            note = f"The {label} says that this is JSON, but it is not: {error}."
            return {"note": mask_text(note, hidden), "text": mask_text(text, hidden)}

    return await asyncio.to_thread(parsed) if len(data) > _THREAD_FROM else parsed()


async def _error(label: str, response: HttpResponse, hidden: list[str]) -> ToolError:
    """Return the error for a status, with the beginning of the body."""
    content_type = response.header("content-type") or ""
    media = media_type_of(content_type)
    excerpt = ""
    if not media or is_json(media) or is_text(media):
        read = await response.read(_ERROR_BYTES)
        text = mask_text(_text(read.data, content_type, is_cut=read.truncated_by is not None), hidden).strip()
        excerpt = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
    elif response.header("content-length") != "0":
        excerpt = f"a body {describe_media_type(media)}"
    status = response.status if 400 <= response.status <= 599 else 502
    answered = f"The {label} answered {response.status} {_PHRASES.get(response.status, '')}".rstrip()
    message = f"{answered}: {excerpt}" if excerpt else f"{answered}."
    code = f"http_{response.status}"
    if status not in _TRANSIENT:
        return ToolError(message, code=code, status=status)
    error = TransientError(message, code=code, status=status)
    error.retry_after = seconds_until(response.header("retry-after") or "", response.header("date") or "")
    return error


def seconds_until(wait: str, now: str) -> float | None:
    """Return the seconds to wait by ``Retry-After``: a number of seconds, or a date (RFC 9110, section 10.2.3).

    ``now`` is the server's own date, if it sent one: clocks differ.
    """
    if wait.isascii() and wait.isdigit() and len(wait) < 8:
        return float(wait)
    until = _date(wait)
    return None if until is None else max(0.0, (until - (_date(now) or datetime.now(UTC))).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _text(data: bytes, content_type: str, *, is_cut: bool = False) -> str:
    return decode(bytearray(data), codec_of(content_type, data[:4]) or UTF_8, is_cut=is_cut)

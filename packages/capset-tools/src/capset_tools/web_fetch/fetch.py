"""The helper that fetches URLs, and file names from ``Content-Disposition`` (RFC 6266, RFC 8187) or the URL."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from capset import Context, ToolError
from capset.ext import (
    HttpClient,
    HttpResponse,
    TransientError,
    codec_named,
    describe_media_type,
    in_thread,
    install_command,
    media_type_of,
    slot,
)
from capset_tools.web_fetch.charsets import MARKED_UP, text_in
from capset_tools.web_fetch.conversion import CUT, markdown_of, text_of
from capset_tools.web_fetch.page import BodyReading, Format, WebPage, read_body, suffix_of

MAX_BYTES: Final = 255
"""Maximum bytes of a file name in UTF-8, as on most file systems."""
_PARAMETER: Final = re.compile(r';\s*([^\s;="]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;]*))', re.DOTALL)
_EXTENDED: Final = re.compile(r"([^']{1,40})'[^']*'(.*)", re.DOTALL)
_FILE: Final = re.compile(r".*[^.]\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{1,10}", re.DOTALL)
# Control characters and invisible ones, which can make a name look like another; surrogates; line separators.
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))

_WIDE: Final = re.compile(rb"[\xf0-\xf4]")
_MOST_WIDE: Final = 6_000_000
"""Maximum bytes of HTML to convert if one wide character quadruples the memory of the text."""


def filename_of(disposition: str, url: str) -> str | None:
    """Return the name in the header, ``filename*`` first, else the URL's last segment if it looks like a file name.

    It is a single segment of a path, without control characters, and has at most 255 bytes.
    """
    return _name_in_header(disposition) or _of_path(urlsplit(url).path)


def _name_in_header(disposition: str) -> str | None:
    parameters: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(disposition):
        parameters.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted else bare.strip())
    extended = _extended(parameters.get("filename*", ""))
    return (extended and _segment(extended)) or _segment(_plain(parameters.get("filename", "")))


def _extended(value: str) -> str | None:
    match = _EXTENDED.fullmatch(value)
    codec = codec_named(match[1]) if match else None
    if match is None or codec is None:
        return None
    try:
        return unquote_to_bytes(match[2]).decode(codec)
    except UnicodeError:
        return None


def _plain(value: str) -> str:
    """Decode raw UTF-8, which many servers send although a header should be ASCII."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _of_path(path: str) -> str | None:
    name = _segment(unquote(path.rpartition("/")[2]))
    return name if name and _FILE.fullmatch(name) else None


def _segment(name: str) -> str | None:
    visible = "".join(character for character in name if unicodedata.category(character) not in _INVISIBLE)
    last = re.split(r"[/\\]", visible.strip())[-1].strip()
    short = last.encode()[:MAX_BYTES].decode(errors="ignore").strip()
    return short if short.strip(". ") else None


Method = Literal["GET", "HEAD"]
_CONVERTED_AT_ONCE: Final = 4
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_SHOWN: Final = re.compile(r"[\x20-\x7e]{1,255}")
"""Header values that are passed on. Useful ones are no longer, and contain no other characters."""


class WebFetch:
    """Fetches URLs, for use by the code of other capabilities: ``ctx.use(web_fetch)``.

    Args:
        ctx: the context of the call; conversions run in its threads.
        client: the HTTP client.
        max_bytes: maximum bytes read of a body.
        redirects: maximum number of redirects.
        first_byte: seconds within which the response of each hop must begin.
        body: seconds within which the body must be complete.
    """

    def __init__(
        self, ctx: Context, client: HttpClient, *, max_bytes: int, redirects: int, first_byte: float, body: float
    ) -> None:
        self._ctx = ctx
        self._client = client
        self._max_bytes = max_bytes
        self._redirects = redirects
        self.first_byte = first_byte
        """Seconds within which the response of each hop must begin."""
        self.body = body
        """Seconds within which the body must be complete."""

    async def fetch(
        self, url: str, *, method: Method = "GET", as_markdown: bool = False, as_text: bool = False
    ) -> WebPage:
        """Request a URL and return the page, like the tool ``web_fetch``. Raises the errors of ``fetch_with_url``."""
        page, _ = await self.fetch_with_url(url, method=method, as_markdown=as_markdown, as_text=as_text)
        return page

    async def fetch_with_url(
        self, url: str, *, method: Method = "GET", as_markdown: bool = False, as_text: bool = False
    ) -> tuple[WebPage, str]:
        """Request a URL, and return the page and the final URL after all redirects.

        Raises ``ToolError``: ``url_refused``, ``address_refused``, ``unknown_host``, ``tls_failed``,
        ``too_many_redirects``, ``headers_too_long``, ``too_many_interim``, ``bad_encoding``, ``not_installed``;
        ``TransientError`` for ``timeout`` and ``unreachable``.
        """
        if find_spec("html_to_markdown") is None:  # another extra may have installed what HTTP needs
            raise ToolError(
                "web_fetch needs the extra 'web' of capset, which is not installed.",
                code="not_installed",
                status=501,
                hint=install_command("web"),
            )
        reading: BodyReading | None = None
        try:
            async with self._client.open(
                method, url, timeout=None, hop_timeout=self.first_byte, redirects=self._redirects
            ) as response:
                content_type = response.header("content-type") or ""
                media_type = media_type_of(content_type)
                if method == "GET":
                    reading = await read_body(response, media_type, limit=self._max_bytes, seconds=self.body)
        except TransientError as error:
            if error.code != "timeout":
                raise
            raise _no_answer(self.first_byte) from None
        page = _about(url, response)
        if reading is None:
            return page, response.url
        if reading.kind == "binary":
            page["error"] = (
                f"Binary content is not supported: this is {describe_media_type(media_type)}, "
                "and only text can be fetched."
            )
            if page["size"] is None and reading.is_whole:
                page["size"] = len(reading.data)
            return page, response.url
        page["size"] = len(reading.data)
        target_format = "markdown" if as_markdown else "text" if as_text else "raw"
        ending = suffix_of(reading.cut, self._max_bytes)
        # A conversion takes several times the memory of its page, and a CPU.
        async with slot(self._ctx, "web_fetch", at_once=_CONVERTED_AT_ONCE):
            rendered_text = await in_thread(
                self._ctx, lambda: rendered(reading, content_type, media_type, response.url, target_format, ending)
            )
        page["content"], page["format"], page["truncated"] = (
            rendered_text.text,
            rendered_text.format,
            rendered_text.is_cut,
        )
        return page, response.url


def _about(url: str, response: HttpResponse) -> WebPage:
    length = (response.header("content-length") or "").strip()
    page = WebPage(
        url=url,
        status_code=response.status,
        content_type=_safe_header(response.header("content-type")),
        size=int(length) if _LENGTH.fullmatch(length) else None,
        format="raw",
        truncated=False,
    )
    if (modified := _safe_header(response.header("last-modified"))) is not None:
        page["last_modified"] = modified
    if (filename := filename_of(response.header("content-disposition") or "", response.url)) is not None:
        page["filename"] = filename
    return page


def _safe_header(value: str | None) -> str | None:
    return value if value is not None and _SHOWN.fullmatch(value) else None


def _no_answer(seconds: float) -> TransientError:
    unit = "second" if seconds == 1 else "seconds"
    return TransientError(f"server did not respond within {seconds:g} {unit}", code="timeout", status=504)


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A text, its format, and whether it is only the beginning of one."""

    text: str
    format: Format
    is_cut: bool


def rendered(
    reading: BodyReading, content_type: str, media_type: str, base: str, wanted: Format, ending: str
) -> RenderedText:
    """Decode a body, and convert it to the wanted format if it is HTML. Consumes the bytes of ``reading``.

    Args:
        reading: the body, which is not binary.
        content_type: the header's value.
        media_type: the type in it.
        base: the final URL, after redirects, for making links absolute.
        wanted: the target format for HTML.
        ending: ASCII to append to a truncated text.
    """
    is_marked_up = reading.kind == "html" or MARKED_UP.fullmatch(media_type) is not None
    converts = reading.kind == "html" and wanted != "raw"
    is_too_wide = converts and len(reading.data) > _MOST_WIDE and _WIDE.search(reading.data) is not None
    if is_too_wide:
        del reading.data[_MOST_WIDE:]
    text = text_in(
        reading.data,
        content_type,
        is_marked_up=is_marked_up,
        is_cut=is_too_wide or reading.cut is not None,
        ending="" if converts else ending,
    )
    if not converts:
        return RenderedText(text, "raw", bool(ending))
    text = markdown_of(text, base) if wanted == "markdown" else text_of(text, base)
    if is_too_wide and not text.endswith(CUT):
        text += CUT
    return RenderedText(text + ending, wanted, bool(ending) or text.endswith(CUT))

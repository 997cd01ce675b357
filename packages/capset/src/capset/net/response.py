"""Responses, whose bodies are read up to a limit (spec 4, G29; spec 5, P26, P27)."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, Protocol

from capset.errors import ToolError, TransientError
from capset.net.urls import Url

if TYPE_CHECKING:
    import httpcore2


CHUNK_BYTES: Final = 65_536
"""The approximate maximum size of one piece, in bytes."""
_ZSTD: Final = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


@dataclass(frozen=True, slots=True)
class Body:
    """The bytes read. ``truncated_by`` is the limit that truncated them, if any: size or time."""

    data: bytes
    truncated_by: Literal["size", "time"] | None = None


class HttpResponse:
    """A response whose headers have arrived. ``url`` is the URL after all redirects; header names are lower-case."""

    def __init__(self, url: Url, response: httpcore2.Response) -> None:
        self.url = str(url)
        self.host = url.host
        self.status = response.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers
        )
        self._response = response

    def header(self, name: str) -> str | None:
        """Return a header's value (several are joined by commas), or ``None`` if it is absent."""
        values = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(values) if values else None

    @property
    def location(self) -> str | None:
        """The target of a redirect. Some servers send it as raw UTF-8, though they should not."""
        target = next((value for key, value in self.headers if key == "location"), None)
        return target and target.encode("latin-1").decode(errors="replace")

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the decoded body, in pieces of about 64 KiB at most, as it arrives. Can be read once.

        Raises ``ToolError`` (``bad_encoding``) if the encoding is unknown or broken, ``TransientError``
        (``unreachable``) if the connection breaks.
        """
        from capset.net.connections import convert_failures

        decoder = decoder_for(self.header("content-encoding") or "")
        with convert_failures(self.host):
            async with aclosing(self._response.aiter_stream()) as stream:
                async for data in stream:
                    for piece in decoder.decode(data):
                        yield piece
        if not decoder.is_complete:
            raise TransientError("The response broke off.", code="unreachable")

    async def read(self, limit: int, *, seconds: float | None = None) -> Body:
        """Return at most ``limit`` bytes of the decoded body, and only what arrives within ``seconds``.

        Raises the errors of ``chunks``; a truncated body is not an error.
        """
        data, scope = bytearray(), asyncio.timeout(seconds)
        try:
            async with scope, aclosing(self.chunks()) as chunks:
                async for piece in chunks:
                    data += piece
                    if len(data) > limit:
                        return Body(bytes(data[:limit]), "size")
        except TimeoutError:
            if not scope.expired():
                raise
            return Body(bytes(data), "time")
        return Body(bytes(data))


class Decoder(Protocol):
    """A decoder for one content coding."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the output, lazily and in pieces; consume all of it before the next call."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the stream may end here."""
        ...


@cache
def accepted_codings() -> str:
    """Return the supported content codings, as a value of ``Accept-Encoding``."""
    optional = {"br": find_spec("brotli"), "zstd": find_spec(_ZSTD.partition(".")[0]) and find_spec(_ZSTD)}
    return ", ".join(["gzip", "deflate", *(name for name, spec in optional.items() if spec)])


def decoder_for(coding: str) -> Decoder:
    """Return the decoder for the value of a ``Content-Encoding``.

    Raises ``ToolError`` (``bad_encoding``) if the coding is unknown or not installed, or if there are several: each
    layer would multiply the work that a small response causes.
    """
    name = coding.strip().lower()
    if name in ("", "identity"):
        return _Identity()
    if name not in ("x-gzip", *accepted_codings().split(", ")):
        raise ToolError(f"The response is encoded as {name[:64]!r}, which is not supported.", code="bad_encoding")
    return _DECODERS[name]()


class _Identity:
    is_complete = True

    def decode(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Zlib:
    """gzip with one or more members, and deflate with or without its header."""

    def __init__(self, *bits: int) -> None:
        self._bits = list(bits)
        self._inner = zlib.decompressobj(self._bits[0])
        self._repeats = len(bits) == 1
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data or not self._inner.eof:
            if self._inner.eof:  # another member follows, or zeros as padding
                if not self._repeats or not (data := data.lstrip(b"\0")):
                    return
                self._inner = zlib.decompressobj(self._bits[0])
            piece = self._decompress(data)
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
            self._is_started = True
            if piece:
                yield piece
            elif not data:
                return

    def _decompress(self, data: bytes) -> bytes:
        try:
            return self._inner.decompress(data, CHUNK_BYTES)
        except zlib.error:
            if self._is_started or len(self._bits) == 1:
                raise _decoding_error() from None
            self._inner = zlib.decompressobj(self._bits[1])  # many servers omit the header of deflate
            self._bits = self._bits[1:]
            return self._decompress(data)

    @property
    def is_complete(self) -> bool:
        return self._inner.eof or not self._is_started


class _BrotliStream(Protocol):
    def process(self, data: bytes, *, output_buffer_limit: int) -> bytes: ...
    def is_finished(self) -> bool: ...


class _Brotli:
    def __init__(self) -> None:
        brotli = import_module("brotli")  # has no type annotations
        self._inner: _BrotliStream = brotli.Decompressor()
        self._error: type[Exception] = brotli.error
        self._is_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        try:
            while not self._inner.is_finished():
                self._is_started = True
                piece = self._inner.process(data, output_buffer_limit=CHUNK_BYTES)
                data = b""
                if not piece:
                    return
                yield piece
        except self._error:
            raise _decoding_error() from None

    @property
    def is_complete(self) -> bool:
        return self._inner.is_finished() or not self._is_started


class _Zstd:
    """One or more zstd frames."""

    def __init__(self) -> None:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd

        window_bits = 23  # 8 MB, the largest window in HTTP (RFC 9659)
        self._new = lambda: zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_bits})
        self._inner = self._new()
        self._error = zstd.ZstdError
        self._is_started = False
        # At most 1,000 frames, plus one for each KiB in them: starting a frame takes time, so endless empty ones would
        # keep the decoder busy. Counted in bytes.
        self._frame_credit = 1_000 * 1_024

    def decode(self, data: bytes) -> Iterator[bytes]:
        try:
            while data or not (self._inner.needs_input or self._inner.eof):
                if self._inner.eof:
                    self._frame_credit -= 1_024
                    if self._frame_credit < 0:
                        raise _decoding_error()
                    self._inner = self._new()
                self._is_started = True
                piece = self._inner.decompress(data, CHUNK_BYTES)
                data = self._inner.unused_data if self._inner.eof else b""
                if piece:
                    self._frame_credit += len(piece)
                    yield piece
                elif not data:
                    return
        except self._error:
            raise _decoding_error() from None

    @property
    def is_complete(self) -> bool:
        return self._inner.eof or not self._is_started


_DECODERS: Final[dict[str, Callable[[], Decoder]]] = {
    "gzip": lambda: _Zlib(zlib.MAX_WBITS | 16),
    "x-gzip": lambda: _Zlib(zlib.MAX_WBITS | 16),
    "deflate": lambda: _Zlib(zlib.MAX_WBITS, -zlib.MAX_WBITS),
    "br": _Brotli,
    "zstd": _Zstd,
}


def _decoding_error() -> ToolError:
    return ToolError("The response is not encoded as it says.", code="bad_encoding")

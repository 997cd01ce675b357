"""Codings are undone in pieces, and what is not coded as it says is told."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import ToolError
from capset.net.response import CHUNK_BYTES, accepted_codings, decoder_for

brotli = import_module("brotli")
zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


CODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": (" X-GZIP ", gzip.compress),
    "members": ("gzip", lambda data: gzip.compress(data[:3]) + gzip.compress(data[3:]) + b"\0\0"),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstd.compress),
    "frames": ("zstd", lambda data: zstd.compress(data[:3]) + zstd.compress(data[3:])),
    "identity": ("identity", bytes),
    "nothing": ("", bytes),
}


def decoded(coding: str, chunks: list[bytes]) -> bytes:
    decoder = decoder_for(coding)
    content = b"".join(piece for chunk in chunks for piece in decoder.decode(chunk))
    assert decoder.is_complete
    return content


@pytest.mark.parametrize("kind", CODED)
@given(data=st.binary(max_size=2_000), size=st.integers(2, 700))
def test_what_was_coded_comes_back_however_it_is_cut(kind: str, data: bytes, size: int) -> None:
    coding, code = CODED[kind]
    coded = code(data)
    assert decoded(coding, [coded[at : at + size] for at in range(0, len(coded), size)]) == data


@pytest.mark.parametrize("kind", CODED)
def test_large_data_and_none_at_all_come_back_whole(kind: str) -> None:
    coding, code = CODED[kind]
    data = bytes(range(256)) * 4_000
    assert decoded(coding, [code(data)]) == data
    assert decoded(coding, []) == b""


@pytest.mark.nightly
@pytest.mark.spec("G29")
@pytest.mark.parametrize("kind", ["gzip", "members", "deflate", "raw deflate", "br", "zstd"])
def test_a_bomb_comes_in_pieces(kind: str) -> None:
    coding, code = CODED[kind]
    coded = code(bytes(30_000_000))
    assert len(coded) < 60_000
    pieces = decoder_for(coding).decode(coded)
    assert sum(len(next(pieces)) for _ in range(3)) <= 6 * CHUNK_BYTES


@pytest.mark.parametrize("kind", ["gzip", "deflate", "br", "zstd"])
def test_what_is_broken_is_told(kind: str) -> None:
    coding, code = CODED[kind]
    with pytest.raises(ToolError, match="not encoded as it says"):
        decoded(coding, [b"this is no such thing at all"])
    decoder = decoder_for(coding)
    list(decoder.decode(code(b"hello" * 100)[:-6]))
    assert not decoder.is_complete


def test_a_window_of_zstd_that_is_too_large_is_refused() -> None:
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.enable_long_distance_matching: 1}
    compressor = zstd.ZstdCompressor(options=options)
    with pytest.raises(ToolError, match="not encoded as it says"):
        decoded("zstd", [compressor.compress(bytes(1000)) + compressor.flush()])


@pytest.mark.spec("P27")
@pytest.mark.parametrize("frame", [zstd.compress(b""), b"\x50\x2a\x4d\x18\0\0\0\0"], ids=["empty", "skippable"])
def test_frames_of_zstd_without_end_are_refused(frame: bytes) -> None:
    with pytest.raises(ToolError, match="not encoded as it says"):
        decoded("zstd", [frame * 5_000])
    assert len(decoded("zstd", [zstd.compress(b"x" * 2_000) * 5_000])) == 10_000_000


@pytest.mark.parametrize("coding", ["gzip, gzip", "compress", "br, gzip", "x" * 200])
def test_other_codings_and_layers_are_refused(coding: str) -> None:
    with pytest.raises(ToolError, match="is not supported") as refused:
        decoder_for(coding)
    assert len(refused.value.message) < 200


def test_all_that_can_be_undone_is_asked_for() -> None:
    assert accepted_codings() == "gzip, deflate, br, zstd"

"""What a Content-Type says, in the many ways that servers say it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.net.media import all_codecs, codec_named, codec_of, decode, is_text, media_type_of


@pytest.mark.spec("P27")
@pytest.mark.parametrize(
    ("content_type", "codec"),
    [
        ("text/html; charset=utf-8", "utf-8-sig"),
        ('text/html;charset="UTF8"', "utf-8-sig"),
        ("text/html; a=b; Charset = 'ISO-8859-1'", "cp1252"),
        ("text/html; charset=us-ascii", "cp1252"),
        ("text/html; charset=GB2312", "gb18030"),
        ("text/html; charset=windows-1251", "cp1251"),
        ("text/html; charset=ISO_8859-15", "iso8859-15"),
        ("text/html; charset=Shift_JIS; x=y", "cp932"),
        *((f"text/html; charset={name}", None) for name in ("utf-7", "unicode_escape", "rot13", "")),
        *((content_type, None) for content_type in ("text/html; charset", "text/html", "")),
    ],
)
def test_the_charset_is_known_by_its_names_on_the_web(content_type: str, codec: str | None) -> None:
    assert codec_of(content_type) == codec


@given(st.text(max_size=60) | st.builds("text/html; charset={}".format, st.text(max_size=60)))
def test_nothing_that_is_said_fails(content_type: str) -> None:
    assert codec_of(content_type) in (None, *all_codecs())
    assert codec_named(content_type) in (None, *all_codecs())
    media_type = media_type_of(content_type)
    assert media_type == "" or media_type.count("/") == 1
    is_text(media_type)


def test_every_codec_is_one_of_texts() -> None:
    for name in all_codecs():
        assert codecs.lookup(name)._is_text_encoding


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        *((name, True) for name in ("text/x-rust", "application/ld+json", "image/svg+xml", "application/x-sh")),
        *((name, True) for name in ("application/xml", "application/x-ndjson", "application/vnd.search+x-ndjson")),
        *((name, True) for name in ("application/jsonl", "application/json-seq")),
        *((name, False) for name in ("image/png", "application/octet-stream", "text", "", "a/b/c", "application/pdf")),
    ],
)
def test_some_media_types_are_texts(content_type: str, expected: bool) -> None:
    assert is_text(media_type_of(content_type.upper() + " ; q=1")) is expected


@pytest.mark.spec("P27")
@given(st.sampled_from(all_codecs()), st.binary(max_size=300), st.integers(0, 70_000), st.booleans())
def test_piece_by_piece_is_as_in_one(codec: str, data: bytes, before: int, is_cut: bool) -> None:
    mark = b"\xff\xfe\0\0" if codec in ("utf-16", "utf-32") else b""  # without which these two are not asked for
    content = mark + b"  " * (before // 2 * 2) + data
    taken = bytearray(content)
    decoder = codecs.getincrementaldecoder(codec)("replace")
    assert decode(taken, codec, is_cut=is_cut) == decoder.decode(content, final=not is_cut)
    assert not taken

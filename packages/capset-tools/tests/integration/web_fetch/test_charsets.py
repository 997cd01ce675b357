"""Bytes to text: what says the charset, in which order, and what is made of bytes that say nothing or lie."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capset.ext import all_codecs
from capset_tools.web_fetch.charsets import said_inside, text_in
from capset_tools.web_fetch.conversion import markdown_of, text_of
from tests.helpers.net.support import answer
from tests.helpers.tools.web_fetch.support import site


def read(data: bytes, content_type: str = "", *, is_cut: bool = False, ending: str = "") -> str:
    return text_in(bytearray(data), content_type, is_marked_up=True, is_cut=is_cut, ending=ending)


GREETING = "Grüße – 世界"


@pytest.mark.spec("P27")
@pytest.mark.parametrize("content_type", ["", "text/html; charset=iso-8859-1"])
@pytest.mark.parametrize("meta", ["", '<meta charset="windows-1251">'])
@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_comes_first(codec: str, content_type: str, meta: str) -> None:
    assert read((meta + GREETING).encode(codec), content_type) == meta + GREETING


@pytest.mark.spec("P27")
def test_big_endian_utf16_has_a_mark_too() -> None:
    assert read(b"\xfe\xff" + GREETING.encode("utf-16-be")) == GREETING


@pytest.mark.spec("P27")
@pytest.mark.parametrize(
    ("content_type", "codec", "text"),
    [
        ("text/html; charset=utf-8", "utf-8", GREETING),
        ("text/html; charset=ISO-8859-1", "cp1252", "Grüße – „so“ €"),
        ("text/html; charset=us-ascii", "cp1252", "Grüße"),
        ("text/html; charset=windows-1251", "cp1251", "Привет"),
        ("text/html; charset=koi8-r", "koi8-r", "Привет"),
        ("text/html; charset=Shift_JIS", "cp932", "日本①"),
        ("text/html; charset=EUC-JP", "euc_jp", "日本"),
        ("text/html; charset=iso-2022-jp", "iso2022_jp", "日本"),
        ("text/html; charset=gb2312", "gb18030", "北京鎔"),
        ("text/html; charset=big5", "big5hkscs", "臺北"),
        ("text/html; charset=euc-kr", "cp949", "서울"),
        ("text/html; charset=utf-16le", "utf-16-le", GREETING),
        ("text/html; charset=utf-16", "utf-16-le", GREETING),
    ],
)
def test_content_type_comes_before_what_the_page_says(content_type: str, codec: str, text: str) -> None:
    meta = '<meta charset="x-mac-cyrillic">'
    assert read((meta + text).encode(codec), content_type) == meta + text


PRESCANNED: list[tuple[bytes, str | None]] = [
    (b'<meta charset="windows-1251">', "cp1251"),
    (b"<html><head><META  CHARSET = 'koi8-r' />", "koi8-r"),
    (b"<meta charset=shift_jis>", "cp932"),
    (b"<meta\n/charset=shift_jis>", "cp932"),
    (b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', "cp1251"),
    (b"<meta content='text/html;charset= \"koi8-r\"' http-equiv=content-type>", "koi8-r"),
    (b'<meta name="x" content="text/html; charset=windows-1251">', None),
    (b'<meta http-equiv=refresh content="0; charset=windows-1251">', None),
    (b'<!-- <meta charset="koi8-r"> --><meta charset="big5">', "big5hkscs"),
    (b'<!-- <meta charset="koi8-r">', None),
    (b'<p title=\'<meta charset="koi8-r">\'><meta charset="big5">', "big5hkscs"),
    (b'<meta charset="nothing"><meta charset="big5">', "big5hkscs"),
    (b'<meta charset="utf-16">', "utf-8-sig"),
    (b'<meta charset="utf-32le">', "utf-8-sig"),
    (b'<metal charset="big5">', None),
    (b'<meta charset="big5', "big5hkscs"),
    (b'</meta charset="big5">', None),
    (b'<?xml version="1.0" encoding="koi8-r"?>', "koi8-r"),
    (b'<?xml version="1.0" encoding="utf-16"?>', "utf-8-sig"),
    ('<?xml version="1.0"?>'.encode("utf-16-le"), "utf-16-le"),
    ('<?xml version="1.0"?>'.encode("utf-16-be"), "utf-16-be"),
    (b"", None),
    (b"<", None),
    (b"charset=big5", None),
]


@pytest.mark.spec("P27")
@pytest.mark.parametrize(("beginning", "codec"), PRESCANNED)
def test_a_page_says_its_charset_in_its_beginning(beginning: bytes, codec: str | None) -> None:
    assert said_inside(beginning) == codec


@pytest.mark.spec("P27")
def test_only_the_first_1024_bytes_say_it_and_only_of_markup() -> None:
    declaration, text = b'<meta charset="windows-1251">', "Привет".encode("cp1251")
    assert read(b" " * 900 + declaration + text).endswith("Привет")
    assert not read(b" " * 1_024 + declaration + text).endswith("Привет")
    plain = text_in(bytearray(declaration + text), "", is_marked_up=False, is_cut=False)
    assert not plain.endswith("Привет")


@pytest.mark.spec("P27")
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/html; charset=nonsense", "text/html", ""])
@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1252", "Müller geht über die Straße"),
        ("cp1252", "café"),
        ("cp1251", "Привет, как дела сегодня?"),
        ("cp932", "日本の首都は東京です"),
    ],
)
def test_a_lie_or_nothing_about_old_charsets_is_guessed(content_type: str, codec: str, text: str) -> None:
    assert read(b"<html><body><p>" + text.encode(codec), content_type) == f"<html><body><p>{text}"


@pytest.mark.spec("P27")
def test_one_wrong_byte_does_not_make_it_another_charset() -> None:
    data = (GREETING * 3).encode() + b"\xfc" + b"end"
    assert read(data, "text/html; charset=utf-8") == GREETING * 3 + "\ufffdend"


@pytest.mark.spec("P27")
@pytest.mark.parametrize("text", ["", "plain", GREETING, "😀"])
def test_what_says_nothing_is_utf8_if_it_can_be(text: str) -> None:
    assert read(text.encode()) == text


@pytest.mark.spec("P27")
@pytest.mark.parametrize(
    ("charset", "content_type"),
    [
        ("utf-8", ""),
        ("utf-16", ""),
        *(
            (name, f"text/html; charset={name}")
            for name in ("utf-8", "utf-16", "shift_jis", "gb18030", "euc-jp", "big5")
        ),
    ],
)
def test_a_cut_through_a_letter_leaves_no_trace(charset: str, content_type: str) -> None:
    letters = "文字文字文字"
    data = letters.encode(charset)
    for end in range(2, len(data) + 1):
        text = read(data[:end], content_type, is_cut=True, ending="[..]")
        assert text.endswith("[..]")
        assert letters.startswith(text[:-4])


@pytest.mark.spec("P27")
@given(
    data=st.binary(max_size=300),
    content_type=st.sampled_from(["", *(f"text/html; charset={codec}" for codec in all_codecs())])
    | st.text(max_size=40),
    is_cut=st.booleans(),
    ending=st.sampled_from(["", "[..]"]),
)
@example(data=b"\xff\xfe\x00\xd8", content_type="", is_cut=False, ending="")
@example(data=b"<meta charset=" + b"<" * 900, content_type="", is_cut=True, ending="")
@example(data=b"\x1b$B", content_type="text/html; charset=iso-2022-jp", is_cut=True, ending="[..]")
def test_any_bytes_are_text_that_can_be_written(data: bytes, content_type: str, is_cut: bool, ending: str) -> None:
    text = read(data, content_type, is_cut=is_cut, ending=ending)
    assert text.endswith(ending)
    text.encode()  # no lone surrogates
    assert not any(unicodedata.category(letter) == "Cc" and letter not in "\t\n\r" for letter in text)


@pytest.mark.spec("P27")
@given(
    st.lists(
        st.sampled_from([b"<meta ", b"charset", b"=", b"'", b'"', b"<!--", b"-->", b"<p ", b">", b"/", b" ", b"x"])
    )
)
def test_any_markup_is_looked_through(parts: list[bytes]) -> None:
    assert said_inside(b"".join(parts)) is None


CONTROLS = "".join(chr(code) for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r")


@pytest.mark.spec("P27")
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-2", "iso-8859-5", "utf-16", "utf-16-be", "gb18030"])
@pytest.mark.parametrize("content_type", ["", "text/html; charset={}"])
def test_no_control_characters_are_left_but_tabs_and_line_ends(charset: str, content_type: str) -> None:
    if not content_type and charset not in ("utf-8", "utf-16"):
        content_type = "text/html; charset={}"  # what nothing says is a guess
    text = "".join(f"a{control}b\t\r\n" for control in CONTROLS)
    assert read(text.encode(charset), content_type.format(charset)) == "ab\t\r\n" * len(CONTROLS)


@pytest.mark.spec("P27")
@pytest.mark.parametrize("charset", ["windows-1252", "iso-8859-1", ""])
def test_letters_where_other_charsets_have_controls_stay(charset: str) -> None:
    content_type = f"text/html; charset={charset}" if charset else ""
    assert read(b"\x93It\x92s \x80 5\x94 \x96 \xfc", content_type) == "“It’s € 5” – ü"


@pytest.mark.spec("P27")
@pytest.mark.parametrize(
    "data", [b"\xc2\0\x80", b"\xc2\xc2\x80\x80", b"\xc2" * 9 + b"\x9b" * 9, b"\xe2\x82\xc2\x80\xac"]
)
def test_what_controls_stood_between_does_not_become_another(data: bytes) -> None:
    text = read("ü".encode() * 20 + data, "text/html; charset=utf-8")
    assert set(text) == {"ü", "\ufffd"}


@pytest.mark.spec("P27", "P28")
def test_no_control_characters_come_out_of_entities() -> None:
    html = "<p>a&#129;b&#x8d;c&#12;</p><pre>&#x9d;d\n\te</pre>"
    assert markdown_of(html, "http://a.example/") == "abc\n\n```\nd\n\te\n```"
    assert text_of(html, "http://a.example/").split() == ["abc", "d", "e"]


@pytest.mark.spec("P27")
async def test_a_page_in_an_old_charset_is_converted() -> None:
    page = '<meta charset="windows-1251"><h1>Привет</h1>'.encode("cp1251")
    async with site(answer(body=page, content_type="text/html")) as it:
        fetched = await it.answered(as_markdown=True)
    assert (fetched["content"], fetched["size"]) == ("# Привет", len(page))

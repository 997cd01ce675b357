"""What a file would be called, whatever servers write."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.web_fetch.fetch import MAX_BYTES, filename_of

URL = "https://example.com/"


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="report.pdf"', "report.pdf"),
        ("attachment; filename=report.pdf", "report.pdf"),
        ("ATTACHMENT ;FILENAME = report.pdf ; x=y", "report.pdf"),
        ("inline; filename=report.pdf", "report.pdf"),
        ('attachment; filename="a \\"b\\" c.txt"', 'a "b" c.txt'),
        ('attachment; filename="a;b.txt"', "a;b.txt"),
        ("attachment; filename=two words.txt", "two words.txt"),
        ('attachment; filename="never closed.txt', "never closed.txt"),
        # RFC 5987 and 8187
        ("attachment; filename*=UTF-8''na%C3%AFve%20file.txt", "naïve file.txt"),
        ("attachment; filename*=utf-8'de'%E2%82%AC.txt; filename=euro.txt", "€.txt"),
        ("attachment; filename=euro.txt; filename*=utf-8'de'%E2%82%AC.txt", "€.txt"),
        ("attachment; filename*=iso-8859-1'en'%A3.txt", "£.txt"),
        ("attachment; filename=plain.txt; filename*=nonsense''x.txt", "plain.txt"),
        ("attachment; filename=plain.txt; filename*=UTF-8''%FF.txt", "plain.txt"),
        ("attachment; filename=plain.txt; filename*=x.txt", "plain.txt"),
        ("attachment; filename*0=a; filename=plain.txt", "plain.txt"),
        # What should not be there, and is
        ("attachment; filename=grüße.txt".encode().decode("latin-1"), "grüße.txt"),
        ("attachment; filename=gr\xfc\xdfe.txt", "grüße.txt"),
        ("attachment; filename=one.txt; filename=two.txt", "one.txt"),
        ("attachment; filename=../../etc/passwd", "passwd"),
        ('attachment; filename="C:\\\\Windows\\\\system.ini"', "system.ini"),
        ("attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
        ("attachment; filename*=UTF-8''a%00b%0D%0Ac.txt", "abc.txt"),
        ("attachment; filename*=UTF-8''exe.%E2%80%AEtxt", "exe.txt"),
        ("attachment; filename=..", None),
        ("attachment; filename=a/", None),
        ('attachment; filename=""', None),
        ("attachment; filename", None),
        ("attachment", None),
        ("", None),
    ],
)
def test_the_header_says_it(disposition: str, name: str | None) -> None:
    assert filename_of(disposition, URL) == name


@pytest.mark.spec("P26")
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/report.pdf", "report.pdf"),
        ("a/report.tar.gz?download=1.zip", "report.tar.gz"),
        ("gr%C3%BC%C3%9Fe.txt", "grüße.txt"),
        ("a%2Fb.txt", "b.txt"),
        ("a/b.7z", "b.7z"),
        ("a/", None),
        ("a.d/", None),
        ("", None),
        ("page", None),
        ("v1.2", None),
        (".hidden", None),
        ("..", None),
        ("a.verylongextension", None),
        ("a.b c", None),
    ],
)
def test_the_url_says_it_where_it_looks_like_one(path: str, name: str | None) -> None:
    assert filename_of("", URL + path) == name
    assert filename_of("attachment; filename=said.txt", URL + path) == "said.txt"


def is_safe(name: str) -> bool:
    hidden = any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in name)
    return not hidden and not set("/\\") & set(name) and 0 < len(name.encode()) <= MAX_BYTES and name.strip(" .") != ""


ANY = st.text(max_size=400) | st.text(alphabet="ab./\\\"';=*%20\x00\r\nü ", max_size=60)


@pytest.mark.spec("P26")
@given(
    disposition=ANY | st.builds("attachment; filename{}{}".format, st.sampled_from(["=", "*=UTF-8''", '="']), ANY),
    path=ANY,
)
def test_no_header_and_no_url_makes_a_name_that_does_harm(disposition: str, path: str) -> None:
    name = filename_of(disposition, URL + quote(path, safe="/%"))
    assert name is None or is_safe(name)


@pytest.mark.spec("P26")
@given(st.text(max_size=60).filter(lambda name: is_safe(name) and name == name.strip()))
def test_every_name_that_does_no_harm_comes_through(name: str) -> None:
    assert filename_of(f"attachment; filename*=UTF-8''{quote(name, safe='')}", URL) == name

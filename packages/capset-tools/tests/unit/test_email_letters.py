"""How an email is written: the headers that are meant, and what was given is what is read (spec 4, G32)."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.email.messages import MAX_SUBJECT, checked_body, checked_subject, letter
from tests.examples import examples

LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=MAX_SUBJECT)
SPACED = st.lists(st.sampled_from(["tea", "日本", "ä", " ", "  ", "   ", ",", "=", "a" * 40]), max_size=40)


def read(raw: bytes) -> EmailMessage:
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


@pytest.mark.spec("G32")
@examples(40, 150)
@given(LINE | st.text('=?_ aä,;:<>"\\()@', max_size=MAX_SUBJECT) | SPACED.map("".join), st.booleans())
def test_a_subject_that_is_taken_is_read_as_it_was_given_with_all_of_its_spaces(subject: str, html: bool) -> None:
    subject = subject[:MAX_SUBJECT]
    try:
        checked_subject(subject)
    except ValueError:
        assert "=?" in subject or any(ord(letter) > 127 for letter in subject)
        return
    raw = letter("agent@example.org", "ada@example.org", subject, "Hi", html=html).raw
    message, unfolded = read(raw), message_from_bytes(raw, policy=policy.compat32)["Subject"]
    assert str(message["Subject"]) == str(make_header(decode_header(unfolded))) == subject
    assert (message["From"], message["To"]) == ("agent@example.org", "ada@example.org")
    assert not message.defects
    assert max(map(len, raw.split(b"\r\n"))) <= 78


@pytest.mark.parametrize("subject", ["1+1=?", "what? =? really", "", "a\u00a0b", "⚠️ 1️⃣ café 🌍", "שלום", "مرحبا"])
def test_subjects_that_only_look_odd_are_taken(subject: str) -> None:
    assert checked_subject(subject) == subject


@pytest.mark.spec("G32", "T13")
@pytest.mark.parametrize(
    "letter",
    [
        *"\u200b\u200c\u200d\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff",
        *"\u00ad\u034f\u115f\u1160\u17b4\u180e\u3164\ufe00\uffa0\U000e0041\U000e0101",
    ],
)
def test_a_subject_with_a_bidirectional_or_zero_width_character_is_refused_by_its_name(letter: str) -> None:
    for subject in (f"Invoice {letter}fdp.exe", letter, f"a{letter}"):
        with pytest.raises(ValueError, match=f"U\\+{ord(letter):04X}"):
            checked_subject(subject)


def test_a_choice_of_colour_is_taken_after_a_symbol_alone() -> None:
    for subject in ("a\ufe0f", "\ufe0f", "⚠\ufe0f\ufe0f"):
        with pytest.raises(ValueError, match="U\\+FE0F"):
            checked_subject(subject)


@pytest.mark.spec("G32")
@examples(40, 150)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.booleans())
def test_a_body_that_is_taken_is_read_as_it_was_given(body: str, html: bool) -> None:
    try:
        checked_body(body)
    except ValueError:
        assert any(letter < " " or letter == "\x7f" for letter in body)
        return
    message = read(letter("agent@example.org", "ada@example.org", "Hi", body, html=html).raw)
    part = message.get_body(("html",) if html else ("plain",))
    assert part is not None
    expected = body.replace("\r\n", "\n").replace("\r", "\n")
    assert part.get_content().replace("\r\n", "\n").rstrip("\n") == expected.rstrip("\n")


def test_every_line_is_short_enough_and_ascii() -> None:
    for body in ("a" * 100_000, "ä" * 50_000, "🌍 " * 30_000):
        for html in (False, True):
            raw = letter("agent@example.org", "ada@example.org", body[:MAX_SUBJECT], body, html=html).raw
            assert raw.isascii()
            assert max(map(len, raw.split(b"\r\n"))) <= 998
            assert raw.count(b"\n") == raw.count(b"\r") == raw.count(b"\r\n")

"""Text with NUL in it comes back, and no two texts are kept alike (spec 4, G11, G22)."""

from __future__ import annotations

from hypothesis import given as examples
from hypothesis import strategies as st

from capset.stores.sql.postgres.texts import escaped, unescaped

TEXTS = st.text(st.sampled_from("\0\x1a01a") | st.characters(exclude_categories=["Cs"]), max_size=12)


@examples(TEXTS)
def test_a_text_comes_back_as_it_was_and_holds_no_nul_meanwhile(text: str) -> None:
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text


@examples(TEXTS.filter(lambda text: "\0" not in text))
def test_what_no_text_was_kept_as_comes_back_as_bytes(kept: str) -> None:
    restored = unescaped(kept)
    assert escaped(restored) == kept if isinstance(restored, str) else restored == kept.encode()


@examples(TEXTS, TEXTS)
def test_a_beginning_stays_one(text: str, more: str) -> None:
    assert escaped(text + more) == escaped(text) + escaped(more), "so that ranges of paths are what they were"

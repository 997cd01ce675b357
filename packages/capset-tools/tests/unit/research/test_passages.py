from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.research.passages import PASSAGE, clean, heading_of, kept_of, passages_of

words = st.text(alphabet="ab.é漢", min_size=1, max_size=12) | st.sampled_from(["x" * (PASSAGE + 7), "y" * PASSAGE])
spaces = st.sampled_from([" ", "\n", "\n\n", "\n \n\n", ". ", "\t"])


@pytest.mark.spec("P18")
@given(st.lists(st.tuples(words, spaces), max_size=300))
def test_passages_are_bounded_and_leave_nothing_out(parts: list[tuple[str, str]]) -> None:
    text = clean("".join(word + space for word, space in parts))
    passages = passages_of(text)
    assert all(0 < len(passage) <= PASSAGE and passage == passage.strip() for passage in passages)
    assert "".join("".join(passages).split()) == "".join(text.split())
    for passage, other in pairwise(passages):
        assert len(passage) + len(other) > PASSAGE // 2, "what fits together stands together"


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("", []),
        ("one\n\ntwo", ["one\n\ntwo"]),
        ("a" * 1_000 + "\n\n" + "b" * 1_000, ["a" * 1_000, "b" * 1_000]),
        ("One. " * 200 + "Two! " * 200, ["\n".join(["One."] * 200 + ["Two!"] * 100), "\n".join(["Two!"] * 100)]),
        ("a" * 3_100, ["a" * 1_500, "a" * 1_500, "a" * 100]),
        ("ab " * 600, [("ab " * 500).strip(), ("ab " * 100).strip()]),
    ],
    ids=["nothing", "short", "blocks", "sentences", "one word", "words"],
)
def test_texts_are_cut_where_it_hurts_least(text: str, passages: list[str]) -> None:
    assert passages_of(text) == passages


def test_what_no_store_keeps_is_replaced() -> None:
    assert clean(" a\0b\ud800 \n") == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("# Tea", "Tea"),
        ("Intro\n\n## Green  tea ##\n# Later", "Green tea"),
        ("#\n\n## ##\n# Tea", "Tea"),
        (r"# *Green* [tea](https://example.org/1) `x` 1\. a_b", "Green tea x 1. a_b"),
        ("#hashtag\nnothing", None),
        ("no # heading", None),
        ("C\n" * 5_000 + "# Late", None),
        ("", None),
    ],
)
def test_the_first_heading_is_found(text: str, heading: str | None) -> None:
    assert heading_of(text) == heading


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "# " + "#" * 1_000_000 + "x",
        "# " + " #" * 500_000 + "x",
        "# x\\" * 200_000,
        "# " + "[" * 1_000_000,
        "\n " * 500_000,
    ],
    ids=["hashes", "closing", "headings", "links", "blanks"],
)
def test_no_text_keeps_us_for_long(text: str) -> None:
    excerpt = kept_of(text, 1_000_000)
    assert (len(excerpt.text), excerpt.is_whole) == (len(text[:1_000_000].strip()), len(text) <= 1_000_000)
    assert excerpt.sha256 == sha256(text.encode()).hexdigest()

"""Plain data as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_connect.plain_files import Unparsable, parse, yaml_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["no", "1", " x", "a\x85b", "a\n b\n\n", "\t"]
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text("abc", min_size=1), DATA))
def test_what_is_written_reads_back_as_the_same(data: dict[str, Any]) -> None:
    assert parse(Path("x.yaml"), yaml_text(data)) == data


def test_lines_stand_below_each_other() -> None:
    assert yaml_text({"name": "é", "prompt": "one\ntwo"}) == "name: é\nprompt: |-\n  one\n  two\n"


@pytest.mark.parametrize("text", ["a\x85b", "\ufeffx", "a\u2028b"])
def test_characters_that_yaml_reads_otherwise_are_escaped_if_need_be(text: str) -> None:
    assert parse(Path("x.yaml"), yaml_text({"a": text})) == {"a": text}


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("x.yaml", "a: 1\nb: [0x{digits}]", 2),
        ("x.yaml", "? 0x{digits}\n: 1", 1),
        ("x.toml", "a = 1\nb = [{{c = 0x{digits}}}]", None),
    ],
)
def test_an_integer_that_python_cannot_write_is_refused(name: str, text: str, line: int | None) -> None:
    with pytest.raises(Unparsable, match=r"an integer has at most 4,000 digits") as raised:
        parse(Path(name), text.format(digits="f" * 4_000))
    assert raised.value.line == line
    assert parse(Path(name), text.format(digits="f" * 3_000))

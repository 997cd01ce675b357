"""The number of values in JSON text, counted without parsing it (spec 5, P34)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.schemas.strict_json import ValueCounter

TEXTS = st.text(st.sampled_from('a,[{}]":\\é '), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, min_size=1, max_size=5) | st.dictionaries(TEXTS, inner, min_size=1, max_size=5),
    max_leaves=40,
)


def values_in(data: Any) -> int:
    members = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return 1 + sum(map(values_in, members))


def counted(text: bytes, size: int) -> int:
    counter = ValueCounter()
    for at in range(0, len(text), size):
        counter.feed(text[at : at + size])
    return counter.count


@pytest.mark.spec("P34")
@given(VALUES, st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]))
def test_every_value_counts_once_however_the_text_is_cut(data: Any, size: int, ascii: bool, indent: int | None) -> None:
    text = json.dumps(data, ensure_ascii=ascii, indent=indent).encode()
    assert counted(text, size) == values_in(data)


@pytest.mark.parametrize("size", [1_000, 300_000])
@pytest.mark.parametrize(
    "text", [b'"' + b"," * 300_000 + b'"', b'"' + b'\\"[' * 100_000 + b'"', b"\\" * 300_000, b" " * 300_000]
)
def test_only_what_is_outside_of_texts_counts(text: bytes, size: int) -> None:
    assert counted(text, size) == 1

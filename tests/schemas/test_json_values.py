"""The number of values in JSON text, counted without parsing it (spec 5, P34)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.schemas import strict_json
from capset.schemas.strict_json import has_more_values

TEXTS = st.text(st.sampled_from('a,[{}]":\\é '), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, min_size=1, max_size=5) | st.dictionaries(TEXTS, inner, min_size=1, max_size=5),
    max_leaves=40,
)


def values_in(data: Any) -> int:
    match data:
        case list():
            return 1 + sum(map(values_in, data))
        case dict():
            return 1 + sum(map(values_in, data.values()))
        case _:
            return 1


@pytest.mark.spec("P34")
@given(VALUES, st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]))
def test_every_value_counts_once(data: Any, piece: int, ascii: bool, indent: int | None) -> None:
    text, number = json.dumps(data, ensure_ascii=ascii, indent=indent).encode(), values_in(data)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(strict_json, "_PIECE", piece)  # so that texts and escapes are cut anywhere
        assert not has_more_values(text, number)
        assert has_more_values(text, number - 1) == (len(text) > number - 1)


@pytest.mark.parametrize(
    "text", [b'"' + b"," * 300_000 + b'"', b'"' + b'\\"[' * 100_000 + b'"', b"\\" * 300_000, b" " * 300_000]
)
def test_only_what_is_outside_of_texts_counts(text: bytes) -> None:
    assert not has_more_values(text, 1)


def test_dense_text_is_over_soon() -> None:
    assert has_more_values(b"[" + b"1," * 8_000_000, 20_000)

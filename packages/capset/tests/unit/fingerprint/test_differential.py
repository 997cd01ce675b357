"""A hundred thousand documents against the reference implementation of RFC 8785, byte for byte, on both roads."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.fingerprint.canonical import canonical, encoded, walked
from tests.helpers.fingerprint.documents import EXACT, documents, for_reference

CHUNKS, SIZE = 20, 5_000

texts = st.text(st.characters(exclude_categories=["Cs"]))
# Any integer, and those around ±2^53, which a shrinking search would seldom meet.
integers = st.integers() | st.integers(EXACT - 3, EXACT + 3) | st.integers(-EXACT - 3, -EXACT + 3)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
nested = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=40)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.nightly] if seed > 3 else []) for seed in range(CHUNKS)]
)
def test_documents_of_a_seed_are_written_as_the_reference_does(seed: int) -> None:
    short = 0
    for document in documents(seed, SIZE):
        expected = rfc8785.dumps(for_reference(document))
        assert canonical(document) == expected
        assert walked(document) == expected
        short += encoded(document) is not None
    assert SIZE / 10 < short < SIZE / 2, "both roads are gone often"


@pytest.mark.spec("F1")
@settings(deadline=None)
@given(nested)
def test_any_document_is_written_as_the_reference_does(document: Any) -> None:
    expected = rfc8785.dumps(for_reference(document))
    assert canonical(document) == expected
    assert walked(document) == expected
    # One step down, where the shortcut looks at what is inside.
    assert canonical([{"inner": document}]) == b'[{"inner":%b}]' % expected


def test_the_documents_hold_what_can_go_wrong() -> None:
    features: set[str] = set()
    for document in documents(0, SIZE):
        _note(document, features, 0)
    assert features == {
        *("empty dict", "empty list", "tuple", "beyond 2^53", "at 2^53", "minus zero", "exponent", "tiny", "huge"),
        *("astral text", "astral key", "keys in another order", "control", "deeper than 100"),
    }


def _note(value: Any, features: set[str], level: int) -> None:  # noqa: PLR0912  # a list of cases
    if level > 100:
        features.add("deeper than 100")
    match value:
        case bool() | None:
            pass
        case int():
            if abs(value) >= EXACT:
                features.add("beyond 2^53" if abs(value) > EXACT else "at 2^53")
        case float():
            if not value and math.copysign(1, value) < 0:
                features.add("minus zero")
            if "e" in repr(value):
                features.add("exponent")
            if value and not 1e-300 < abs(value) < 1e300:
                features.add("tiny" if abs(value) < 1 else "huge")
        case str():
            if any(character > "\uffff" for character in value):
                features.add("astral text")
            if any(character < " " for character in value):
                features.add("control")
        case list() | tuple():
            if isinstance(value, tuple):
                features.add("tuple")
            if not value:
                features.add("empty list")
            for item in value:
                _note(item, features, level + 1)
        case dict():
            if not value:
                features.add("empty dict")
            if any(character > "\uffff" for key in value for character in key):
                features.add("astral key")
            if sorted(value) != sorted(value, key=lambda key: key.encode("utf-16-be")):
                features.add("keys in another order")
            for item in value.values():
                _note(item, features, level + 1)
        case _:
            raise AssertionError(f"no JSON data: {value!r}")

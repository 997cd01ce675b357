from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.fingerprint.canonical import NotCanonical, canonical, canonical_by_walk, digest, encoded
from tests.helpers.fingerprint.documents import EXACT, documents, for_reference

CHUNKS, SIZE = 20, 5_000

texts = st.text(st.characters(exclude_categories=["Cs"]))
# Keys near each other in code points and apart in UTF-16 units, where a plain sort goes wrong.
keys = texts | st.text(st.sampled_from("a\u00e9\u2028\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff\x00\x1f\x7f"))
# Any integer, and those around ±2^53, which a shrinking search would seldom meet.
integers = st.integers() | st.integers(EXACT - 3, EXACT + 3) | st.integers(-EXACT - 3, -EXACT + 3)
other_scalars = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | texts
exact_scalars = other_scalars | st.integers(-EXACT + 1, EXACT - 1)


def nested(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.lists(inner).map(tuple),
        max_leaves=40,
    )


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.nightly] if seed > 3 else []) for seed in range(CHUNKS)]
)
def test_documents_of_a_seed_are_written_as_the_reference_does(seed: int) -> None:
    short = 0
    for document in documents(seed, SIZE):
        expected = rfc8785.dumps(for_reference(document))
        assert canonical(document) == expected
        assert canonical_by_walk(document) == expected
        short += encoded(document) is not None
    assert SIZE / 10 < short < SIZE / 2, "both roads are gone often"


@pytest.mark.spec("F1", "F2")
@settings(deadline=None)
@given(nested(other_scalars | integers))
def test_any_document_is_written_as_the_reference_does(document: Any) -> None:
    expected = rfc8785.dumps(for_reference(document))
    assert canonical(document) == canonical_by_walk(document) == expected
    assert digest(document) == hashlib.sha256(expected).hexdigest()
    # One step down, where the shortcut looks at what is inside.
    assert canonical([{"inner": document}]) == b'[{"inner":%b}]' % expected


@pytest.mark.spec("F1")
@settings(deadline=None)
@given(st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", bits.to_bytes(8))[0]).filter(math.isfinite))
def test_every_bit_pattern_of_a_number_is_written_as_the_reference_does(number: float) -> None:
    assert canonical(number) == rfc8785.dumps(number)
    assert float(canonical(number)) == number


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("000fffffffffffff", "2.225073858507201e-308"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555554", "333333333.33333325"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_of_the_standards_own_table(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number).decode() == text


@pytest.mark.spec("F1")
def test_keys_are_sorted_by_utf16_units_and_strings_escaped_as_little_as_possible() -> None:
    document = {"\ufb33": 1, "\U0001f600": 2, "\u20ac": 3, "\r": 4, "1": 5, "\x80": 6, "\u00f6": 7, "</script>": 8}
    expected = '{"\\r":4,"1":5,"</script>":8,"\x80":6,"\u00f6":7,"\u20ac":3,"\U0001f600":2,"\ufb33":1}'
    assert canonical(document).decode() == expected
    assert canonical('\x00\x08\x09\x0a\x0c\x0d\x1f"\\/\x7f\u2028') == (
        b'"\\u0000\\b\\t\\n\\f\\r\\u001f\\"\\\\/\x7f\xe2\x80\xa8"'
    )


@settings(deadline=None)
@given(nested(exact_scalars))
def test_writing_again_what_was_read_changes_nothing(document: Any) -> None:
    form = canonical(document)
    # Read as a JavaScript engine reads: every number is a double.
    assert canonical(json.loads(form, parse_int=float)) == form


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "wrong",
    [math.nan, math.inf, -math.inf, object(), b"x", {1, 2}, 1j, iter(()), "\ud800"],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_is_refused_with_its_path_on_both_roads_alike(wrong: object) -> None:
    for value, path in [
        (wrong, "$"),
        ({"tools": [0, 1, {"name": wrong}]}, "$.tools[2].name"),
        ([[], [wrong]], "$[1][0]"),
        ({"a": ({"b": wrong},)}, "$.a[0].b"),
        ([0.5, [wrong]], "$[1][0]"),
    ]:
        assert encoded(value) is None
        with pytest.raises(NotCanonical) as refused:
            canonical(value)
        with pytest.raises(NotCanonical) as walking:
            canonical_by_walk(value)
        assert refused.value.path == path
        assert str(refused.value) == str(walking.value)
        assert str(refused.value).startswith(f"{path}: ")


def test_the_documents_hold_what_can_go_wrong() -> None:
    parts = [part for document in documents(0, SIZE) for part in _parts(document, 0)]
    values = [value for value, _ in parts]
    integers = [abs(value) for value in values if type(value) is int]
    floats = [value for value in values if isinstance(value, float)]
    sizes = [abs(value) for value in floats if value]
    texts = [value for value in values if isinstance(value, str)]
    members = [list(value) for value in values if isinstance(value, dict)]
    assert max(level for _, level in parts) > 100
    assert all(empty in values for empty in ({}, [], ()))
    assert EXACT in integers
    assert max(integers) > EXACT
    assert any(math.copysign(1, value) < 0 for value in floats if not value)
    assert any("e" in repr(value) for value in floats)
    assert min(sizes) < 1e-300
    assert max(sizes) > 1e300
    assert max(max(text, default="") for text in texts) > "\uffff"
    assert min(min(text, default=" ") for text in texts) < " "
    assert max(max(key, default="") for keys in members for key in keys) > "\uffff"
    assert any(sorted(keys) != sorted(keys, key=lambda key: key.encode("utf-16-be")) for keys in members)


def _parts(value: Any, level: int) -> Iterator[tuple[Any, int]]:
    yield value, level
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for part in inner:
        yield from _parts(part, level + 1)

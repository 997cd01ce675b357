"""Canonical JSON against the reference implementation of RFC 8785, and where it says no."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import struct
from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.fingerprint.canonical import PROFILE, NotCanonical, canonical, digest

EXACT = 2**53
finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
# Keys near each other in code points and apart in UTF-16 units, where a plain sort goes wrong.
keys = texts | st.text(st.sampled_from("a\u00e9\u2028\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff\x00\x1f\x7f"))
scalars = st.none() | st.booleans() | st.integers(-EXACT + 1, EXACT - 1) | finite | texts
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.lists(inner).map(tuple), max_leaves=30
)


class Colour(enum.StrEnum):
    RED = "r\u00e9d"


class Level(enum.IntEnum):
    HIGH = 3


class Degrees(float):
    def __repr__(self) -> str:
        return "hot"


@pytest.mark.spec("F1")
@settings(deadline=None)
@given(documents)
def test_documents_are_written_as_the_reference_does(document: Any) -> None:
    assert canonical(document) == rfc8785.dumps(document)


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
        ("8000000000000001", "-5e-324"),
        ("000fffffffffffff", "2.225073858507201e-308"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
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
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555557", "333333333.33333343"),
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


@pytest.mark.spec("F1")
@settings(deadline=None)
@given(st.integers())
def test_integers_that_readers_would_round_are_written_apart(number: int) -> None:
    expected = str(number) if abs(number) <= EXACT else json.dumps({"$int": str(number)}, separators=(",", ":"))
    assert canonical(number).decode() == expected


@pytest.mark.spec("F1")
@pytest.mark.parametrize("number", [EXACT, -EXACT, EXACT + 1, -EXACT - 1, 10**400, -(10**400)])
def test_integers_at_and_beyond_the_edge(number: int) -> None:
    parsed = json.loads(canonical(number))
    assert parsed == (number if abs(number) <= EXACT else {"$int": str(number)})


@settings(deadline=None)
@given(documents)
def test_writing_again_what_was_read_changes_nothing(document: Any) -> None:
    form = canonical(document)
    # Read as a JavaScript engine reads: every number is a double.
    assert canonical(json.loads(form, parse_int=float)) == form


@pytest.mark.spec("F12")
@settings(deadline=None)
@given(st.dictionaries(keys, scalars), st.randoms())
def test_the_order_of_a_mapping_moves_nothing(document: dict[str, Any], random: Any) -> None:
    shuffled = list(document.items())
    random.shuffle(shuffled)
    assert digest(dict(shuffled)) == digest(document)


@pytest.mark.parametrize(
    ("value", "same_as"),
    [
        ((1, (2,)), [1, [2]]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (UserDict({"a": 1}), {"a": 1}),
        ({Colour.RED: Colour.RED}, {"r\u00e9d": "r\u00e9d"}),
        (Level.HIGH, 3),
        (Degrees(1.5), 1.5),
        ([True, False, None], [True, False, None]),
    ],
)
def test_look_alikes_are_written_as_what_they_hold(value: Any, same_as: Any) -> None:
    assert canonical(value) == rfc8785.dumps(same_as)


def test_a_boolean_is_no_number() -> None:
    assert len({canonical(True), canonical(1), canonical("1"), canonical("true"), canonical(None)}) == 5


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "wrong",
    [math.nan, math.inf, -math.inf, object(), b"x", {1, 2}, 1j, iter(())],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_is_refused_with_its_path(wrong: object) -> None:
    for value, path in [
        (wrong, "$"),
        ({"tools": [0, 1, {"name": wrong}]}, "$.tools[2].name"),
        ([[], [wrong]], "$[1][0]"),
        ({"a": ({"b": wrong},)}, "$.a[0].b"),
    ]:
        with pytest.raises(NotCanonical) as refused:
            canonical(value)
        assert refused.value.path == path
        assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.spec("F1")
@pytest.mark.parametrize("key", [1, 1.5, None, True, ("a",), b"a"], ids=lambda value: type(value).__name__)
def test_a_key_that_is_no_text_is_refused_with_its_path(key: object) -> None:
    with pytest.raises(NotCanonical) as refused:
        canonical({"a": [{"b": 1, key: 2}]})
    assert refused.value.path == "$.a[0]"
    assert repr(key) in str(refused.value)


@pytest.mark.spec("F1")
@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}, {"\ud800": 1, "\U0001f600": 2}], ids=ascii)
def test_a_lone_surrogate_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical, match="surrogate"):
        canonical(value)


def test_a_cycle_or_a_bottomless_nesting_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    for value in (cycle, deep):
        with pytest.raises(NotCanonical, match="cycle"):
            canonical(value)


@pytest.mark.spec("F1", "F2")
@settings(deadline=None)
@given(documents)
def test_a_digest_is_the_sha256_of_the_canonical_bytes(document: Any) -> None:
    assert digest(document) == hashlib.sha256(rfc8785.dumps(document)).hexdigest()


@pytest.mark.spec("F2")
def test_the_rules_have_a_name() -> None:
    assert PROFILE == "jcs-1"

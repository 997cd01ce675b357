from __future__ import annotations

import enum
import math
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import rfc8785

from capset.fingerprint.canonical import NotCanonical, canonical, canonical_by_walk, encoded
from capset.fingerprint.payloads import tool_payload
from tests.golden.subjects import TOOLS
from tests.helpers.fingerprint.documents import LOOK_ALIKES


class Level(enum.IntEnum):
    LOW = 3
    BEYOND = 2**53 + 1


class Colour(enum.StrEnum):
    RED = "r\u00e9d"
    EMOJI = "\U0001f600"


class Loud(int):
    def __repr__(self) -> str:
        return "LOUD"

    def __int__(self) -> int:
        return 7

    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __le__


class Hot(float):
    def __repr__(self) -> str:
        return "hot"

    def __lt__(self, other: object) -> bool:
        return True


class Shouting(dict[str, Any]):
    def items(self) -> Any:
        return {key: value.upper() for key, value in super().items()}.items()


class Reversed(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        return reversed(self)


class Pair(NamedTuple):
    first: Any
    other: Any


def short(value: Any) -> bool:
    """Whether the shortcut is taken, with the very bytes of the walk."""
    data = encoded(value)
    if data is not None:
        assert data == canonical_by_walk(value)
    assert canonical(value) == canonical_by_walk(value)
    return data is not None


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "value",
    [
        {"a": [], "b": {}, "c": ()},
        [[1, -1, 0, 10**14, -(10**13)], [True, False, None]],
        {"\u65e5\u672c": ["\u00e9", "\uffff", '\x00\x1f\x7f\u2028"\\/'], "\ue000": {}},
        {"b": {"B": 1, "_": 2, "a": 3, "": 4, "$": 5}},
        {"a": ["\u65e5", {"when": "2024-02-29T12:00:00.123Z", "version": "3.11.7", "hash": "0" * 64, "e": "1e+5"}]},
        [OrderedDict(b=1, a=2), Counter("abca"), defaultdict(list, {"x": [1]}), {}],
        [Level.LOW, Colour.RED, {Colour.RED: 1}, Pair(1, "b"), []],
        [[]] * 99,
        [{"n": {}}] * 1000,
    ],
)
def test_plain_documents_take_the_shortcut(value: Any) -> None:
    assert short(value)


@pytest.mark.spec("F1", "F3")
def test_most_tools_take_the_shortcut() -> None:
    # With 2^70, 0.5 and 1e21 in their schemas, and an emoji.
    walked_tools = {"constrained", "defaults", "unicode"}
    assert {tool.name for tool in TOOLS if not short(tool_payload(tool))} == walked_tools


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "value",
    [
        *(1.5, -1.5, 1.0, 0.0, -0.0, 1e22, -1e22, 1e-7, 1.5e-7, 1e16, 123456.0, 5e-324),
        *(2**53 + 1, -(2**53) - 1, 10**16, 10**400, Level.BEYOND, Loud(2**53 + 1), Hot(1.5)),
        *("\U0001f600", {"\U0001f600": 1, "\uffff": 2}, Colour.EMOJI),
        *(MappingProxyType({"a": 1}), UserDict({"a": 1})),
    ],
)
def test_what_the_encoder_writes_otherwise_is_walked(value: Any) -> None:
    for document in ([[], value], [value, []], {"a": value, "b": []}, {"a": [], "b": value}, [[1, value, 2]]):
        assert not short(document)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    ("value", "same_as"),
    [
        (Loud(5), 5),
        (Loud(2**60), {"$int": str(2**60)}),
        (Hot(1.5), 1.5),
        (Hot(1e21), 1e21),
        (Shouting(a="b"), {"a": "B"}),
        (Reversed([1, 2]), [2, 1]),
        (Pair(1, (2,)), [1, [2]]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (UserDict({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        ({Colour.RED: Colour.RED}, {"r\u00e9d": "r\u00e9d"}),
        ({Colour.EMOJI: 1, "\uffff": Level.LOW}, {"\U0001f600": 1, "\uffff": 3}),
    ],
)
def test_what_a_subclass_shows_is_the_same_on_both_roads(value: Any, same_as: Any) -> None:
    for inside in ([], [0.5]):
        assert canonical([value, inside]) == rfc8785.dumps([same_as, inside])
    short([value, []])


@pytest.mark.spec("F1")
@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_texts_that_look_like_numbers_and_keys_are_texts(text: str) -> None:
    for document in ([text, []], [[], text, text], {text: []}, {"a": {text: text}}, [{text: 1, "b": [text]}]):
        short(document)
        assert canonical(document) == rfc8785.dumps(document)


@pytest.mark.spec("F1")
@pytest.mark.parametrize(
    "key",
    [
        *(1, 0, -1, 10**20, 1.5, -1e22, 1e-7, True, False, None, Level.LOW, Loud(1), Hot(1.5)),
        *(math.nan, math.inf, -math.inf, ("a",), b"a"),
    ],
)
def test_a_key_that_the_encoder_would_turn_into_text_is_refused(key: Any) -> None:
    for document, path in [
        ({"a": [{key: 1}]}, "$.a[0]"),
        ({key: []}, "$"),
        ([[], {key: "x"}], "$[1]"),
        ({"a": {"b": {key: {}}}, "\ud800": 1}, "$.a.b"),
    ]:
        with pytest.raises(NotCanonical) as refused:
            canonical(document)
        assert refused.value.path == path
        assert str(refused.value) == f"{path}: a key must be text; got {key!r}"


@pytest.mark.spec("F1")
@pytest.mark.parametrize("keys", [(1, 2), (1, 1.5), (True, 2), (0, True, 0.5), (-1, 10**20)])
def test_several_keys_that_are_no_text_are_refused(keys: tuple[Any, ...]) -> None:
    with pytest.raises(NotCanonical, match="a key must be text"):
        canonical({"a": [], "b": dict.fromkeys(keys, "x")})


@pytest.mark.spec("F1")
def test_cycles_are_refused_and_what_is_shared_is_written_twice() -> None:
    shared = {"a": [1]}
    assert canonical([shared, shared]) == b'[{"a":[1]},{"a":[1]}]'
    cycle: dict[str, Any] = {"a": {}}
    cycle["a"]["b"] = [cycle]
    with pytest.raises(NotCanonical, match="cycle"):
        canonical(cycle)


@pytest.mark.spec("F1")
@pytest.mark.parametrize("open_", ["list", "dict", "tuple"])
def test_what_is_nested_deeply_is_written_the_same_with_and_without_what_must_be_walked(open_: str) -> None:
    def nested(levels: int, leaf: Any) -> Any:
        for _ in range(levels):
            leaf = [leaf] if open_ == "list" else (leaf,) if open_ == "tuple" else {"k": leaf}
        return leaf

    # Beside them stand more containers than levels are allowed, so the levels themselves are counted.
    wide = [[]] * 200
    for levels in (1, 50, 98, 99, 100, 101, 200):
        inside = canonical(nested(levels, 7))
        assert canonical(nested(levels, 0.5)) == inside.replace(b"7", b"0.5")
        assert short([nested(levels, []), wide]) is (levels <= 98)
    with pytest.raises(NotCanonical, match="nested too deeply"):
        canonical(nested(100_000, 1))

"""Plain data of whatever a caller sends: it ends, it raises nothing, and no part hides another."""

from __future__ import annotations

import itertools
import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Secret, SecretBytes, SecretStr, model_serializer
from pydantic_core import from_json, to_json

from capset.schemas.plain_data import is_flat, plain, plain_unvalidated, reveal_secrets, secrets_in

BOTH = pytest.mark.parametrize("look", [plain, plain_unvalidated])
Look = Callable[[Any], Any]


def forever() -> Iterator[int]:
    yield from itertools.count()


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Liar:
    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("no")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("no")


class OfNameless(metaclass=Nameless):
    pass


class Unwritable(BaseModel):
    x: int = 1

    @model_serializer
    def write(self) -> Any:
        raise RuntimeError("no")


class Endless(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        return 1


@dataclass
class Held:
    inner: Any


class Colour(Enum):
    RED = "red"
    MANY = itertools.count()


def knot(rounds: int = 1) -> list[Any]:
    """Hold itself, and so often that there is no time to look everywhere."""
    knotted: list[Any] = []
    knotted += [knotted, knotted]
    for _ in range(rounds):
        knotted = [knotted, knotted]
    return knotted


@BOTH
@pytest.mark.parametrize(
    "value",
    [
        *(knot(), knot(100), {"a": knot(60)}, forever(), itertools.count(), [forever()], Held(forever()), Endless()),
        *({Mute(): 1}, Mute(), Unwritable(), Held(Mute()), Colour.MANY),
        *(
            {"k": object},
            object(),
            {object(): 1},
            deque([knot(5)]),
            [[]] * 5,
            "\ud800",
            {"\ud800": 1},
            {10**6000: 10**6000},
        ),
        *(math.inf, [float("nan")], 1j, {(1, 2): 3}, {None: 1}, b"\xff", type("x" * 10**6, (), {})()),
    ],
    ids=lambda value: type.__getattribute__(type(value), "__qualname__")[:20],
)
def test_whatever_it_is_a_record_of_it_can_be_made_and_is_bounded(look: Look, value: Any) -> None:
    assert len(json.dumps(look(value), allow_nan=False).encode()) < 300_000


SHARED_LIST = [1]


@BOTH
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([Liar(), OfNameless(), {OfNameless()}], ["Liar", "object", ["object"]]),
        (knot(0), ["…", "…"]),
        ([SHARED_LIST, {"a": SHARED_LIST}], [[1], {"a": [1]}]),
        ([Mute(), [forever()], Unwritable(), Held(Colour.RED)], ["Mute", ["generator"], {"x": 1}, {"inner": "red"}]),
    ],
    ids=["hidden types", "a cycle", "shared", "odd ones"],
)
def test_an_odd_value_takes_no_other_with_it(look: Look, value: Any, expected: Any) -> None:
    assert look(value) == expected


@BOTH
def test_a_generator_is_not_used_up(look: Look) -> None:
    iterator = iter([1, 2])
    look({"a": iterator, "b": Held(iterator)})
    assert list(iterator) == [1, 2]


@BOTH
def test_keys_that_look_alike_are_kept_apart(look: Look) -> None:
    assert look({1: "a", "1": "b"}) == look({"1": "a", 1: "b"}) == {"1": "a", "1 #2": "b"}
    assert [*look({True: "a", "true": "b", "\ud800": "c"}).values()] == ["a", "b", "c"]


def test_of_far_too_much_the_beginning_is_told() -> None:
    rendered = plain_unvalidated({"a": 1, "many": list(range(50_000)), "b": 2})
    assert (rendered["a"], rendered["many"][:3], rendered["many"][-1]) == (1, [0, 1, 2], "…")
    assert rendered["…"] == "…"
    assert len(rendered["many"]) < 10_001
    assert plain(list(range(50_000))) == list(range(50_000)), "validated data is told in full"
    assert plain({"when": datetime(2024, 1, 1, tzinfo=UTC), "b": b"x"}) == {"when": "2024-01-01T00:00:00Z", "b": "x"}


def test_secrets_are_masked_unless_they_are_asked_for() -> None:
    members = {"a": SecretStr("hunter2"), "b": [SecretBytes(b"hunter2"), 1]}
    for look in (plain, plain_unvalidated):
        assert look(members) == {"a": "**********", "b": ["**********", 1]}
    assert reveal_secrets(members) == {"a": "hunter2", "b": [b"hunter2", 1]}
    assert secrets_in(members) == [[["a"], "hunter2"], [["b", 0], "hunter2"]]


class Login(BaseModel, frozen=True, extra="allow"):
    name: str
    key: SecretStr


@dataclass(frozen=True, slots=True)
class Pair:
    left: SecretStr
    right: SecretStr


def hush(text: str) -> SecretStr:
    return SecretStr(text)


def login(key: str, name: str = "n", **more: object) -> Login:
    return Login.model_validate({"name": name, "key": hush(key), **more})


def pair(left: str, right: str) -> Pair:
    return Pair(hush(left), hush(right))


def nested(secret: SecretStr) -> object:
    value: object = secret
    for _ in range(250):
        value = [value]
    return value


SHARED, OTHER = login("a"), login("b")


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"a": hush("a"), "b": hush("b")}, {"a": hush("b"), "b": hush("a")}),
        ({"a": SHARED, "b": OTHER, "c": SHARED}, {"a": SHARED, "b": OTHER, "c": OTHER}),
        (login("a", more=hush("b")), login("a", more=hush("c"))),
        (Secret(OTHER), Secret(SHARED)),
        ({pair("a", "b"), pair("c", "d")}, {pair("a", "d"), pair("c", "b")}),
        ({login("a"), login("b", "m")}, {login("b"), login("a", "m")}),
        ({hush("a"): 1, hush("b"): 2}, {hush("a"): 2, hush("b"): 1}),
        (nested(hush("a")), nested(hush("b"))),
        (deque([(hush("a"),)]), deque([(hush("b"),)])),
    ],
)
def test_values_that_differ_in_secrets_have_other_secrets(first: Any, other: Any) -> None:
    assert secrets_in(first) != secrets_in(other)
    assert secrets_in(deepcopy(first)) == secrets_in(first) != [], "and equal ones have equal ones"
    assert from_json(to_json(secrets_in(first))) == secrets_in(first), "as plain data"


def test_values_without_secrets_have_none_and_cycles_end() -> None:
    assert secrets_in({"a": [1, "x", None, {2.5}, Mute(), Look], "b": {1: b"x"}}) == []
    cycle: list[Any] = [hush("a")]
    cycle += [cycle, {"again": cycle}]
    assert secrets_in(cycle) == [[[0], "a"]]
    lists: list[list[Any]] = [[] for _ in range(30)]
    for each in lists:
        each.extend(lists)
    assert secrets_in(lists) == [], "each is searched once"


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.floats(), max_size=4))
def test_flat_data_is_plain_already_and_what_is_kept_is_a_copy(members: dict[str, Any]) -> None:
    rendered = plain(members)
    assert rendered is not members
    if is_flat(members):
        assert rendered == members == from_json(to_json(members))
        assert list(map(type, rendered.values())) == list(map(type, members.values()))


@pytest.mark.parametrize(
    "value",
    [None, [], "a", {1: "a"}, {"a": 1.0}, {"a": 2**53 + 1}, {"a": "\u00e9"}, {"\u00e9": "a"}, {"a": {}}, {"a": b""}],
)
def test_whatever_writers_may_write_in_two_ways_is_not_flat(value: Any) -> None:
    assert not is_flat(value)

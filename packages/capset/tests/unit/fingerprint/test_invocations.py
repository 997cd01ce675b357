from __future__ import annotations

import asyncio
import enum
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Principal, Snapshot, compose, evaluate
from capset.errors import InvalidArguments
from capset.fingerprint.canonical import digest
from capset.fingerprint.hashes import invocation_hash
from capset.fingerprint.invocations import normalize_invocation
from capset.fingerprint.payloads import invocation_payload

pytestmark = pytest.mark.spec("F14")

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES
MOMENTS = st.datetimes(
    min_value=datetime(1000, 1, 1),  # noqa: DTZ001  # hypothesis adds the time zone
    max_value=datetime(9000, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
PLAIN = st.recursive(
    SCALARS | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
INVOCATIONS = st.dictionaries(NAMES, PLAIN, max_size=5)


def turned(value: Any) -> Any:
    """Return the same said otherwise: keys in another order, tuples, other mappings, other time zones, more absent."""
    match value:
        case dict():
            entries = [(key, turned(inner)) for key, inner in reversed(value.items())]
            return MappingProxyType(OrderedDict([("absent", None), *entries] if "absent" not in value else entries))
        case list():
            return tuple(turned(element) for element in value)
        case datetime():
            return value.astimezone(timezone(timedelta(hours=-7, minutes=30)))
        case _:
            return value


def has_absent(value: Any) -> bool:
    match value:
        case dict():
            return any(member is None or has_absent(member) for member in value.values())
        case list():
            return any(map(has_absent, value))
        case _:
            return False


@given(INVOCATIONS)
def test_an_invocation_that_is_written_otherwise_is_the_same(invocation: dict[str, Any]) -> None:
    assert normalize_invocation(turned(invocation)) == normalize_invocation(invocation)
    assert invocation_hash(turned(invocation)) == invocation_hash(invocation)


@given(INVOCATIONS)
def test_an_invocation_becomes_plain_data_and_stays_as_it_was_given(invocation: dict[str, Any]) -> None:
    before = repr(invocation)
    plain = normalize_invocation(invocation)
    assert normalize_invocation(plain) == plain
    assert not has_absent(plain)
    assert invocation_hash(invocation) == (digest(invocation_payload(plain)) if plain else None)
    plain["changed"] = True
    assert repr(invocation) == before


@given(INVOCATIONS, st.sets(NAMES))
def test_an_allowlist_names_the_keys_that_count_and_an_empty_one_all(
    invocation: dict[str, Any], names: set[str]
) -> None:
    filtered = normalize_invocation(invocation, names)
    everything = normalize_invocation(invocation)
    assert filtered == {key: value for key, value in everything.items() if not names or key in names}
    assert normalize_invocation(invocation, list(invocation)) == everything
    assert normalize_invocation({**invocation, "left out": object()}, invocation or ["x"]) == everything


@given(INVOCATIONS, NAMES, SCALARS.filter(lambda value: value is not None))
def test_an_invocation_with_another_value_is_another(invocation: dict[str, Any], name: str, value: Any) -> None:
    plain = normalize_invocation(invocation)
    other = {**plain, name: ["is another", value]}
    assert (invocation_hash(other) == invocation_hash(invocation)) is (plain == other)


@dataclass
class Tenant:
    name: str = "acme"


class Colour(enum.StrEnum):
    RED = "red"


class Name(str):
    __slots__ = ()


def cycle() -> dict[str, Any]:
    nested: dict[str, Any] = {"a": [1]}
    nested["a"].append({"b": nested})
    return nested


def deep(levels: int) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"a": nested}
    return nested


@pytest.mark.parametrize(
    ("invocation", "path"),
    [
        ({"a": len}, "$.a: the function 'len'"),
        ({"a": Tenant}, "$.a: the function 'Tenant'"),
        ({"a": {"b": [1, Tenant()]}}, "$.a.b[1]: an instance of Tenant"),
        ({"a": Colour.RED}, "$.a: an instance of Colour"),
        ({"a": Name("x")}, "$.a: an instance of Name"),
        ({"a": {1}}, "$.a: an instance of set"),
        ({"a": date(2024, 1, 1)}, "$.a: an instance of date"),
        ({"a": datetime(2024, 1, 1)}, "$.a: the datetime 2024-01-01 00:00:00 has no time zone"),  # noqa: DTZ001
        ({"a": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))}, "$.a: the datetime 0001-01-01"),
        ({"a": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))}, "$.a: the datetime 9999-12-31"),
        ({"a": {None: "x"}}, "$.a: a key must be text; got None"),
        ({"a": {Name("x"): 1}}, "$.a: a key must be text; got 'x'"),
        ({1: "x"}, "$: a key must be text; got 1"),
        ({"a": float("nan")}, "$.a"),
        ({"a": [1, {"b": float("inf")}]}, "$.a[1].b"),
        ({"a": "\ud800"}, "surrogate"),
        (cycle(), "$.a[1].b"),
        (deep(100_000), "nested too deeply"),
        ([("a", 1)], "$: an invocation is a mapping of names to values, not list"),
    ],
)
def test_what_has_no_plain_form_is_refused_with_its_path(invocation: Any, path: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        normalize_invocation(invocation)
    assert path in refused.value.message
    assert refused.value.status == 422


def test_one_value_in_two_places_is_no_cycle() -> None:
    shared = {"x": [1]}
    assert normalize_invocation({"a": shared, "b": [shared, shared]}) == {"a": shared, "b": [shared, shared]}


@pytest.mark.parametrize("allowlist", ["tenant", 5, None], ids=repr)
def test_an_allowlist_is_a_list_of_names(allowlist: Any) -> None:
    with pytest.raises(InvalidArguments, match="an allowlist is a list of names"):
        normalize_invocation({"tenant": "acme"}, allowlist)


@pytest.mark.spec("F10", "F21")
@pytest.mark.parametrize(
    ("invocation", "allowlist", "is_hashed"),
    [(None, (), False), ({}, (), False), ({"a": None}, (), False), ({"a": 1}, ["b"], False), ({"a": 1}, (), True)],
)
def test_an_empty_invocation_has_no_hash(invocation: Any, allowlist: Any, is_hashed: bool) -> None:
    def evaluated(**options: Any) -> Snapshot:
        return asyncio.run(evaluate(compose(Agent("a")), principal=Principal("p"), **options))

    snapshot, other = evaluated(invocation=invocation, invocation_allowlist=allowlist), evaluated()
    assert (snapshot.invocation_hash is not None) is is_hashed
    assert snapshot.invocation_hash == invocation_hash(invocation, allowlist)
    assert (other.static_hash, other.runtime_hash) == (snapshot.static_hash, snapshot.runtime_hash)


def test_milliseconds_are_cut_and_the_hour_is_utc() -> None:
    moment = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert normalize_invocation({"at": moment}) == {"at": "2024-02-29T22:59:59.999Z"}

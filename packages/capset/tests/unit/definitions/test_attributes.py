from __future__ import annotations

import copy
import json
import pickle
import re
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError, Principal
from capset.definitions.principals import MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES, MAX_VALUE_CHARACTERS, Attributes
from capset.definitions.secrets import MASK

pytestmark = pytest.mark.spec("F34")
ATTRIBUTES: dict[str, Any] = {"tier": "pro", "level": 3, "share": 0.5, "beta": True, "manager": None}


def test_a_principal_has_no_attributes_unless_it_is_said() -> None:
    assert Principal("ada").attributes == {}
    assert Principal.anonymous().attributes == {}
    assert Principal("ada", attributes=None) == Principal("ada", attributes={}) == Principal("ada")


def test_attributes_are_a_mapping_that_nobody_changes() -> None:
    attributes = dict(ATTRIBUTES)
    ada = Principal("ada", attributes=attributes)
    attributes["tier"] = "free"
    assert dict(ada.attributes) == ATTRIBUTES
    assert (ada.attributes["tier"], ada.attributes.get("nothing"), len(ada.attributes)) == ("pro", None, 5)
    assert "tier" in ada.attributes
    with pytest.raises(TypeError):
        ada.attributes["tier"] = "free"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    with pytest.raises(KeyError):
        ada.attributes["nothing"]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"tier": "pro"}, {"tier": "free"}),
        ({"tier": "pro"}, {}),
        ({"level": 1}, {"level": True}),
        ({"level": 1}, {"level": 1.0}),
        ({"level": None}, {}),
        ({"tier": "pro"}, {"Tier": "pro"}),
    ],
)
def test_whoever_has_other_attributes_is_another(first: dict[str, Any], other: dict[str, Any]) -> None:
    ada, eve = Principal("ada", attributes=first), Principal("ada", attributes=other)
    assert ada != eve
    assert len({ada, eve}) == 2
    assert ada.attributes != other
    bot = Principal("bot")
    assert bot.acting_for(ada) != bot.acting_for(eve)
    assert ada.acting_for(bot) != eve.acting_for(bot)


def test_the_order_of_attributes_does_not_matter() -> None:
    turned = dict(reversed(ATTRIBUTES.items()))
    ada, other = Principal("ada", attributes=ATTRIBUTES), Principal("ada", attributes=turned)
    assert len({ada, other}) == 1
    assert ada.attributes.to_json() == other.attributes.to_json()


SCALARS = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.0, 1.0, -0.0, 2.5]) | st.text("10é", max_size=2)
)
SOME = st.dictionaries(st.sampled_from(["a", "b", "c:d", "e.f"]), SCALARS, max_size=3)


@given(SOME, SOME)
def test_attributes_are_equal_as_their_json_is(first: dict[str, Any], other: dict[str, Any]) -> None:
    is_same = json.dumps(first, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (Attributes(first) == Attributes(other)) == is_same == (Attributes(first) == other)
    assert not is_same or hash(Attributes(first)) == hash(Attributes(other))
    assert Attributes(json.loads(Attributes(first).to_json())) == Attributes(first)


def test_copies_are_equal() -> None:
    ada = Principal("bot").acting_for(Principal("ada", attributes=ATTRIBUTES))
    assert copy.deepcopy(ada) == pickle.loads(pickle.dumps(ada)) == ada


class Tier(StrEnum):
    PRO = "pro"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("attributes are at most 32; got 33", [{f"a{number}": 1 for number in range(MAX_ATTRIBUTES + 1)}]),
        ("plan must be text, a number, true, false or null; got dict (attributes are flat)", [{"plan": {"a": "b"}}]),
        ("got list (attributes are flat)", [{"plan": ["pro"]}]),
        ("got tuple (attributes are flat)", [{"plan": ("pro",)}]),
        ("plan must be text, a number, true, false or null; got set", [{"plan": {"pro"}}]),
        ("got bytes", [{"plan": b"pro"}]),
        ("got Tier", [{"plan": Tier.PRO}]),
        ("plan must be a finite number", [{"plan": float("nan")}, {"plan": float("inf")}]),
        ("plan is beyond ±2^53", [{"plan": 2**53 + 1}, {"plan": -(10**5000)}]),
        ("plan has 1,001 characters, and may have 1,000", [{"plan": "x" * (MAX_VALUE_CHARACTERS + 1)}]),
        ("plan holds a lone surrogate", [{"plan": "\ud800"}]),
        (
            "attributes have 5,041 bytes as JSON, and may have 4,096",
            [{f"a{n}": "x" * MAX_VALUE_CHARACTERS for n in range(5)}],
        ),
        ("a name must match", [{name: 1} for name in ("", "1st", "a b", "é", "a" * 65, 1, Tier.PRO)]),
        ("attributes must be a mapping of names to values; got list", [["tier"]]),
        ("attributes must be a mapping of names to values; got str", ["tier=pro"]),
    ],
)
def test_attributes_that_are_too_many_too_deep_or_of_another_type_are_refused(message: str, wrong: list[Any]) -> None:
    for attributes in wrong:
        with pytest.raises(DefinitionError, match=re.escape(message)) as refused:
            Principal("ada", attributes=attributes)
        assert refused.value.message.startswith("principal 'ada': attributes")
        assert len(refused.value.message) < 200
        assert "\n" not in refused.value.message
        with pytest.raises(DefinitionError, match="principal 'bot': on_behalf_of_attributes"):
            Principal("bot", on_behalf_of="user:ada", on_behalf_of_attributes=[attributes])


def test_what_just_fits_is_taken() -> None:
    for attributes in (
        {f"a{number}": 1 for number in range(MAX_ATTRIBUTES)},
        {"A" + "a.:_-9" * 10 + "abc": "x" * MAX_VALUE_CHARACTERS},
        {"most": 2**53, "least": -(2**53)},
        {
            **{f"a{number}": "x" * MAX_VALUE_CHARACTERS for number in range(4)},
            "b": "x" * (MAX_ATTRIBUTE_BYTES - 4 * (MAX_VALUE_CHARACTERS + 8) - 8),
        },
        {"text": "a\0b\nc\u2028"},
    ):
        assert dict(Principal("ada", attributes=attributes).attributes) == attributes


def test_secrets_among_attributes_are_not_shown() -> None:
    ada = Principal("ada", attributes={"tier": "pro", "api_key": "hush-1234", "token": None})
    assert "hush-1234" not in repr(ada)
    assert "hush-1234" not in repr(Principal("bot").acting_for(ada))
    assert ada.attributes.masked() == {"tier": "pro", "api_key": MASK, "token": None}
    assert ada.attributes["api_key"] == "hush-1234"
    for wrong in ({"api_key": ["hush-1234"]}, {"api_key": "hush-1234" * 200}, {"api_key": b"hush-1234"}):
        with pytest.raises(DefinitionError) as refused:
            Principal("ada", attributes=wrong)
        assert "hush" not in refused.value.message


@pytest.mark.spec("G9")
def test_whoever_acts_for_others_keeps_its_attributes_beside_theirs() -> None:
    bot, ada = Principal("bot", attributes={"n": 1}), Principal("ada", attributes={"tier": "pro"})
    chain = bot.acting_for(Principal("desk").acting_for(ada))
    assert chain.on_behalf_of == "user:desk for user:ada"
    assert (chain.attributes, chain.on_behalf_of_attributes) == ({"n": 1}, ({}, {"tier": "pro"}))
    assert (bot.on_behalf_of_attributes, ada.on_behalf_of_attributes) == ((), ())


@pytest.mark.spec("G9")
def test_attributes_of_whom_nothing_is_said_are_empty() -> None:
    bot = Principal("bot", on_behalf_of="user:desk for user:ada")
    assert bot.on_behalf_of_attributes == ({}, {})
    assert bot == Principal("bot").acting_for(Principal("desk").acting_for(Principal("ada")))
    some = Principal("bot", on_behalf_of="user:desk for user:ada", on_behalf_of_attributes=[{"tier": "pro"}])
    assert some.on_behalf_of_attributes == ({"tier": "pro"}, {})


@pytest.mark.parametrize(
    ("on_behalf_of", "attributes", "message"),
    [
        (None, [{"tier": "pro"}], "on_behalf_of_attributes are of those that on_behalf_of names: 0; got 1"),
        ("user:ada", [{}, {}], "on_behalf_of_attributes are of those that on_behalf_of names: 1; got 2"),
        ("user:ada", {"tier": "pro"}, "on_behalf_of_attributes must be a list"),
        ("user:ada", "tier", "on_behalf_of_attributes must be a list"),
    ],
)
def test_attributes_of_nobody_are_refused(on_behalf_of: str | None, attributes: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Principal("bot", on_behalf_of=on_behalf_of, on_behalf_of_attributes=attributes)

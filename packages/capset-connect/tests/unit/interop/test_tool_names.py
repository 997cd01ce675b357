"""Names of others as names that models take (spec 8, W20)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import DefinitionError
from capset_connect.interop.definitions import distinct_names, names_here

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def here(*originals: str) -> list[str]:
    return list(names_here(originals))


@pytest.mark.spec("W20")
@pytest.mark.parametrize("name", ["get_weather", "get-weather", "7zip", "_", "a" * 64])
def test_a_name_that_models_take_stays(name: str) -> None:
    assert here(name) == [name]


@pytest.mark.spec("W20")
@pytest.mark.parametrize(
    ("original", "name"),
    [("math.add", "math_add"), ("repos/list", "repos_list"), ("get the weather", "get_the_weather"), ("für", "f_r")],
)
def test_other_characters_are_underscores(original: str, name: str) -> None:
    assert here(original) == [name]


@pytest.mark.spec("W20")
def test_two_that_would_have_one_name_end_in_digits_of_their_hashes_in_any_order() -> None:
    first, second, third = here("a.b", "a/b", "a_b")
    assert (first, second, third) == ("a_b_2e7336dc", "a_b_c14cddc0", "a_b")
    assert here("a_b", "a/b", "a.b") == [third, second, first]


@pytest.mark.spec("W20")
def test_a_name_that_is_too_long_or_says_nothing_ends_in_digits() -> None:
    long, clean, silent = here("x." + "y" * 80, "y" * 65, "天气")
    assert re.fullmatch(r"x_y{53}_[0-9a-f]{8}", long)
    assert re.fullmatch(r"y{55}_[0-9a-f]{8}", clean)
    assert re.fullmatch(r"tool_[0-9a-f]{8}", silent)


@pytest.mark.spec("W20")
def test_equal_originals_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"2 tools are called 'a\.b': names must be unique"):
        names_here(["a.b", "c", "a.b"])


clean_names = st.text(alphabet="aZ7_-", min_size=60, max_size=70)


@pytest.mark.spec("W20")
@given(st.lists(st.one_of(st.text(alphabet="ab._/ü-", min_size=1, max_size=70), clean_names), unique=True, max_size=20))
def test_each_name_is_safe_its_own_and_leads_back(originals: list[str]) -> None:
    names = names_here(originals)
    assert list(names.values()) == originals
    assert all(SAFE.fullmatch(name) for name in names)
    assert set(names_here(reversed(originals)).items()) == set(names.items())


@pytest.mark.spec("W20")
def test_of_two_that_are_one_in_spite_of_their_digits_the_original_has_the_name() -> None:
    names, clashes = distinct_names(["a.b", "a/b", "a_b_2e7336dc"])
    assert names == {"a/b": "a_b_c14cddc0", "a_b_2e7336dc": "a_b_2e7336dc"}
    assert clashes == {"a.b": "'a.b' and 'a_b_2e7336dc' would both be called 'a_b_2e7336dc': rename one"}
    assert distinct_names(["a_b_2e7336dc", "a/b", "a.b"])[1] == clashes
    with pytest.raises(DefinitionError, match="would both be called 'a_b_2e7336dc': rename one"):
        names_here(["a.b", "a/b", "a_b_2e7336dc"])

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError, Principal
from capset.ext import Allowance, Budget


@pytest.mark.spec("G8")
def test_a_principal_holds_the_permissions_that_it_is_given() -> None:
    nobody = Principal("user-1")
    assert (nobody.permissions, nobody.kind, nobody.org) == (frozenset(), "user", None)
    assert Principal("p", permissions=["notes:read", "notes:read"]).permissions == {"notes:read"}


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("id", ["", "  ", "\n", 5, None, "\ud800"], "a principal's id"),
        ("kind", ["", "admin", "User", None, ["user"]], "principal 'p': kind must be one of"),
        ("org", [5, b"acme", "\ud800"], "principal 'p': org"),
    ],
)
def test_a_wrong_id_kind_or_organisation_is_refused(name: str, values: list[Any], problem: str) -> None:
    arguments: dict[str, Any] = {"id": "p", "kind": "user"}
    for value in values:
        with pytest.raises(DefinitionError, match=problem):
            Principal(**arguments | {name: value})


@pytest.mark.spec("G8")
def test_an_anonymous_principal_is_of_a_kind_of_its_own() -> None:
    nobody = Principal.anonymous()
    assert (nobody.id, nobody.kind, nobody.org, nobody.permissions) == ("anonymous", "anonymous", None, frozenset())
    assert nobody != Principal("anonymous"), "whoever is called so is known"
    assert Principal.anonymous(permissions={"notes:read"}).permissions == {"notes:read"}


PERMISSIONS = st.frozensets(st.sampled_from(["notes:read", "notes:write", "vault:open", "users:write"]))
PRINCIPALS = st.builds(
    Principal, st.sampled_from("abc"), permissions=PERMISSIONS, kind=st.sampled_from(["user", "agent", "org"])
)


@pytest.mark.spec("G9", "T6")
def test_an_id_that_looks_like_a_chain_is_refused_in_one() -> None:
    bot, lookalike = Principal("bot", kind="agent"), Principal("ada for charity")
    for acting, other in ((bot, lookalike), (lookalike, bot)):
        with pytest.raises(DefinitionError, match="must not contain"):
            acting.acting_for(other)


@pytest.mark.spec("G9")
@given(PRINCIPALS, PRINCIPALS, PRINCIPALS)
def test_whoever_acts_for_another_may_do_what_both_may_and_no_more(
    first: Principal, other: Principal, third: Principal
) -> None:
    both = first.acting_for(other)
    assert both.permissions == first.permissions & other.permissions
    assert (both.id, both.kind, both.org) == (first.id, first.kind, first.org), "it is still who it is"
    assert both.on_behalf_of == f"{other.kind}:{other.id}"
    chain = first.acting_for(other.acting_for(third))
    assert chain.permissions == first.permissions & other.permissions & third.permissions
    assert chain.on_behalf_of == f"{other.kind}:{other.id} for {third.kind}:{third.id}"


@pytest.mark.spec("G9", "G36")
def test_who_acts_for_somebody_may_use_what_both_may() -> None:
    bot = Principal("bot", kind="agent", allowance=Allowance(limits="9/1h", session=Budget(calls=9)))
    ada = Principal("ada", allowance=Allowance(session=Budget(calls=1), run=Budget(cost=2)))
    both = Allowance(limits="9/1h", session=Budget(calls=1), run=Budget(cost=2))
    assert bot.acting_for(ada).allowance == ada.acting_for(bot).allowance == both
    assert Principal("cat").acting_for(Principal("bob")).allowance is None


@pytest.mark.spec("G9")
@pytest.mark.parametrize(("mine", "theirs"), [("acme", "umbrella"), ("acme", None), (None, "acme")])
def test_nobody_acts_for_somebody_of_another_organisation(mine: str | None, theirs: str | None) -> None:
    bot, ada = Principal("bot", kind="agent", org=mine), Principal("ada", org=theirs)
    with pytest.raises(DefinitionError, match="'bot' cannot act for 'ada': they belong to different organisations"):
        bot.acting_for(ada)
    assert Principal("bot", org=theirs).acting_for(ada).org == theirs


def test_more_permissions_change_nothing_else() -> None:
    ada = Principal("ada", org="acme", attributes={"tier": "pro"})
    bot = Principal("bot", kind="agent", org="acme", permissions={"a:b"}, attributes={"n": 1}).acting_for(ada)
    assert bot.permissions == frozenset()
    assert bot.with_permissions(["c:d"]) == replace(bot, permissions=frozenset({"c:d"}))
    assert bot.with_permissions(["c:d"]).on_behalf_of_attributes == ({"tier": "pro"},)

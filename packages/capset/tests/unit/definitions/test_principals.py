from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError, Principal
from capset.ext import Allowance, Budget


def test_a_principal_holds_nothing_by_default() -> None:
    assert Principal("user-1").permissions == frozenset()
    assert (Principal("user-1").kind, Principal("user-1").org) == ("user", None)


@pytest.mark.spec("G8")
def test_permissions_are_exact_strings() -> None:
    permissions = Principal("p", permissions=["notes:read", "notes:read"]).permissions
    assert permissions == {"notes:read"}
    assert "notes:write" not in permissions


@pytest.mark.parametrize("id", ["", "  ", "\n", 5, None, "\ud800"])
def test_a_principal_has_an_id(id: Any) -> None:
    with pytest.raises(DefinitionError, match="a principal's id"):
        Principal(id)


@pytest.mark.parametrize("kind", ["", "admin", "User", None, ["user"]])
def test_another_kind_is_refused(kind: Any) -> None:
    assert {Principal("p", kind=valid_kind).kind for valid_kind in ("user", "agent", "org")} == {"user", "agent", "org"}
    with pytest.raises(DefinitionError, match="principal 'p': kind must be one of"):
        Principal("p", kind=kind)


@pytest.mark.parametrize("org", [5, b"acme", "\ud800"])
def test_an_organisation_is_a_text(org: Any) -> None:
    with pytest.raises(DefinitionError, match="principal 'p': org"):
        Principal("p", org=org)


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
    bot = Principal("bot", kind="agent", org="acme", permissions={"a:b"}).acting_for(Principal("ada", org="acme"))
    more = bot.with_permissions(["c:d"])
    assert more.permissions == {"c:d"}
    assert more == Principal("bot", kind="agent", org="acme", permissions={"c:d"}, on_behalf_of="user:ada")

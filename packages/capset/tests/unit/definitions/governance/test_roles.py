from __future__ import annotations

from typing import Any

import pytest

from capset import DefinitionError, Principal
from capset.definitions.governance.settings import Roles

STAFF = Roles(
    {
        "admin": {"editor", "users:write"},
        "reader": ["notes:read"],
        "editor": ("reader", "notes:write", "reader"),
        "guest": [],
    }
)


@pytest.mark.spec("G8")
def test_a_role_has_its_permissions_and_those_of_the_roles_in_it() -> None:
    assert STAFF.expand("reader") == {"notes:read"}
    assert STAFF.expand("editor") == {"notes:read", "notes:write"}
    assert STAFF.expand("admin") == {"notes:read", "notes:write", "users:write"}
    assert STAFF.expand("guest") == STAFF.expand() == frozenset()
    assert STAFF.expand("reader", "guest", "editor") == {"notes:read", "notes:write"}


@pytest.mark.spec("G8")
def test_roles_are_expanded_before_there_is_a_principal() -> None:
    ada = Principal("ada", permissions=STAFF.expand("editor"))
    assert ada.permissions == {"notes:read", "notes:write"}
    with pytest.raises(DefinitionError, match="a permission must match"):
        Principal("ada", permissions=["editor"])


def test_there_may_be_no_roles() -> None:
    assert Roles().permissions == Roles({}).permissions == {}
    with pytest.raises(DefinitionError, match="unknown role 'admin'; available: none"):
        Roles().expand("admin")


def test_nobody_changes_roles_afterwards() -> None:
    members = ["notes:read"]
    roles = Roles({"reader": members})
    members.append("users:write")
    assert roles.expand("reader") == {"notes:read"}
    with pytest.raises(TypeError):
        roles.permissions["reader"] = frozenset({"users:write"})  # pyright: ignore[reportIndexIssue]


def test_an_unknown_role_is_refused_with_the_nearest() -> None:
    with pytest.raises(DefinitionError, match="unknown role 'reeder'; did you mean 'reader'"):
        STAFF.expand("admin", "reeder")
    with pytest.raises(DefinitionError, match="role 'editor': unknown role 'reeder'; did you mean 'reader'"):
        Roles({"reader": [], "editor": ["reeder"]})


@pytest.mark.parametrize(
    ("roles", "circle"),
    [
        ({"a": ["a"]}, "'a' contains itself: a → a"),
        ({"a": ["b"], "b": ["c"], "c": ["a", "x:y"]}, "'a' contains itself: a → b → c → a"),
        ({"x": ["a"], "a": ["b"], "b": ["a"]}, "'a' contains itself: x → a → b → a"),
    ],
)
def test_a_role_that_has_itself_is_refused(roles: dict[str, list[str]], circle: str) -> None:
    with pytest.raises(DefinitionError, match=circle):
        Roles(roles)


@pytest.mark.parametrize(
    ("problem", "wrong"),
    [
        ("roles", [5, ["reader"]]),
        ("a role's name", [{"": []}, {"a:b": []}, {"a\n": []}, {5: []}, {"\ud800": []}]),
        ("role 'a'", [{"a": members} for members in ("notes:read", None, {"notes:read": 1})]),
        ("role 'a'", [{"a": [entry]} for entry in (5, "Notes:Read", "notes:", "notes:*", "notes:read:all")]),
    ],
)
def test_what_is_no_role_is_refused_by_its_name(problem: str, wrong: list[Any]) -> None:
    for roles in wrong:
        with pytest.raises(DefinitionError, match=problem):
            Roles(roles)

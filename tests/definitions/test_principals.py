from __future__ import annotations

from typing import Any

import pytest

from capset import DefinitionError, Principal


def test_a_principal_holds_nothing_by_default() -> None:
    assert Principal("user-1").permissions == frozenset()
    assert (Principal("user-1").kind, Principal("user-1").org) == ("user", None)


@pytest.mark.spec("G8")
def test_permissions_are_exact_strings() -> None:
    held = Principal("p", permissions=["notes:read", "notes:read"]).permissions
    assert held == {"notes:read"}
    assert "notes:write" not in held


@pytest.mark.parametrize("id", ["", "  ", "\n", 5, None, "\ud800"])
def test_a_principal_has_an_id(id: Any) -> None:
    with pytest.raises(DefinitionError, match="a principal's id"):
        Principal(id)


@pytest.mark.parametrize("kind", ["", "admin", "User", None, ["user"]])
def test_another_kind_is_refused(kind: Any) -> None:
    assert {Principal("p", kind=one).kind for one in ("user", "agent", "org")} == {"user", "agent", "org"}
    with pytest.raises(DefinitionError, match="principal 'p': kind must be user, agent or org"):
        Principal("p", kind=kind)


@pytest.mark.parametrize("org", [5, b"acme", "\ud800"])
def test_an_organisation_is_a_text(org: Any) -> None:
    with pytest.raises(DefinitionError, match="principal 'p': org"):
        Principal("p", org=org)

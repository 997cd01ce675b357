"""Allowances of an operator for the MCP servers of stored agents (spec 7, M26)."""

from __future__ import annotations

import pytest

from capset.errors import DefinitionError
from capset.net.urls import parse_url
from capset_connect.agents.server_allowances import AllowedSecrets, ServerAllowances


def secrets(allowances: ServerAllowances, org: str | None, url: str) -> set[str]:
    return set(allowances.secrets(org, parse_url(url)))


@pytest.mark.spec("M26")
def test_without_any_nothing_is_allowed() -> None:
    assert ServerAllowances().internal("acme") == ()
    assert secrets(ServerAllowances(), "acme", "https://a.example.com") == set()


@pytest.mark.spec("M26", "T45")
def test_a_host_is_allowed_to_one_organisation_or_to_all() -> None:
    allowances = ServerAllowances(["acme=a.internal:8080", "*=b.internal", "=c.internal"])
    assert allowances.internal("acme") == ("a.internal:8080", "b.internal")
    assert allowances.internal("other") == ("b.internal",)
    assert allowances.internal(None) == ("b.internal", "c.internal")


@pytest.mark.spec("M26", "T45")
def test_a_secret_goes_to_one_host_of_one_organisation_and_never_in_the_clear_but_within() -> None:
    allowances = ServerAllowances(
        ["acme=inside.example.com:8080"],
        ["acme=A@a.example.com", "acme=B@b.example.com:8443", "acme=C@inside.example.com:8080"],
    )
    assert secrets(allowances, "acme", "https://a.example.com/mcp") == {"A"}
    assert secrets(allowances, "acme", "https://a.example.com:444/mcp") == {"A"}
    assert secrets(allowances, "acme", "http://a.example.com/mcp") == set()
    assert secrets(allowances, "acme", "https://a.example.com.evil.example.com/mcp") == set()
    assert secrets(allowances, "other", "https://a.example.com/mcp") == set()
    assert secrets(allowances, None, "https://a.example.com/mcp") == set()
    assert secrets(allowances, "acme", "https://b.example.com/mcp") == set()
    assert secrets(allowances, "acme", "https://b.example.com:8443/mcp") == {"B"}
    assert secrets(allowances, "acme", "http://inside.example.com:8080/mcp") == {"C"}


@pytest.mark.spec("M26")
async def test_other_secrets_are_as_if_they_were_not_set() -> None:
    class All:
        async def get(self, name: str) -> str | None:
            return f"the {name}"

    allowed = AllowedSecrets(All(), frozenset({"A"}))
    assert (await allowed.get("A"), await allowed.get("B")) == ("the A", None)


@pytest.mark.parametrize("host", ["a.internal", "acme=", "acme=http://a", "acme=169.254.169.254"])
def test_a_host_that_cannot_be_read_is_refused(host: str) -> None:
    with pytest.raises(DefinitionError):
        ServerAllowances([host])


@pytest.mark.parametrize(
    "secret", ["A@a.example.com", "acme=A", "acme=@a.example.com", "acme=A@", "acme=A B@a", "acme=A@a/b"]
)
def test_a_secret_that_cannot_be_read_is_refused(secret: str) -> None:
    with pytest.raises(DefinitionError):
        ServerAllowances((), [secret])

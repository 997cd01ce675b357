"""Internal hosts are allowed exactly, and never lead to what is neither public nor internal."""

from __future__ import annotations

import pytest

from capset import DefinitionError
from capset.net.addresses import Allowed


@pytest.mark.spec("G29")
def test_a_host_is_allowed_with_any_port_or_with_one() -> None:
    allowed = Allowed.read(["Intranet.example", "127.0.0.1:8080", "[::1]:8080", "wiki:80"])
    assert allowed.takes("intranet.example", 9999, "10.0.0.1")
    assert allowed.takes("127.0.0.1", 8080, "127.0.0.1")
    assert allowed.takes("::1", 8080, "::1")
    assert not allowed.takes("127.0.0.1", 8081, "127.0.0.1")
    assert not allowed.takes("wiki", 81, "10.0.0.1")
    assert not allowed.takes("www.intranet.example", 80, "10.0.0.1")
    assert not allowed.takes("evil.example", 8080, "127.0.0.1"), "the name is allowed, not the address"


@pytest.mark.spec("G29")
@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "::ffff:10.0.0.1"])
def test_an_allowed_name_does_not_lead_to_what_is_never_allowed(address: str) -> None:
    assert not Allowed.read(["intranet.example"]).takes("intranet.example", 80, address)


@pytest.mark.parametrize(
    "entry",
    [
        *("", "http://intranet.example", "intranet.example/", "u@intranet", "127.1", "0x7f.0.0.1", "a.", "intra net"),
        *("*.example", "10.0.0.0/8", "host:0", "host:", "::1", "169.254.169.254", "[fe80::1]", "0.0.0.0"),
    ],
)
def test_an_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(DefinitionError, match="an allowed host"):
        Allowed.read([entry])

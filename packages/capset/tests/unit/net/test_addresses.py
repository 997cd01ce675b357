"""What lies at an address, and which internal hosts are allowed."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import DefinitionError
from capset.net.addresses import HostAllowlist, classify_address, is_loopback


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    ("reach", "addresses"),
    [
        ("public", ["8.8.8.8", "93.184.216.34", "1.1.1.1", "2606:2800:220:1::1", "2a00:1450:4001::8"]),
        ("internal", ["127.0.0.1", "127.255.255.254", "10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.0.1"]),
        ("internal", ["::1", "fd00::1"]),
        ("refused", ["0.0.0.0", "0.1.2.3", "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.0.2.1"]),
        ("refused", ["198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.255.255.250"]),
        ("refused", ["240.0.0.1", "255.255.255.255", "192.88.99.1", "::", "fe80::1", "fe80::1%eth0", "fd00::1%1"]),
        ("refused", ["2606:2800::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "64:ff9b::8.8.8.8", "64:ff9b:1::1"]),
        ("refused", ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "2002:7f00:1::"]),
        ("refused", ["2002:808:808::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "2001:2::1"]),
        ("refused", ["2001:10::1", "3fff::1", "5f00::1", "100::1", "4000::1"]),
        ("refused", ["", "localhost", "127.1", "0x7f.0.0.1", "127.0.0.01", "１２７.0.0.1"]),
    ],
)
def test_an_address_is_public_internal_or_refused(reach: str, addresses: list[str]) -> None:
    assert {address: classify_address(address) for address in addresses} == dict.fromkeys(addresses, reach)


@pytest.mark.spec("G29")
@given(st.ip_addresses(v=4))
def test_no_ipv4_address_that_is_not_global_is_public(address: IPv4Address) -> None:
    special = not address.is_global or address.is_multicast or address.is_reserved
    assert classify_address(str(address)) != "public" or not special


@pytest.mark.spec("G29")
@given(st.ip_addresses(v=4))
def test_no_ipv6_address_that_carries_an_ipv4_address_is_reached(inner: IPv4Address) -> None:
    low = int(inner)
    for carrier in (
        *(0xFFFF << 32 | low, 0x64FF9B << 96 | low, 0x64FF9B0001 << 80 | low),
        *(0x2002 << 112 | low << 80, 0x20010000 << 96 | low ^ 0xFFFFFFFF),
    ):
        assert classify_address(str(IPv6Address(carrier))) == "refused"
    compatible = str(IPv6Address(low))
    assert classify_address(compatible) == ("internal" if compatible == "::1" else "refused")


def test_a_loopback_address_is_one_that_nobody_reaches_from_outside() -> None:
    for host in ("localhost", "127.0.0.1", "127.8.9.10", "::1"):
        assert is_loopback(host), host
    for host in ("", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.1"):
        assert not is_loopback(host), host


@pytest.mark.spec("G29")
def test_a_host_is_allowed_with_any_port_or_with_one() -> None:
    allowed = HostAllowlist.parse(["Intranet.example", "127.0.0.1:8080", "[::1]:8080", "wiki:80"])
    for host, port, address in (
        *(("intranet.example", 9999, "10.0.0.1"), ("127.0.0.1", 8080, "127.0.0.1"), ("::1", 8080, "::1")),
    ):
        assert allowed.permits(host, port, address), host
    for host, port, address in (
        *(("127.0.0.1", 8081, "127.0.0.1"), ("wiki", 81, "10.0.0.1"), ("www.intranet.example", 80, "10.0.0.1")),
        ("evil.example", 8080, "127.0.0.1"),  # the name is allowed, not the address
    ):
        assert not allowed.permits(host, port, address), host


@pytest.mark.spec("G29")
@pytest.mark.parametrize("address", ["169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1", "::ffff:10.0.0.1"])
def test_an_allowed_name_does_not_lead_to_what_is_never_allowed(address: str) -> None:
    assert not HostAllowlist.parse(["intranet.example"]).permits("intranet.example", 80, address)


@pytest.mark.parametrize(
    "entry",
    [
        *("", "http://intranet.example", "intranet.example/", "u@intranet", "127.1", "0x7f.0.0.1", "a.", "intra net"),
        *("*.example", "10.0.0.0/8", "host:0", "host:", "::1", "169.254.169.254", "[fe80::1]", "0.0.0.0"),
    ],
)
def test_an_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(DefinitionError, match="an allowed host"):
        HostAllowlist.parse([entry])

"""What lies at an address."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.net.addresses import reach_of


@pytest.mark.spec("G29")
@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "1.1.1.1", "2606:2800:220:1::1", "2a00:1450:4001::8"])
def test_the_open_internet_is_public(address: str) -> None:
    assert reach_of(address) == "public"


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.255.255.254", "10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.0.1", "::1", "fd00::1"]
)
def test_this_machine_and_private_networks_are_internal(address: str) -> None:
    assert reach_of(address) == "internal"


@pytest.mark.spec("G29")
@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "0.1.2.3", "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.51.100.1"),
        *("203.0.113.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
        *("255.255.255.255", "192.88.99.1"),
        *("::", "fe80::1", "fe80::1%eth0", "fd00::1%1", "2606:2800::1%eth0", "fec0::1", "ff02::1", "ff0e::1"),
        *("64:ff9b::8.8.8.8", "64:ff9b:1::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8"),
        *("2002:7f00:1::", "2002:808:808::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "2001:2::1"),
        *("2001:10::1", "3fff::1", "5f00::1", "100::1", "4000::1"),
        *("", "localhost", "127.1", "0x7f.0.0.1", "127.0.0.01", "１２７.0.0.1"),
    ],
)
def test_what_nobody_is_sent_to_is_refused(address: str) -> None:
    assert reach_of(address) == "refused"


@pytest.mark.spec("G29")
@given(st.ip_addresses(v=4))
def test_no_ipv4_address_that_is_not_global_is_public(address: IPv4Address) -> None:
    special = not address.is_global or address.is_multicast or address.is_reserved
    assert reach_of(str(address)) != "public" or not special


@pytest.mark.spec("G29")
@given(st.ip_addresses(v=4))
def test_no_ipv6_address_that_carries_an_ipv4_address_is_reached(inner: IPv4Address) -> None:
    low = int(inner)
    for carrier in (
        *(0xFFFF << 32 | low, 0x64FF9B << 96 | low, 0x64FF9B0001 << 80 | low),
        *(0x2002 << 112 | low << 80, 0x20010000 << 96 | low ^ 0xFFFFFFFF),
    ):
        assert reach_of(str(IPv6Address(carrier))) == "refused"
    compatible = str(IPv6Address(low))
    assert reach_of(compatible) == ("internal" if compatible == "::1" else "refused")

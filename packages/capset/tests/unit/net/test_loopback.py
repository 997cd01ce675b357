"""Which addresses nobody reaches from outside."""

from __future__ import annotations

import pytest

from capset.net.addresses import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_addresses_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.1"])
def test_addresses_that_others_reach(host: str) -> None:
    assert not is_loopback(host)

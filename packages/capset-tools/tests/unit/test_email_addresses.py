"""Which texts are addresses, and whom a list of them means; what is refused stands in tests/security/email.yaml."""

from __future__ import annotations

import pytest

from capset_tools.email.config import MAX_ADDRESS, checked_address, checked_entry, is_allowed


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.org",
        "Ada.Lovelace@example.org",
        "ada+notes@example.org",
        "o'hara@example.org",
        "a@b.co",
        "ada@xn--exmple-cua.org",
        "ada@mail-1.example.org",
        "root@intranet",
        "1@2.example",
        "a" * 64 + "@example.org",
    ],
)
def test_addresses(address: str) -> None:
    assert checked_address(address) == address


def test_a_domain_has_no_case_and_a_mailbox_has() -> None:
    assert checked_address("Ada@EXAMPLE.Org") == "Ada@example.org"
    assert checked_entry("@EXAMPLE.Org") == "@example.org"


@pytest.mark.spec("G32")
def test_lengths() -> None:
    domain = ".".join(["a" * 63, "b" * 63, "c" * 61])
    longest = f"{'l' * (MAX_ADDRESS - 1 - len(domain))}@{domain}"
    assert len(longest) == MAX_ADDRESS
    assert checked_address(longest) == longest
    for text in (f"l{longest}", f"{'l' * 65}@example.org", f"ada@{'a' * 64}.org", "@" + "a." * 200 + "org"):
        with pytest.raises(ValueError, match="Input should"):
            checked_entry(text)


@pytest.mark.spec("G32")
def test_who_is_allowed() -> None:
    entries = ["ada@example.org", "@partners.example"]
    for address in ("ada@example.org", "anybody@partners.example"):
        assert is_allowed(address, entries)
    for address in ("Ada@example.org", "bob@example.org", "ada@mail.partners.example", "ada@otherpartners.example"):
        assert not is_allowed(address, entries)
    assert not is_allowed("ada@example.org", [])

"""What is encrypted for clients to keep: for one purpose, by the keys of the store (spec 5, P39)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from capset_server.auth.signing_keys import FixedKey, decrypt, encrypt

OLD, NEW = b"1" * 32, b"2" * 32


class Replaced:
    """Keys of which one was replaced: a server that has not looked again knows only the old one."""

    async def get(self, *, afresh: bool = False) -> Sequence[bytes]:
        """Return the keys."""
        return (NEW, OLD) if afresh else (OLD,)


@pytest.mark.spec("P39", "M20")
async def test_what_is_encrypted_is_for_one_purpose_and_unchanged() -> None:
    keys = FixedKey(OLD)
    text = await encrypt(keys, "one", b"secret")
    assert text != await encrypt(keys, "one", b"secret"), "no two look alike"
    assert await decrypt(keys, "one", text) == b"secret"
    assert await decrypt(keys, "two", text) is None
    assert await decrypt(FixedKey(NEW), "one", text) is None
    others = [text[:at] + ("A" if character != "A" else "B") + text[at + 1 :] for at, character in enumerate(text)]
    for other in (*others, text[:-1], f"{text}A", f"{text}=", f"{text}\n", f"!{text}", "", "A", "AAAA", "ä"):
        assert await decrypt(keys, "one", other) is None, other


@pytest.mark.spec("P39", "M20")
async def test_a_key_that_another_server_has_replaced_is_found() -> None:
    assert await decrypt(Replaced(), "one", await encrypt(FixedKey(NEW), "one", b"secret")) == b"secret"
    assert await decrypt(Replaced(), "one", await encrypt(FixedKey(OLD), "one", b"secret")) == b"secret"

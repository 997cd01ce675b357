"""An issuer's keys: fetched when they must be, no oftener, and none taken that cannot be trusted (spec 5, P14)."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from joserfc.jwk import OctKey

from capset.errors import DefinitionError
from capset_server.auth.jwks import APART_SECONDS, FRESH_SECONDS, MAX_BYTES, STALE_SECONDS, Jwks, read_keys
from capset_server.auth.tokens import MAX_TRIED
from tests.helpers.net.support import Asked, answer, redirect, server
from tests.helpers.server.auth.issuing import Clock, claims, issuing, key, key_set, token, write
from tests.waiting import until

SECRET = OctKey.import_key("s" * 40, {"kid": "shared"})


def public(name: str, kind: str = "EC", **changes: Any) -> dict[str, Any]:
    return {**key(name, kind).as_dict(private=False), **changes}


@pytest.mark.spec("P14")
async def test_keys_are_fetched_once_and_again_when_they_are_old() -> None:
    async with issuing() as issuer:
        assert await issuer.statuses(token(n=number) for number in range(5)) == {200}
        assert issuer.fetches == 1
        issuer.clock.now += FRESH_SECONDS
        assert await issuer.status(token(n=6)) == 200
        assert issuer.fetches == 2


@pytest.mark.spec("P14")
async def test_a_key_that_the_issuer_has_changed_is_found_within_a_minute() -> None:
    async with issuing() as issuer:
        assert await issuer.status(token()) == 200
        issuer.shows(key("two", "RSA"), key("one"))
        issuer.clock.now += APART_SECONDS
        assert await issuer.status(token(key("two", "RSA"))) == 200
        issuer.shows(key("two", "RSA"))
        issuer.clock.now += FRESH_SECONDS
        assert await issuer.status(token(n=1)) == 401, "since it was taken back"
        assert issuer.fetches == 3


@pytest.mark.spec("P14", "T24")
async def test_a_flood_of_unknown_keys_is_one_fetch_a_minute() -> None:
    async with issuing() as issuer:
        assert await issuer.status(token()) == 200
        issuer.clock.now += APART_SECONDS
        strangers = [token(header={"kid": f"k{number}"}) for number in range(30)]
        assert set(await asyncio.gather(*map(issuer.status, strangers))) == {401}
        assert issuer.fetches == 2
        assert await issuer.status(token(n=2)) == 200
        issuer.clock.now += APART_SECONDS
        assert await issuer.status(strangers[0]) == 401
        assert issuer.fetches == 3


@pytest.mark.spec("P14", "T24")
async def test_a_token_that_could_never_be_taken_causes_no_fetch() -> None:
    shared, typed = write({"alg": "HS256", "kid": "unknown"}, claims(), SECRET), {"kid": "x", "typ": "logout+jwt"}
    async with issuing() as issuer:
        assert await issuer.statuses([shared, token(header=typed), "a.b.c", token(note="a" * 9_000)]) == {401}
        assert issuer.fetches == 0


@pytest.mark.spec("P14", "T24")
async def test_callers_who_come_at_once_wait_for_one_fetch() -> None:
    async with issuing() as issuer:
        page, go_on = issuer.server.pages["/jwks"], asyncio.Event()

        async def slowly(_: Asked, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            assert isinstance(page, bytes)
            writer.write(page)
            await writer.drain()

        issuer.server.pages["/jwks"] = slowly
        asking = [asyncio.ensure_future(issuer.status(token(n=number))) for number in range(5)]
        await until(lambda: issuer.fetches == 1)
        go_on.set()
        assert set(await asyncio.gather(*asking)) == {200}
        assert issuer.fetches == 1
        go_on.clear()
        issuer.clock.now += FRESH_SECONDS
        first = asyncio.ensure_future(issuer.status(token(n=10)))
        await until(lambda: issuer.fetches == 2)
        assert await issuer.status(token(n=11)) == 200, "by the key that is known"
        assert not first.done(), "without waiting"
        go_on.set()
        assert await first == 200


@pytest.mark.spec("P14", "T24")
@pytest.mark.parametrize(
    "page",
    [
        answer(500, b"no"),
        *(answer(200, text) for text in (b"not JSON", b"{}", b'{"keys": []}', b'{"keys": {}}')),
        answer(200, key_set(*[key("one")] * 101)),
        answer(200, key_set(key("one")) + b" " * MAX_BYTES),
        redirect("/elsewhere"),
    ],
)
async def test_an_issuer_that_is_away_for_a_day_is_waited_for(page: bytes) -> None:
    async with issuing() as issuer:
        assert await issuer.status(token()) == 200
        good, issuer.server.pages["/jwks"] = issuer.server.pages["/jwks"], page
        issuer.server.pages["/elsewhere"] = good
        issuer.clock.now += FRESH_SECONDS
        assert await issuer.statuses(token(n=number) for number in range(3)) == {200}
        assert issuer.fetches == 2, "and it is not asked again for each"
        issuer.clock.now += STALE_SECONDS
        assert await issuer.status(token(n=4)) == 401
        issuer.server.pages["/jwks"] = good
        issuer.clock.now += APART_SECONDS
        assert await issuer.status(token(n=5)) == 200


@pytest.mark.spec("P14", "T24")
async def test_keys_that_are_of_no_use_take_no_others_along() -> None:
    private: dict[str, Any] = key("leaked").as_dict(private=True)
    weak = {"kty": "RSA", "kid": "weak", "n": "AQAB", "e": "AQAB"}
    useless = [private, weak, public("enc", use="enc"), SECRET.as_dict()]
    odd: list[Any] = [{}, {"kty": "EC"}, {"kty": "RSA", "n": "x" * 400}, {"kty": "AKP", "kid": "pq"}, 7, None, []]
    odd += [public("one", kid=7), public("one", x="!")]
    async with issuing(*odd, *useless, key("one")) as issuer:
        assert await issuer.status(token()) == 200
        refused = [token(key("leaked")), token(key("enc")), token(header={"kid": "weak"})]
        assert await issuer.statuses(refused) == {401}


@pytest.mark.spec("T23", "T24")
def test_secrets_and_short_keys_are_none_of_a_set() -> None:
    short = generate_private_key(65_537, 1_024).public_key().public_numbers().n
    letters = urlsafe_b64encode(short.to_bytes(128, "big")).decode().rstrip("=")
    weak = {"kty": "RSA", "kid": "weak", "n": letters, "e": "AQAB"}
    assert [jwk.kid for jwk in read_keys(key_set(SECRET.as_dict(), weak, key("one")))] == ["one"]


@pytest.mark.spec("P14", "P45")
async def test_of_several_keys_those_that_fit_are_tried_for_a_token_without_a_name() -> None:
    nameless = public("two")
    del nameless["kid"]
    others = [public("enc", use="enc"), public("rs512", "RSA", alg="RS512")]
    keys = [key("rsa", "RSA"), key("one"), key("wide", "P-521"), key("okp", "OKP"), nameless, *others]
    good = [key("one"), key("two"), key("rsa", "RSA"), key("okp", "OKP")]
    async with issuing(*keys) as issuer:
        assert [await issuer.status(token(by, {"kid": None})) for by in good] == [200] * 4
        for by in (key("enc"), key("rs512", "RSA"), key("mallory")):
            assert await issuer.status(token(by, {"kid": None})) == 401, by.kid


@pytest.mark.spec("P45")
async def test_keys_of_other_kinds_may_share_a_name() -> None:
    async with issuing(key("one", "RSA"), key("one"), key("one", "P-521")) as issuer:
        assert await issuer.statuses([token(key("one")), token(key("one", "RSA"))]) == {200}
        assert await issuer.status(token(key("mallory"), {"kid": "one"})) == 401
    async with issuing(key("one"), key("two")) as issuer:
        assert await issuer.status(token(key("two"), {"kid": "one"})) == 401, "another key has this name"


@pytest.mark.spec("P45")
async def test_only_a_few_keys_are_tried() -> None:
    several = [key(f"number{number}") for number in range(MAX_TRIED + 1)]
    async with issuing(*several[:MAX_TRIED]) as issuer:
        assert await issuer.statuses(token(jwk, {"kid": None}) for jwk in several[:MAX_TRIED]) == {200}
    async with issuing(*several) as issuer:
        assert await issuer.status(token(several[0], {"kid": None})) == 401
        assert await issuer.status(token(several[0])) == 200


@pytest.mark.spec("P14")
async def test_keys_may_be_in_a_file(tmp_path: Path) -> None:
    file, clock = tmp_path / "jwks.json", Clock()
    file.write_bytes(key_set(key("one")))
    jwks = Jwks(str(file), monotonic=clock)
    assert [jwk.kid for jwk in await jwks.keys("one")] == ["one"]
    file.write_bytes(key_set(key("two", "RSA")))
    clock.now += APART_SECONDS
    assert [jwk.kid for jwk in await jwks.keys("two")] == ["two"]
    file.write_bytes(key_set())
    with pytest.raises(DefinitionError, match="no key to verify with"):
        Jwks(str(file))
    file.unlink()
    clock.now += FRESH_SECONDS
    assert [jwk.kid for jwk in await jwks.keys("two")] == ["two"]


@pytest.mark.spec("P14")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("http://login.example.com/jwks", "https"),
        ("ftp://login.example.com/jwks", "scheme"),
        ("https://ada:secret@login.example.com/jwks", "password"),
        ("https://169.254.169.254/jwks", "169.254.169.254"),
        ("no/such/file", "no/such/file"),
    ],
)
def test_keys_come_from_where_nobody_can_change_them(source: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Jwks(source)


@pytest.mark.spec("T24")
@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"[" * 100_000, b'{"keys": [1]}', b"\xff"])
def test_what_is_no_set_of_keys_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_keys(text)


async def test_a_closed_port_is_an_issuer_that_is_away() -> None:
    async with server() as gone:
        url = gone.url("/jwks")
    assert not await Jwks(url).keys("one")

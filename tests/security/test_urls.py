"""No URL, name or redirect leads ``http_get`` or ``web_fetch`` elsewhere, and each refusal is on record (spec 4, G29).

What is tried stands in ``urls.yaml``, by classes; where a class has no end, a generator here makes up more of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capset.definitions.capabilities import AnyCapability
from capset_testing import Desk, session_for
from capset_tools.http import HttpConfig, http, http_over
from capset_tools.web_fetch import WebFetchConfig, web_fetch, web_fetch_over
from tests.helpers.net.support import PUBLIC, Asked, Bottle, Names, Server, answer, redirect, server

FILE: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("urls.yaml").read_text(encoding="utf-8")
)


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(case, group["code"], id=f"{name}-{number}")
        for name, group in FILE[kind].items()
        for number, case in enumerate(group["cases"])
    ]


@dataclass(frozen=True)
class Door:
    """A tool that asks URLs, and how its capability is made."""

    capability: str
    tool: str
    over: Callable[[Names, Bottle], AnyCapability]
    config: type[HttpConfig | WebFetchConfig]


HTTP = Door("http", "http_get", http_over, HttpConfig)
DOORS = (HTTP, Door("web_fetch", "web_fetch", web_fetch_over, WebFetchConfig))


@pytest.fixture(params=DOORS, ids=lambda door: door.tool)
def door(request: pytest.FixtureRequest) -> Door:
    return request.param


@dataclass
class Trap:
    """A session that may use ``http`` or ``web_fetch``; a server that must not be asked, and what was connected to."""

    door: Door
    desk: Desk
    site: Server
    names: Names
    bottle: Bottle

    async def refused(self, url: str, code: str) -> None:
        """Ask for a URL: it is refused with this code, in the answer and on record."""
        session = self.desk.session
        result = await session.try_message(session.message(self.door.tool, {"url": url}))
        assert result.error is not None, f"{url!r} was answered: {result.data}"
        assert (getattr(result.error, "code", None), result.success) == (code, False)
        (record,) = [
            candidate for candidate in await self.desk.records(tool=self.door.tool) if candidate.id == result.record
        ]
        assert (record.outcome, record.code, record.capability) == ("failed", code, self.door.capability)


@asynccontextmanager
async def trap(
    door: Door = HTTP, *, names: dict[str, list[list[str]]] | None = None, allow: tuple[str, ...] = ()
) -> AsyncGenerator[Trap]:
    resolver = Names({host: list(answers) for host, answers in (names or {}).items()})  # which uses them up
    async with server() as site:
        bottle = Bottle(site.port)
        config = door.config(allow=allow)
        async with session_for(door.over(resolver, bottle), permissions=["http:read"], config=config) as desk:
            yield Trap(door, desk, site, resolver, bottle)


def test_each_class_has_at_least_three_cases() -> None:
    classes = {f"{kind}: {name}": group["cases"] for kind, groups in FILE.items() for name, group in groups.items()}
    assert {name for name, members in classes.items() if len(members) < 3} == set()
    assert len(classes) > 30


@pytest.mark.spec("G29", "G19", "T10")
@pytest.mark.parametrize(("url", "code"), cases("urls"))
async def test_no_url_leads_there(door: Door, url: str, code: str) -> None:
    async with trap(door) as it:
        await it.refused(url, code)
        assert it.bottle.dialled == []
        assert it.names.asked == [], "it is refused before anybody is asked for it"


@pytest.mark.spec("G29", "G19")
@pytest.mark.parametrize(("answers", "code"), cases("names"))
async def test_no_name_leads_there(door: Door, answers: list[list[str]], code: str) -> None:
    async with trap(door, names={"evil.example": answers}) as it:
        await it.refused("http://evil.example/", code)
        assert (it.bottle.dialled, it.names.asked) == ([], ["evil.example"])


@pytest.mark.spec("G29", "G19")
@pytest.mark.parametrize(("answers", "code"), cases("rebinding"))
async def test_no_name_changes_its_mind(door: Door, answers: list[list[str]], code: str) -> None:
    async with trap(door, names={"evil.example": answers}) as it:
        it.site.pages["/"] = redirect("/secret")
        it.site.pages["/secret"] = answer(body=b"secret")
        await it.refused("http://evil.example/", code)
        assert it.bottle.dialled == [(PUBLIC, 80)], "it went to the address that was checked, and not back"
        assert it.names.asked == ["evil.example"] * 2
        assert [request.target for request in it.site.asked] == ["/"]


@pytest.mark.spec("G29", "G19")
@pytest.mark.parametrize(("location", "code"), cases("redirects"))
@pytest.mark.parametrize("first", ["a public host", "an allowed host"])
async def test_no_redirect_leads_there(door: Door, first: str, location: str, code: str) -> None:
    """From a public host, and from an internal one that is allowed, which no address is refused for."""
    names = {
        "public.example": [[PUBLIC] if first == "a public host" else ["127.0.0.1"]],
        "second.example": [[PUBLIC]],
        "internal.example": [["10.0.0.1"]],
        "localhost": [["127.0.0.1", "::1"]],
    }
    allow = () if first == "a public host" else ("public.example",)
    async with trap(door, names=names, allow=allow) as it, server() as goal:

        async def onwards(request: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(redirect(request.target.partition("?")[2]))
            await writer.drain()

        it.site.pages |= {"/": redirect(location.format(port=goal.port)), "/chain": onwards}
        await it.refused("http://public.example/", code)
        assert goal.asked == []
        assert {address for address, _ in it.bottle.dialled} <= {PUBLIC, "127.0.0.1"}
        assert all(request.headers["host"] in ("public.example", "second.example") for request in it.site.asked)


@pytest.mark.spec("G29")
async def test_a_real_name_of_this_machine_is_refused_and_on_record(door: Door) -> None:
    """With the resolver and the connections that are really used."""
    async with server({"/": answer(body=b"secret")}) as site:
        capability = {"http": http, "web_fetch": web_fetch}[door.capability]
        async with session_for(capability, permissions=["http:read"]) as desk:
            it = Trap(door, desk, site, Names({}), Bottle(0))
            for url in (site.url(), site.url(host="localhost"), site.url(host="[::ffff:127.0.0.1]")):
                await it.refused(url, "address_refused")
        assert site.asked == []


def written(number: int, base: str) -> str:
    return {"decimal": str(number), "octal": f"0{number:o}", "hex": f"0x{number:x}", "padded": f"{number:010d}"}[base]


@st.composite
def unusual_forms(draw: st.DrawFn) -> str:
    """127.0.0.0/8 and others in one to four parts, each decimal, octal or hexadecimal, as ``inet_aton`` takes them."""
    address = draw(st.sampled_from([0x7F000001, 0xA9FEA9FE, 0x0A000001, 0xC0A80101]) | st.integers(0, 2**32 - 1))
    count = draw(st.integers(1, 4))
    parts = [address >> shift & 0xFF for shift in (24, 16, 8)[: count - 1]]
    parts.append(address & (1 << 8 * (5 - count)) - 1)
    bases = draw(st.lists(st.sampled_from(["decimal", "octal", "hex", "padded"]), min_size=count, max_size=count))
    host = ".".join(written(part, base) for part, base in zip(parts, bases, strict=True))
    is_usual = count == 4 and set(bases) == {"decimal"}
    return f"{host}." if is_usual else draw(st.sampled_from([host, host.upper(), f"{host}."]))


@st.composite
def refused_addresses(draw: st.DrawFn) -> str:
    """Addresses of refused networks, and IPv6 addresses that carry any IPv4 address."""
    network = draw(st.sampled_from(["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "100.64.0.0/10", "224.0.0.0/4"]))
    inner = draw(st.ip_addresses(v=4, network=network))
    carriers = ["::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}", "2002:{hex}::", "2001::{hex}:0:0"]
    forms = [*carriers, "fe80::{}", "fec0::{}", "fd00::{}", "ff02::{}"]
    packed = inner.packed.hex()
    address = draw(st.sampled_from(forms)).format(str(inner), hex=f"{packed[:4]}:{packed[4:]}")
    return draw(st.sampled_from([str(inner), f"[{address}]"]))


@pytest.mark.spec("G29")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(unusual_forms(), refused_addresses()), min_size=6, max_size=6))
async def test_no_made_up_form_of_an_address_leads_anywhere(hosts: list[tuple[str, str]]) -> None:
    async with trap() as it:
        for unusual, refused in hosts:
            await it.refused(f"http://{unusual}/", "url_refused")
            await it.refused(f"https://{refused}:8443/", "address_refused")
        assert (it.bottle.dialled, it.names.asked) == ([], [])

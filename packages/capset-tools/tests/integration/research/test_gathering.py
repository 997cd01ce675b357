"""What becomes of a page that is fetched as a source (spec 5, P18)."""

from __future__ import annotations

import asyncio
import time
from hashlib import sha256
from pathlib import Path

import pytest

from capset import ToolError
from capset.errors import InvalidArguments, PermissionDenied
from capset_tools.research import ResearchConfig
from tests.helpers.net.support import Asked, answer, redirect
from tests.helpers.tools.research.support import html, plain, study

LONG = "\n\n".join(f"Paragraph {number} speaks of number{number}. {'word ' * 40}" for number in range(200))


@pytest.mark.spec("P18")
async def test_a_page_becomes_a_numbered_source() -> None:
    async with study() as here:
        first = await here.fetch("/tea#brewing")
        here.clock.advance(60)
        second = await here.fetch("/coffee", title="On  coffee")
        one, two = await here.sources()
    assert first == {
        "source": 1,
        "citation": "[1]",
        "title": "Green tea",
        "url": here.server.url("/tea"),
        "status_code": 200,
        "fetched_at": "2026-01-01T00:00:00+00:00",
        "is_new": True,
        "has_changed": False,
        "characters": len(first["content"]),
        "passages": 1,
        "truncated": False,
        "content": "# Green *tea*\n\nGreen tea is brewed at 80 °C.",
        "is_whole": True,
    }
    assert (second["source"], second["title"], second["fetched_at"]) == (2, "On coffee", "2026-01-01T00:01:00+00:00")
    assert (one.sha256, one.number) == (sha256(first["content"].encode()).hexdigest(), 1)
    assert (two.content_type, two.title) == ("text/plain; charset=utf-8", "On coffee")


@pytest.mark.spec("P18")
async def test_a_url_that_is_fetched_again_keeps_its_number_and_has_the_newer_text() -> None:
    async with study() as here:
        await here.fetch("/coffee")
        await here.fetch("/tea", title="Tea")
        same = await here.fetch("/coffee#other")
        assert (same["source"], same["is_new"], same["has_changed"]) == (1, False, False)
        here.server.pages["/tea"] = plain("Black tea wants boiling water.")
        here.clock.advance(1)
        again = await here.fetch("/tea")
        assert (again["source"], again["is_new"], again["has_changed"]) == (2, False, True)
        assert (again["title"], again["fetched_at"]) == ("Tea", "2026-01-01T00:00:01+00:00")
        assert sorted(await here.texts()) == [
            "Black tea wants boiling water.",
            "Coffee is brewed at 93 °C.\n\nIt is ground before.",
        ]
        assert await here.search("green") == []
        assert [hit["citation"] for hit in await here.search("boiling")] == ["[2]"]


@pytest.mark.spec("P18")
async def test_of_a_long_source_the_beginning_is_shown_and_all_is_found() -> None:
    config = ResearchConfig(shown=500)
    async with study(
        config, long=html(f"<h1>Long</h1>{''.join(f'<p>{one}</p>' for one in LONG.split(chr(10) * 2))}")
    ) as here:
        found = await here.fetch("/long")
        assert (len(found["content"]), found["is_whole"], found["truncated"]) == (500, False, False)
        assert found["passages"] > 20
        (hit,) = await here.search("number199")
        assert (hit["citation"], hit["title"], hit["part"]) == ("[1]", "Long", found["passages"])
        assert "number199" in hit["text"]


@pytest.mark.spec("P18")
async def test_that_a_source_broke_off_is_no_word_of_it() -> None:
    async with study(page=answer(body=b"Tea is hot.", content_type="text/plain", content_length="5000")) as here:
        broken = await here.fetch("/page")
        assert (broken["content"], broken["truncated"], broken["is_whole"]) == ("Tea is hot.", True, False)
        assert await here.search("arrive") == []
        here.server.pages["/page"] = plain("Tea is hot.")
        again = await here.fetch("/page")
        assert (again["has_changed"], again["truncated"]) == (False, False)
        here.server.pages["/page"] = answer(body=b" ", content_type="text/plain", content_length="5000")
        with pytest.raises(ToolError, match="has no text in it") as refused:
            await here.fetch("/page")
        assert refused.value.code == "source_empty"


@pytest.mark.spec("P18")
async def test_of_a_source_that_is_too_long_as_much_is_kept_as_there_is_room_for() -> None:
    config = ResearchConfig(max_source_characters=5_000, max_characters=8_000)
    async with study(config, long=plain(LONG), longer=plain(LONG)) as here:
        first, second = await here.fetch("/long"), await here.fetch("/longer")
        assert (first["characters"], first["truncated"], first["is_whole"]) == (5_000, True, False)
        assert (second["characters"], second["truncated"]) == (3_000, True)
        with pytest.raises(ToolError, match="8,000 characters, as many as are kept; go on with what there is") as full:
            await here.fetch("/tea")
        assert (full.value.code, full.value.status) == ("research_full", 409)
        assert (await here.fetch("/longer"))["characters"] == 3_000, "one that is there already has its own room"


@pytest.mark.spec("P18")
async def test_there_are_no_more_sources_than_can_be() -> None:
    async with study(ResearchConfig(max_sources=1)) as here:
        await here.fetch("/tea")
        asked = len(here.server.asked)
        with pytest.raises(ToolError, match="it has 1 sources, as many as there can be"):
            await here.fetch("/coffee")
        assert len(here.server.asked) == asked, "it is not even asked for"
        assert (await here.fetch("/tea"))["source"] == 1


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    ("page", "code", "message"),
    [
        (answer(404, b"nothing"), "source_failed", "answered with status 404: it was not kept as a source"),
        (answer(500, b"oh"), "source_failed", "status 500"),
        (
            answer(body=b"\x89PNG\r\n\0", content_type="image/png"),
            "source_not_text",
            "has no text, and it was not kept",
        ),
        (html("<script>x</script> \n"), "source_empty", "has no text in it"),
        (answer(200, b""), "source_empty", "has no text in it"),
        (redirect("http://169.254.169.254/secrets"), "address_refused", "169.254.169.254"),
    ],
    ids=["missing", "failing", "picture", "nothing to read", "empty", "inside"],
)
async def test_what_failed_or_is_no_text_is_no_source(page: bytes, code: str, message: str) -> None:
    async with study() as here:
        await here.fetch("/tea")
        for name in ("/tea", "/other"):
            here.server.pages[name] = page
            with pytest.raises(ToolError, match=message) as refused:
                await here.fetch(name)
            assert refused.value.code == code
        (kept,) = await here.sources()
        assert (kept.title, await here.texts()) == ("Green tea", ["# Green *tea*\n\nGreen tea is brewed at 80 °C."])
        with pytest.raises(ToolError, match=r"there is no source \[2\]"):
            await here.note("So it is.", 2)


@pytest.mark.spec("P18", "G29")
async def test_what_is_not_allowed_is_not_asked() -> None:
    async with study() as here:
        for url in (here.server.url("/tea", host="localhost"), "http://169.254.169.254/", "file:///etc/passwd"):
            result = await here.session.try_message(here.session.message("research_fetch", {"url": url}))
            assert result.error is not None
        assert here.server.asked == []
        assert await here.sources() == []


@pytest.mark.spec("P18")
async def test_what_is_fetched_at_one_time_gets_different_numbers(tmp_path: Path) -> None:
    async with study(store=f"sqlite:///{tmp_path}/capset.db") as here:
        for number in range(8):
            here.server.pages[f"/page{number}"] = plain(f"Page {number} tells of thing{number}.")
        found = await asyncio.gather(*(here.fetch(f"/page{number}") for number in range(8)))
        assert sorted(one["source"] for one in found) == [*range(1, 9)]
        for number, one in enumerate(found):
            (hit,) = await here.search(f"thing{number}")
            assert (hit["citation"], hit["url"]) == (one["citation"], here.server.url(f"/page{number}"))


@pytest.mark.spec("P18")
async def test_one_url_that_is_fetched_several_times_at_once_is_one_source(tmp_path: Path) -> None:
    count = 0

    async def counting(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        writer.write(plain(f"This is the version{count}."))
        await writer.drain()

    async with study(store=f"sqlite:///{tmp_path}/capset.db", page=counting) as here:
        found = await asyncio.gather(*(here.fetch("/page") for _ in range(6)))
        assert [one["source"] for one in found] == [1] * 6
        assert [one["is_new"] for one in found].count(True) == 1
        assert len(await here.texts()) == 1, "no earlier text stays behind"
        assert len(await here.search("version")) <= 1


async def test_what_was_kept_for_nothing_goes_again() -> None:
    config = ResearchConfig(max_sources=1)
    async with study(config, slow=plain("Slow.")) as here:
        both = await asyncio.gather(here.fetch("/tea"), here.fetch("/coffee"), return_exceptions=True)
        (failed,) = [one for one in both if isinstance(one, BaseException)]
        assert isinstance(failed, ToolError)
        assert failed.code == "research_full"
        assert len(await here.texts()) == 1


@pytest.mark.realtime
@pytest.mark.spec("P18")
@pytest.mark.parametrize("text", ["# " + "#" * 60_000 + "x", "y" * 9_000_000, "." * 9_000_000], ids="#y.")
async def test_a_page_does_not_keep_others_waiting(text: str) -> None:
    longest = 0.0

    async def beside() -> None:
        nonlocal longest
        while True:
            begun = time.monotonic()
            try:
                await asyncio.sleep(0.01)
            finally:
                longest = max(longest, time.monotonic() - begun)

    async with study(ResearchConfig(max_source_characters=300_000), big=plain(text)) as here:
        other = asyncio.create_task(beside())
        found = await here.fetch("/big")
        other.cancel()
        await asyncio.wait([other])
        assert found["characters"] == min(len(text), 300_000)
    assert longest < 2, "far more than it takes, far less than it took"


@pytest.mark.spec("P18", "G10")
@pytest.mark.parametrize(("held", "missing"), [("research:write", "http:read"), ("http:read", "research:write")])
async def test_fetching_needs_both_permissions(held: str, missing: str) -> None:
    async with study(permissions=(held,)) as here:
        asked = here.session.message("research_fetch", {"url": here.server.url("/tea")})
        result = await here.session.try_message(asked)
        assert isinstance(result.error, PermissionDenied)
        assert missing in result.error.message
        assert here.server.asked == []


@pytest.mark.parametrize(
    "arguments", [{"url": ""}, {"url": "http://x/" + "y" * 2_048}, {"url": "http://x/", "title": " "}]
)
async def test_arguments_are_bounded(arguments: dict[str, str]) -> None:
    async with study() as here:
        result = await here.session.try_message(here.session.message("research_fetch", arguments))
        assert result.error is not None
        assert isinstance(result.error, InvalidArguments) or result.error.code == "url_refused"

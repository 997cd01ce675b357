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
    async with study() as researcher:
        first = await researcher.fetch("/tea#brewing")
        researcher.clock.advance(60)
        second = await researcher.fetch("/coffee", title="On  coffee")
        tea, two = await researcher.sources()
    assert first == {
        "source": 1,
        "citation": "[1]",
        "title": "Green tea",
        "url": researcher.server.url("/tea"),
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
    assert (tea.sha256, tea.number) == (sha256(first["content"].encode()).hexdigest(), 1)
    assert (two.content_type, two.title) == ("text/plain; charset=utf-8", "On coffee")


@pytest.mark.spec("P18")
async def test_a_url_that_is_fetched_again_keeps_its_number_and_has_the_newer_text() -> None:
    async with study() as researcher:
        await researcher.fetch("/coffee")
        await researcher.fetch("/tea", title="Tea")
        same = await researcher.fetch("/coffee#other")
        assert (same["source"], same["is_new"], same["has_changed"]) == (1, False, False)
        researcher.server.pages["/tea"] = plain("Black tea wants boiling water.")
        researcher.clock.advance(1)
        refetched = await researcher.fetch("/tea")
        assert (refetched["source"], refetched["is_new"], refetched["has_changed"]) == (2, False, True)
        assert (refetched["title"], refetched["fetched_at"]) == ("Tea", "2026-01-01T00:00:01+00:00")
        assert sorted(await researcher.texts()) == [
            "Black tea wants boiling water.",
            "Coffee is brewed at 93 °C.\n\nIt is ground before.",
        ]
        assert await researcher.search("green") == []
        assert [hit["citation"] for hit in await researcher.search("boiling")] == ["[2]"]


@pytest.mark.spec("P18")
async def test_of_a_long_source_the_beginning_is_shown_and_all_is_found() -> None:
    config = ResearchConfig(shown=500)
    async with study(
        config, long=html(f"<h1>Long</h1>{''.join(f'<p>{paragraph}</p>' for paragraph in LONG.split(chr(10) * 2))}")
    ) as researcher:
        fetched = await researcher.fetch("/long")
        assert (len(fetched["content"]), fetched["is_whole"], fetched["truncated"]) == (500, False, False)
        assert fetched["passages"] > 20
        (hit,) = await researcher.search("number199")
        assert (hit["citation"], hit["title"], hit["part"]) == ("[1]", "Long", fetched["passages"])
        assert "number199" in hit["text"]


@pytest.mark.spec("P18")
async def test_that_a_source_broke_off_is_no_word_of_it() -> None:
    async with study(page=answer(body=b"Tea is hot.", content_type="text/plain", content_length="5000")) as researcher:
        broken = await researcher.fetch("/page")
        assert (broken["content"], broken["truncated"], broken["is_whole"]) == ("Tea is hot.", True, False)
        assert await researcher.search("arrive") == []
        researcher.server.pages["/page"] = plain("Tea is hot.")
        refetched = await researcher.fetch("/page")
        assert (refetched["has_changed"], refetched["truncated"]) == (False, False)
        researcher.server.pages["/page"] = answer(body=b" ", content_type="text/plain", content_length="5000")
        with pytest.raises(ToolError, match="has no text in it") as refused:
            await researcher.fetch("/page")
        assert refused.value.code == "source_empty"


@pytest.mark.spec("P18")
async def test_of_a_source_that_is_too_long_as_much_is_kept_as_there_is_room_for() -> None:
    config = ResearchConfig(max_source_characters=5_000, max_characters=8_000)
    async with study(config, long=plain(LONG), longer=plain(LONG)) as researcher:
        first, second = await researcher.fetch("/long"), await researcher.fetch("/longer")
        assert (first["characters"], first["truncated"], first["is_whole"]) == (5_000, True, False)
        assert (second["characters"], second["truncated"]) == (3_000, True)
        with pytest.raises(ToolError, match="8,000 characters, as many as are kept; go on with what there is") as full:
            await researcher.fetch("/tea")
        assert (full.value.code, full.value.status) == ("research_full", 409)
        assert (await researcher.fetch("/longer"))["characters"] == 3_000, "one that is there already has its own room"


@pytest.mark.spec("P18")
async def test_there_are_no_more_sources_than_can_be() -> None:
    async with study(ResearchConfig(max_sources=1)) as researcher:
        await researcher.fetch("/tea")
        request_count = len(researcher.server.asked)
        with pytest.raises(ToolError, match="it has 1 sources, as many as there can be"):
            await researcher.fetch("/coffee")
        assert len(researcher.server.asked) == request_count, "it is not even asked for"
        assert (await researcher.fetch("/tea"))["source"] == 1


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
    async with study() as researcher:
        await researcher.fetch("/tea")
        for name in ("/tea", "/other"):
            researcher.server.pages[name] = page
            with pytest.raises(ToolError, match=message) as refused:
                await researcher.fetch(name)
            assert refused.value.code == code
        (source,) = await researcher.sources()
        assert (source.title, await researcher.texts()) == (
            "Green tea",
            ["# Green *tea*\n\nGreen tea is brewed at 80 °C."],
        )
        with pytest.raises(ToolError, match=r"there is no source \[2\]"):
            await researcher.note("So it is.", 2)


@pytest.mark.spec("P18", "G29")
async def test_what_is_not_allowed_is_not_asked() -> None:
    async with study() as researcher:
        for url in (researcher.server.url("/tea", host="localhost"), "http://169.254.169.254/", "file:///etc/passwd"):
            result = await researcher.session.try_message(researcher.session.message("research_fetch", {"url": url}))
            assert result.error is not None
        assert researcher.server.asked == []
        assert await researcher.sources() == []


@pytest.mark.spec("P18")
async def test_what_is_fetched_at_one_time_gets_different_numbers(tmp_path: Path) -> None:
    async with study(store=f"sqlite:///{tmp_path}/capset.db") as researcher:
        for number in range(8):
            researcher.server.pages[f"/page{number}"] = plain(f"Page {number} tells of thing{number}.")
        fetched = await asyncio.gather(*(researcher.fetch(f"/page{number}") for number in range(8)))
        assert sorted(source["source"] for source in fetched) == [*range(1, 9)]
        for number, source in enumerate(fetched):
            (hit,) = await researcher.search(f"thing{number}")
            assert (hit["citation"], hit["url"]) == (source["citation"], researcher.server.url(f"/page{number}"))


@pytest.mark.spec("P18")
async def test_one_url_that_is_fetched_several_times_at_once_is_one_source(tmp_path: Path) -> None:
    count = 0

    async def counting(request: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        writer.write(plain(f"This is the version{count}."))
        await writer.drain()

    async with study(store=f"sqlite:///{tmp_path}/capset.db", page=counting) as researcher:
        fetched = await asyncio.gather(*(researcher.fetch("/page") for _ in range(6)))
        assert [source["source"] for source in fetched] == [1] * 6
        assert [source["is_new"] for source in fetched].count(True) == 1
        assert len(await researcher.texts()) == 1, "no earlier text stays behind"
        assert len(await researcher.search("version")) <= 1


async def test_what_was_kept_for_nothing_goes_again() -> None:
    config = ResearchConfig(max_sources=1)
    async with study(config, slow=plain("Slow.")) as researcher:
        both = await asyncio.gather(researcher.fetch("/tea"), researcher.fetch("/coffee"), return_exceptions=True)
        (failed,) = [outcome for outcome in both if isinstance(outcome, BaseException)]
        assert isinstance(failed, ToolError)
        assert failed.code == "research_full"
        assert len(await researcher.texts()) == 1


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

    async with study(ResearchConfig(max_source_characters=300_000), big=plain(text)) as researcher:
        other = asyncio.create_task(beside())
        fetched = await researcher.fetch("/big")
        other.cancel()
        await asyncio.wait([other])
        assert fetched["characters"] == min(len(text), 300_000)
    assert longest < 2, "far more than it takes, far less than it took"


@pytest.mark.spec("P18", "G10")
@pytest.mark.parametrize(("permission", "missing"), [("research:write", "http:read"), ("http:read", "research:write")])
async def test_fetching_needs_both_permissions(permission: str, missing: str) -> None:
    async with study(permissions=(permission,)) as researcher:
        message = researcher.session.message("research_fetch", {"url": researcher.server.url("/tea")})
        result = await researcher.session.try_message(message)
        assert isinstance(result.error, PermissionDenied)
        assert missing in result.error.message
        assert researcher.server.asked == []


@pytest.mark.parametrize(
    "arguments", [{"url": ""}, {"url": "http://x/" + "y" * 2_048}, {"url": "http://x/", "title": " "}]
)
async def test_arguments_are_bounded(arguments: dict[str, str]) -> None:
    async with study() as researcher:
        result = await researcher.session.try_message(researcher.session.message("research_fetch", arguments))
        assert result.error is not None
        assert isinstance(result.error, InvalidArguments) or result.error.code == "url_refused"

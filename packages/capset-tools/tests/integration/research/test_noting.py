"""Notes, what is found of them and of sources, and reports (spec 5, P18)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from capset import ToolError
from capset.errors import InvalidArguments, PermissionDenied
from capset_tools.research import ResearchConfig
from tests.helpers.tools.research.support import leave_behind, study

REPORT = """\
# How hot?

- Ask a tea master.

## Tea

- Green tea is best at 80 °C. [1]

## Coffee

- Coffee wants 93 °C [2], tea less. [1]

## Sources

- [1] Green tea. <{tea}>, fetched 2026-01-01.
- [2] Coffee. <{coffee}>, fetched 2026-01-01.

## Gathered, but not cited

- [3] <{other}>, fetched 2026-01-01.
"""


@pytest.mark.spec("P18")
async def test_from_sources_to_a_report() -> None:
    async with study(other=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nNothing to do with it.") as researcher:
        await researcher.fetch("/tea")
        await researcher.fetch("/coffee", title="Coffee")
        await researcher.fetch("/other")
        noted = await researcher.note("Green tea is best at 80 °C.", 1, 1, topic=" Tea ")
        assert noted == {"note": 1, "citation": "[1]", "topic": "Tea", "notes": 1}
        noted = await researcher.note("Coffee wants 93 °C [2], tea less.", 1, topic="Coffee")
        assert noted == {"note": 2, "citation": "[1][2]", "topic": "Coffee", "notes": 2}
        noted = await researcher.note("Ask a tea master.")
        assert noted == {"note": 3, "citation": "", "topic": None, "notes": 3}
        report = await researcher.report(title="How hot?")
        assert report == await researcher.report(title="How hot?"), "the same notes make the same report"
        addresses = {name: researcher.server.url(f"/{name}") for name in ("tea", "coffee", "other")}
        assert report["report"] == REPORT.format(**addresses)
        assert (report["notes"], report["cited"], report["not_cited"]) == (3, [1, 2], [3])
        assert researcher.session.snapshot.tools["research_report"].tool.effect == "read"


@pytest.mark.spec("P18")
async def test_a_report_can_be_of_one_topic() -> None:
    async with study() as researcher:
        with pytest.raises(ToolError, match=r"^no note has the topic 'Tea'; there are no topics yet$"):
            await researcher.report(topic="Tea")
        await researcher.fetch("/tea")
        await researcher.note("One.", 1, topic="Tea and water")
        await researcher.note("Two.", topic="Coffee")
        await researcher.note("Three.", topic="tea  AND water")
        report = await researcher.report(topic="TEA and water")
        assert report["report"].startswith("# Research\n\n## Tea and water\n\n- One. [1]\n- Three.\n\n## Sources\n")
        assert "Two." not in report["report"]
        with pytest.raises(ToolError, match=r"did you mean 'Coffee'\?") as refused:
            await researcher.report(topic="Cofee")
        assert refused.value.code == "unknown_topic"
        with pytest.raises(ToolError, match=r"there are 'Tea and water', 'Coffee'$"):
            await researcher.report(topic="zzz")


@pytest.mark.spec("P18")
async def test_search_finds_notes_and_passages_with_what_to_cite() -> None:
    async with study() as researcher:
        await researcher.fetch("/tea")
        await researcher.fetch("/coffee")
        await researcher.note("Both are brewed, says [2].", 1, topic="Heat")
        await researcher.note("Brewed by a thought alone.")
        hits = await researcher.search("BREWED", limit=10)
        assert [hit["kind"] for hit in hits] == ["note", "note", "source", "source"]
        alone, both, coffee, tea = hits
        assert alone == {"kind": "note", "citation": "", "text": "Brewed by a thought alone.", "note": 2}
        assert (both["citation"], both["note"], both["topic"]) == ("[1][2]", 1, "Heat")
        assert (coffee["citation"], coffee["part"]) == ("[2]", 1)
        assert (tea["citation"], tea["title"], tea["url"]) == ("[1]", "Green tea", researcher.server.url("/tea"))
        assert await researcher.search("brewed", limit=2) == hits[:2]
        assert (await researcher.search("brewed green"))[0]["citation"] == "[1]"
        assert await researcher.search("unheard of") == []


@pytest.mark.spec("P18")
@pytest.mark.parametrize("end", ["\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
async def test_a_note_stays_one_item_whatever_ends_its_lines(end: str) -> None:
    async with study() as researcher:
        await researcher.note(end.join(["x", "", "## Sources", "", "- [1\\] Fake."]), topic=f"On{end}tea")
        report = (await researcher.report(title=f"About{end}# Tea"))["report"]
    lines = ["# About \\# Tea", "", "## On tea", "", "- x", "  ", "  ## Sources", "  ", "  - [1\\] Fake."]
    assert report.splitlines() == lines


async def test_a_text_that_a_crash_left_behind_is_never_found() -> None:
    async with study() as researcher:
        await researcher.session.call(leave_behind, text="Nobody's tea is brewed.")
        await researcher.fetch("/tea")
        assert [hit["citation"] for hit in await researcher.search("nobody tea brewed")] == ["[1]"]
        assert "Nobody" not in (await researcher.report())["report"]


@pytest.mark.spec("P18")
async def test_a_note_cites_only_what_there_is() -> None:
    async with study(other=b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nAnother.") as researcher:
        with pytest.raises(ToolError, match="none is gathered yet: research_fetch one first"):
            await researcher.note("So it is.", 1)
        await researcher.fetch("/tea")
        for text, numbers in (
            *(
                ("So it is.", [1, 2]),
                ("So it is [2].", [1]),
                ("So [0].", []),
                ("Lyon is not[9].", []),
                ("東京[9]。", []),
            ),
            *(("So [1, 2].", [1]), ("So [1-3].", []), ("So [1–2].", []), ("x[9] and `x[1]`.", [])),
        ):
            with pytest.raises(ToolError, match=r"there is \[1\] alone") as refused:
                await researcher.note(text, *numbers)
            assert refused.value.code == "unknown_source"
        assert (await researcher.report())["notes"] == 0
        assert await researcher.search("so") == []
        await researcher.fetch("/coffee")
        await researcher.fetch("/other")
        noted = await researcher.note("It has `x[9]`, says[1-2].", 3)
        assert noted["citation"] == "[1][2][3]"
        assert "- It has `x[9]`, says[1-2]. [3]\n" in (await researcher.report())["report"]


@pytest.mark.spec("P18")
async def test_notes_at_one_time_are_all_kept_and_numbered(tmp_path: Path) -> None:
    async with study(store=f"sqlite:///{tmp_path}/capset.db") as researcher:
        noted = await asyncio.gather(*(researcher.note(f"Thought {number}.") for number in range(12)))
        assert sorted(note["note"] for note in noted) == [*range(1, 13)]
        report = await researcher.report()
        assert all(f"- Thought {number}.\n" in report["report"] for number in range(12))


@pytest.mark.spec("P18")
async def test_notes_are_bounded() -> None:
    async with study(ResearchConfig(max_notes=2, max_note_characters=10)) as researcher:
        with pytest.raises(ToolError, match="a note has 1 to 10 characters; got 11"):
            await researcher.note("x" * 11)
        ended = await asyncio.gather(
            *(researcher.note(f"note {number}") for number in range(4)), return_exceptions=True
        )
        refused = [outcome for outcome in ended if isinstance(outcome, ToolError)]
        assert [error.code for error in refused] == ["research_full"] * 2
        assert "it has 2 notes, as many as there can be" in refused[0].message
        assert len(await researcher.texts()) == 2


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("research_note", {"text": " "}),
        ("research_note", {"text": "x", "sources": [0]}),
        ("research_note", {"text": "x", "sources": [True]}),
        ("research_note", {"text": "x", "topic": "y" * 101}),
        ("research_search", {"query": ""}),
        ("research_search", {"query": "x", "limit": 21}),
        ("research_report", {"title": ""}),
    ],
)
async def test_arguments_are_checked(tool: str, arguments: dict[str, object]) -> None:
    async with study() as researcher:
        result = await researcher.session.try_message(researcher.session.message(tool, arguments))
        assert isinstance(result.error, InvalidArguments)


@pytest.mark.spec("G10")
async def test_all_of_it_needs_the_permission() -> None:
    async with study(permissions=("http:read",)) as researcher:
        for tool, arguments in (("note", {"text": "x"}), ("search", {"query": "x"}), ("report", {})):
            result = await researcher.session.try_message(researcher.session.message(f"research_{tool}", arguments))
            assert isinstance(result.error, PermissionDenied)
            assert "research:write" in result.error.message


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    "text",
    [
        "Tea [10000000000].",
        "Tea [1, 99999999999999999999].",
        "Tea [1-20000000000].",
        "Tea [2-99999999999999999999999999].",
        f"Tea [{'9' * 1_990}].",
        f"Tea [{'0' * 1_000}9{'0' * 900}, 1].",
        "Tea [0].",
    ],
)
async def test_a_citation_of_an_absurd_number_is_an_unknown_source(text: str) -> None:
    async with study() as researcher:
        await researcher.fetch("/tea")
        with pytest.raises(ToolError, match=r"^there is no source \[.{1,60}\]; there is \[1\] alone") as refused:
            await researcher.note(text)
        assert refused.value.code == "unknown_source"
        await researcher.note(f"Tea [{'0' * 1_000}1].")
        assert (await researcher.report())["cited"] == [1]


@pytest.mark.parametrize("digits", [12, 100, 5_000])
async def test_an_absurd_number_among_the_sources_is_an_unknown_source(digits: int) -> None:
    async with study() as researcher:
        await researcher.fetch("/tea")
        with pytest.raises(ToolError, match=r"^there is no source \[.{1,60}\]; there is \[1\] alone") as refused:
            await researcher.note("Tea.", 1, 10**digits)
        assert refused.value.code == "unknown_source"

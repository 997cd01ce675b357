"""Citations, as ``[1]``, ``[1, 2]`` or ``[1-3]``, and the report that lists their sources (spec 5, P18)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from capset import ToolError
from capset_tools.research.sources import MAX_SOURCES, Note, Source

_CODE: Final = re.compile(
    r"^[ \t]*+(?P<fence>`{3,})[^`\n]*+\n.*?^[ \t]*+(?P=fence)`*+[ \t]*$"
    r"|(?<![`\\])(?P<ticks>`++)(?:(?!\n[ \t]*\n).)+?(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
"""Text that Markdown shows as code; a code span ends with its paragraph."""
_RANGE: Final = r"[0-9]++(?:\s*[-\u2010-\u2014\u2212]\s*[0-9]++)?"
_LINK: Final = r"""\(\s*+(?:<[^<>\n]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s++(?:"[^"]*"|'[^']*'))?\s*+\)"""
_CITED: Final = re.compile(rf"\[\s*({_RANGE}(?:\s*[,;\uff0c\uff1b\u3001]\s*{_RANGE})*)\s*\](?!{_LINK})")
_RANGES: Final = re.compile(_RANGE)
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 16
"""How many digits of a number are read: no source has one of so many, and Python refuses to read thousands."""
_NAMED: Final = 5
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>#|~&]")
_UNSAFE: Final = re.compile(r"[\s<>\\]")
_LINKED: Final = re.compile(r":(?=//)|www(?=\.)", re.IGNORECASE)
"""The beginning of a URL that Markdown turns into a link anywhere."""
_RULE: Final = re.compile(r"-[- \t]*(?:\n|$)")
_DEFINED: Final = re.compile(r"^([ \t>*+\-.)0-9]*\[\s*[0-9]+\s*\]):", re.MULTILINE)


def citation(numbers: Iterable[int]) -> str:
    """Return the citation of some sources."""
    return "".join(f"[{number}]" for number in numbers)


def cited_in(text: str) -> list[int]:
    """Return the numbers that a text itself cites, anywhere in brackets.

    Code in backquotes cites nothing, nor does a link such as ``[1](url)``. Of a range that is longer than the maximum
    number of sources, and so names a missing one, only the ends are returned; of a number with more digits than any
    source's, only the first ones.
    """
    numbers: list[int] = []
    for match in _CITED.finditer(_CODE.sub("`", text)):
        for part in _RANGES.findall(match[1]):
            ends = sorted(int(number.lstrip("0")[:_DIGITS] or 0) for number in _NUMBER.findall(part))
            numbers += range(ends[0], ends[-1] + 1) if ends[-1] - ends[0] < MAX_SOURCES else ends
    return numbers


def check_known(numbers: Iterable[int], sources: Sequence[Source], *, cited: Collection[int] = ()) -> None:
    """Raise ``ToolError`` for a number that no source has; it lists the existing ones.

    ``cited`` are the numbers in the text, where a number may be no citation at all.
    """
    unknown = sorted({number for number in (*numbers, *cited) if not 1 <= number <= len(sources)})
    if not unknown:
        return
    hint = "none is gathered yet: research_fetch one first"
    if sources:
        hint = "there is [1] alone" if len(sources) == 1 else f"there are [1] to [{len(sources)}]"
    if not {*unknown}.isdisjoint(cited):
        hint += "; a number in brackets that cites nothing goes in backquotes"
    more = " and others" if len(unknown) > _NAMED else ""
    named = "".join(_shown(number) for number in unknown[:_NAMED])
    raise ToolError(f"there is no source {named}{more}; {hint}", code="unknown_source")


def _shown(number: int) -> str:
    """Return the citation of a number, which may be too long to be written."""
    return f"[{number}]" if abs(number) < 10 ** (_DIGITS - 1) else f"[a number of {_DIGITS} or more digits]"


def report_of(
    title: str, noted: Sequence[tuple[Note, str]], sources: Sequence[Source], topics: Sequence[str | None]
) -> str:
    """Return a report in Markdown: the notes by topic, the sources they cite, and the other gathered sources.

    The same notes and sources make the same report. ``topics`` are the topics in order, as spelled.
    """
    parts = [f"# {escaped(title)}"]
    for topic in topics:
        items = [_item(note, text) for note, text in noted if folded(note.topic) == folded(topic)]
        parts += [f"## {escaped(topic)}"] if topic is not None else []
        parts.append("\n".join(items))
    if not noted:
        parts.append("There are no notes yet.")
    cited = {number for note, _ in noted for number in note.sources}
    for heading, is_cited in (("Sources", True), ("Gathered, but not cited", False)):
        lines = [_listed(source) for source in sources if (source.number in cited) is is_cited]
        parts += [f"## {heading}", "\n".join(lines)] if lines else []
    return "\n\n".join(parts) + "\n"


def folded(topic: str | None) -> str | None:
    """Return the comparison key of a topic: case and white space make no difference."""
    return None if topic is None else " ".join(topic.split()).casefold()


def topics_of(noted: Collection[Note]) -> list[str | None]:
    """Return the topics of some notes in their first spelling, ``None`` first."""
    spellings = {folded(note.topic): note.topic for note in reversed([*noted])}
    ordered = dict.fromkeys(folded(note.topic) for note in noted)
    return sorted((spellings[key] for key in ordered), key=lambda topic: topic is not None)


def escaped(text: str) -> str:
    """Return a text on one line, without special meaning in Markdown: titles are untrusted.

    No backslash keeps a URL from becoming a link everywhere, so a space is inserted into it.
    """
    return _SPECIAL.sub(r"\\\g<0>", _LINKED.sub(r"\g<0> ", " ".join(text.split())))


def _item(note: Note, text: str) -> str:
    inline = set(cited_in(text))
    behind = citation(number for number in note.sources if number not in inline)
    # The lines after the first belong to the same item, unless one forms a rule together with the item's dash.
    markdown = f"\\{text}" if _RULE.match(text) else text
    # A definition such as [1]: URL would apply to the whole report, and turn its citations into links.
    markdown = _DEFINED.sub(r"\1\\:", markdown)
    return f"- {markdown}{behind and ' ' + behind}".replace("\n", "\n  ")


def _listed(source: Source) -> str:
    title = "" if source.title == source.url else f"{escaped(source.title)}. "
    answered = f", answered by {_autolink(source.elsewhere)}" if source.elsewhere else ""
    return f"- [{source.number}] {title}{_autolink(source.url)}{answered}, fetched {source.fetched_at[:10]}."


def _autolink(url: str) -> str:
    safe = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), url)
    return f"<{safe}>"

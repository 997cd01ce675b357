"""Citations such as ``[1]``, ``[1, 2]`` or ``[1-3]``, and the report that lists their sources (spec 5, P18)."""

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
"""Code in Markdown. A code span ends with its paragraph at the latest."""
_RANGE: Final = r"[0-9]++(?:\s*[-\u2010-\u2014\u2212]\s*[0-9]++)?"
_LINK: Final = r"""\(\s*+(?:<[^<>\n]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s++(?:"[^"]*"|'[^']*'))?\s*+\)"""
_CITED: Final = re.compile(rf"\[\s*({_RANGE}(?:\s*[,;\uff0c\uff1b\u3001]\s*{_RANGE})*)\s*\](?!{_LINK})")
_RANGES: Final = re.compile(_RANGE)
_NUMBER: Final = re.compile(r"[0-9]+")
_DIGITS: Final = 16
"""How many digits of a number are read: no source has as many, and Python refuses to parse thousands."""
_NAMED: Final = 5
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>#|~&]")
_UNSAFE: Final = re.compile(r"[\s<>\\]")
_LINKED: Final = re.compile(r":(?=//)|www(?=\.)", re.IGNORECASE)
"""The part of a bare URL by which Markdown renderers recognise it as a link."""
_RULE: Final = re.compile(r"-[- \t]*(?:\n|$)")
_DEFINED: Final = re.compile(r"^([ \t>*+\-.)0-9]*\[\s*[0-9]+\s*\]):", re.MULTILINE)


def citation(numbers: Iterable[int]) -> str:
    """Return a citation of these sources, such as ``[1][2]``."""
    return "".join(f"[{number}]" for number in numbers)


def cited_in(text: str) -> list[int]:
    """Return the source numbers that a text cites in brackets.

    Code in backquotes cites nothing, nor does a link such as ``[1](url)``. A range longer than the maximum number of
    sources must contain a missing one, so only its two ends are returned. Of a number with more digits than any
    source's, only the first digits are read.
    """
    numbers: list[int] = []
    for match in _CITED.finditer(_CODE.sub("`", text)):
        for part in _RANGES.findall(match[1]):
            ends = sorted(int(number.lstrip("0")[:_DIGITS] or 0) for number in _NUMBER.findall(part))
            numbers += range(ends[0], ends[-1] + 1) if ends[-1] - ends[0] < MAX_SOURCES else ends
    return numbers


def check_known(numbers: Iterable[int], sources: Sequence[Source], *, cited: Collection[int] = ()) -> None:
    """Raise ``ToolError`` for a number that no source has. The message says which ones exist.

    ``cited`` are the numbers in the text, where a number in brackets need not be a citation at all.
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
    """Return the citation of a number, or words for one that is too long to show."""
    return f"[{number}]" if abs(number) < 10 ** (_DIGITS - 1) else f"[a number of {_DIGITS} or more digits]"


def report_of(
    title: str, noted: Sequence[tuple[Note, str]], sources: Sequence[Source], topics: Sequence[str | None]
) -> str:
    """Return a report in Markdown: the notes by topic, the sources they cite, and the other gathered sources.

    Equal notes and sources give equal reports. ``topics`` determines the order and the spelling of the topics.
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
    """Return the comparison key of a topic, which ignores case and white space."""
    return None if topic is None else " ".join(topic.split()).casefold()


def topics_of(noted: Collection[Note]) -> list[str | None]:
    """Return the topics of notes in their first spelling, ``None`` first."""
    spellings = {folded(note.topic): note.topic for note in reversed([*noted])}
    ordered = dict.fromkeys(folded(note.topic) for note in noted)
    return sorted((spellings[key] for key in ordered), key=lambda topic: topic is not None)


def escaped(text: str) -> str:
    """Return an untrusted text, such as a title, on one line and escaped for Markdown.

    A backslash does not keep every renderer from linking a bare URL, so a space is inserted into it.
    """
    return _SPECIAL.sub(r"\\\g<0>", _LINKED.sub(r"\g<0> ", " ".join(text.split())))


def _item(note: Note, text: str) -> str:
    inline = set(cited_in(text))
    behind = citation(number for number in note.sources if number not in inline)
    # Dashes at the beginning would form a thematic break together with the dash of the item.
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

"""A page as Markdown."""

from __future__ import annotations

from capset.builtin.web_fetch.converting import converted


def markdown_of(html: str, base: str) -> str:
    """Return a page as Markdown (CommonMark with the tables of GitHub); ``base`` is its address.

    Links are absolute, and those to ``javascript:``, ``data:`` and the like are left as their text. There are at most
    two newlines in a row, in code blocks too, and no white space at the end of a line. No markup makes it fail. Of a
    page with more than ``tidying.MAX_TAGS`` elements, or longer than ``converting.MAX_CONVERTED``, it is the
    beginning, followed by ``converting.CUT``.
    """
    from html_to_markdown import ConversionOptions

    return converted(html, base, ConversionOptions(extract_metadata=False, compact_tables=True, autolinks=False))

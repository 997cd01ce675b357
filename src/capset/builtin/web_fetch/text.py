"""A page as plain text."""

from __future__ import annotations

from capset.builtin.web_fetch.converting import converted


def text_of(html: str, base: str) -> str:
    """Return what a page says, without markup; ``base`` is its address. The bounds are those of ``markdown_of``."""
    from html_to_markdown import ConversionOptions

    return converted(html, base, ConversionOptions(extract_metadata=False, output_format="plain"))

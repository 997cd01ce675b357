"""What the elements of HTML are to a reader: which break the text, which emphasise it, which are not read at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

UNREAD: Final = frozenset({
    "script", "style", "template", "svg", "iframe", "object", "applet", "audio", "video", "canvas", "select",
    "datalist", "textarea", "title", "noembed", "noframes", "annotation", "annotation-xml",
})  # fmt: skip
"""Left out with all that is in them. ``noscript`` is not: nothing here runs scripts, so it is what the page shows."""

RAW: Final = frozenset({"script", "style", "textarea", "title", "iframe", "noembed", "noframes"})
"""Those in which no markup is read but their own end; one that never ends reaches to the end of the page."""

HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})

WRAPPERS: Final = frozenset({
    "html", "body", "div", "section", "article", "main", "header", "footer", "nav", "aside", "center", "form",
    "fieldset", "legend", "address", "hgroup", "dialog", "search", "menuitem", "figure", "optgroup", "noscript",
})  # fmt: skip
"""They break the text, and mean nothing else."""

_SAME: Final = frozenset({
    "p", "ul", "dl", "dt", "dd", "li", "blockquote", "figcaption", "details", "summary",
    "b", "strong", "i", "em", "s", "del", "code", "kbd", "samp", "mark", "q",
})  # fmt: skip

WRITTEN: Final[Mapping[str, tuple[str, str]]] = {
    **{name: (f"<{name}>", f"</{name}>") for name in _SAME | HEADINGS},
    **dict.fromkeys(WRAPPERS, ("<div>", "</div>")),
    "menu": ("<ul>", "</ul>"),
    "dir": ("<ul>", "</ul>"),
    "strike": ("<s>", "</s>"),
    "tt": ("<code>", "</code>"),
}
"""What is written for an element, at its start and at its end; for one that is not here, nothing."""

EMPHASIS: Final = frozenset(
    {"b", "strong", "i", "em", "s", "strike", "del", "code", "tt", "kbd", "samp", "mark", "q", "a"}
)
"""They run through a line, so they may overlap with others in careless markup."""

BLOCKS: Final = WRAPPERS | HEADINGS | {
    "p", "ul", "ol", "menu", "dir", "dl", "dt", "dd", "li", "blockquote", "pre", "table", "details",
    "summary", "figcaption", "hr", "caption",
}  # fmt: skip
"""They end a paragraph when they begin."""

CELLS: Final = frozenset({"td", "th"})
LISTS: Final = frozenset({"ul", "ol", "menu", "dir"})

ENDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    **dict.fromkeys(BLOCKS - HEADINGS, (frozenset({"p"}), CELLS | {"table"})),
    **dict.fromkeys(HEADINGS, (HEADINGS | {"p"}, CELLS | {"table"} | LISTS)),
    "li": (frozenset({"li"}), LISTS | CELLS | {"table"}),
    "dt": (frozenset({"dt", "dd"}), CELLS | {"table", "dl"}),
    "dd": (frozenset({"dt", "dd"}), CELLS | {"table", "dl"}),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (frozenset({"tr", "caption"}), frozenset({"table"}))),
    **dict.fromkeys(CELLS, (CELLS, frozenset({"table"}))),
    "a": (frozenset({"a"}), CELLS | {"table"}),
}
"""Which open elements an element ends by its start, and what they are not looked for beyond."""

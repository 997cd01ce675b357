"""What the elements of HTML are to a reader: which break the text, which emphasise it, which are not read at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from capset.builtin.web_fetch.stack import LISTS, Element

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

EMPHASIS: Final = frozenset({
    "b", "strong", "i", "em", "s", "strike", "del", "code", "tt", "kbd", "samp", "mark", "q", "a",
})  # fmt: skip
"""They run through a line, so they may overlap with others in careless markup."""

_SAME: Final = HEADINGS | {
    "p", "ul", "dl", "dt", "dd", "li", "blockquote", "figcaption", "details", "summary",
    "b", "strong", "i", "em", "s", "del", "code", "kbd", "samp", "mark", "q",
}  # fmt: skip

WRITTEN: Final[Mapping[str, Element]] = {
    **{name: Element(f"<{name}>", f"</{name}>", droppable=name in EMPHASIS | HEADINGS) for name in _SAME},
    **dict.fromkeys(WRAPPERS, Element("<div>", "</div>")),
    "menu": Element("<ul>", "</ul>"),
    "dir": Element("<ul>", "</ul>"),
    "strike": Element("<s>", "</s>", droppable=True),
    "tt": Element("<code>", "</code>", droppable=True),
}
"""What is written for an element; for one that is not here, nothing."""

BLOCKS: Final = WRAPPERS | HEADINGS | {
    "p", "ul", "ol", "menu", "dir", "dl", "dt", "dd", "li", "blockquote", "pre", "table", "details",
    "summary", "figcaption", "hr", "caption",
}  # fmt: skip
"""They end a paragraph when they begin."""

CELLS: Final = frozenset({"td", "th"})

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

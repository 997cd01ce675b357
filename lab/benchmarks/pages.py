"""A page of the web as Markdown: beside the library alone, which trusts the page, and beside markdownify."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final

from html_to_markdown import ConversionOptions, convert

from capset_tools.web_fetch.conversion import markdown_of
from lab.benchmarks.row import Row

SIZE: Final = 500_000
BASE: Final = "https://example.org/guide/page.html"
_WORDS: Final = "tea leaves open slowly in water that is hot but never boiling and give their colour before their taste"


def page(size: int) -> str:
    """Return a page of about so many characters, as sites have them: scripts, a menu, prose, lists, tables, code."""
    menu = "".join(
        f'<li class="menu-item"><a class="menu-link" href="/topic/{n}">Topic {n}</a></li>' for n in range(60)
    )
    script = "<script>" + 'window.push({"kind": "view", "tags": ["<b>", "</b>"]});\n' * 400 + "</script>"
    style = "<style>" + ".menu-item > .menu-link { color: #334455; margin: 0 auto; }\n" * 300 + "</style>"
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Tea</title>{style}{script}</head>',
        f'<body class="page page--wide"><header class="site-header"><nav><ul class="menu">{menu}</ul></nav></header>',
        "<main>",
    ]
    length, number = sum(map(len, parts)), 0
    while length < size:
        number += 1
        part = _section(number)
        parts.append(part)
        length += len(part)
    return "".join([*parts, '</main><footer class="site-footer"><p>&copy; 2024</p></footer></body></html>'])


def _section(number: int) -> str:
    prose = f"{_WORDS}, {_WORDS}. {_WORDS.capitalize()}; {_WORDS}"
    link = f'<a href="/wiki/{number}" class="internal" title="About it">what is said of it</a>'
    paragraph = (
        f'<p class="body">{prose}, <em>{number}</em> times, and {link}: {prose} &mdash; <code>steep()</code>.</p>\n'
    )
    rows = "".join(f"<tr><td>{n}</td><td>{_WORDS[:20]}</td><td>{n * 7}</td></tr>\n" for n in range(4))
    items = "".join(f"<li>{_WORDS[:40]} <b>{n}</b></li>\n" for n in range(4))
    return (
        f'<section class="part" id="part-{number}"><h2 class="title">Part {number}</h2>\n{paragraph * 4}'
        f'<ul class="list">\n{items}</ul>\n'
        f'<table class="data"><tr><th>n</th><th>what</th><th>much</th></tr>\n{rows}</table>\n'
        f'<pre class="code"><code class="language-python">def steep(minutes):\n    return minutes * {number}\n'
        "</code></pre>\n"
        "</section>\n"
    )


def measure(*, quick: bool) -> list[Row]:
    """Return what safety costs, and how markdownify compares where it is installed."""
    gc.collect()
    gc.freeze()  # what other benchmarks have left is not to be looked through with each page
    try:
        return _measured(2 if quick else 7)
    finally:
        gc.unfreeze()


def _measured(rounds: int) -> list[Row]:
    html = page(SIZE)
    options = ConversionOptions(extract_metadata=False, compact_tables=True, autolinks=False)
    ours = _seconds(lambda: markdown_of(html, BASE), rounds)
    alone = _seconds(lambda: convert(html, options).content, rounds)
    times = {"capset": f"{ours * 1e3:.1f} ms", "html-to-markdown alone": f"{alone * 1e3:.1f} ms"}
    try:
        markdownify: Callable[[str], str] = import_module("markdownify").markdownify
    except ModuleNotFoundError:
        return [_beside_the_library(ours / alone, {**times, "markdownify": "not installed"})]
    peer = _seconds(lambda: markdownify(html), rounds)
    times["markdownify"] = f"{peer * 1e3:.1f} ms"
    return [
        _beside_the_library(ours / alone, times),
        Row(
            "a page of 500 kB as Markdown", round(peer / ours, 1), "times as fast as markdownify", 10, "at least", times
        ),
    ]


def _beside_the_library(ratio: float, times: dict[str, str]) -> Row:
    return Row("a page of 500 kB, hostile or not", round(ratio, 2), "times html-to-markdown alone", 3, "at most", times)


def _seconds(job: Callable[[], object], rounds: int) -> float:
    """Return the least processor time of some rounds: others on the machine take part in no other way."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        job()
        best = min(best, time.process_time() - began)
    return best

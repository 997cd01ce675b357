"""Pages made to cost much: each is converted in a process of its own, which must come to its end, and stay small.

Those processes are forks of one, four pages long, which has imported what they need.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

pytestmark = [
    pytest.mark.spec("P27", "P28"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures with the files of Linux"),
]

SIZE: Final = 10_000_000
SMALL: Final = frozenset({"deep blocks", "deep quotes", "deep emphasis", "text in tables"})
"""Of these each letter costs most time, and no more memory the more there are; a part of the size shows it."""
MOST_MEGABYTES: Final = 64
"""Above what the process had before there was a page; the page, as bytes and as text, is in it."""

PAGES: Final = {
    "deep blocks": "rep('<div>', n)",
    "deep lists": "rep('<ul><li>x', n)",
    "deep quotes": "rep('<blockquote><p>x', n)",
    "deep emphasis": "rep('<b><i><u>', n)",
    "emphasis that overlaps": "rep('<a><b><i><u><s><p></a>', n)",
    "links": "rep('<a href=x>y</a>', n)",
    "cells": "'<table>' + rep('<tr><td>a<td>b<td>c</tr>', n)",
    "spans": "'<table>' + rep('<tr><td rowspan=65534 colspan=1000>a</tr>', n)",
    "text in tables": "'<table>' + rep('<b>x<tr>', n)",
    "attributes": "'<div ' + rep(' '.join(f'a{i}' for i in range(5_000)) + ' ', n) + '>x'",
    "hidden elements": "rep('<p hidden><b hidden><td><i>x', n)",
    "styles": "'<div ' + rep('style=none /* ', n) + '>x'",
    "one attribute": "'<a href=\"' + 'a' * n + '\">x</a>'",
    "less-than": "'<' * n",
    "comments": "rep('<!--', n)",
    "scripts without end": "rep('<svg><template><select>', n)",
    "entities": "rep('&NotEqualTilde;', n)",
    "one long line": "'a' * n",
    "newlines in code": "'<pre>' + '\\n' * n + '</pre>'",
    "code": "'<pre>' + rep('<span>a</span> ', n) + '</pre>'",
    "backquotes": "'<code>' + '`' * n",
}

CHILD: Final = """
import json, os, sys, threading
from capset_tools.web_fetch.conversion import markdown_of
from capset_tools.web_fetch.conversion import text_of
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
convert = {"markdown": markdown_of, "text": text_of}[sys.argv[1]]
convert("<p>warm <b>up</b>", "http://a.example/")
def rep(unit, n):
    return unit * (n // len(unit))
def measure(name, source, n):
    before = peak()
    page = eval(source)
    raw = page.encode()
    page = raw.decode()
    def run():
        print(json.dumps([name, len(convert(page, "http://a.example/")), (peak() - before) / 1024]), flush=True)
    threading.stack_size(512 * 1024)  # as little as a thread of macOS has
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
for name, source, n in json.loads(sys.argv[2]):
    child = os.fork()
    if not child:
        measure(name, source, n)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, (name, status)
"""


def converted(names: list[str], form: str) -> dict[str, tuple[int, float]]:
    """Return for each page how long its conversion is, and how many megabytes the process grew by."""
    pages = [(name, PAGES[name], SIZE // 20 if name in SMALL else SIZE) for name in names]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, form, json.dumps(pages)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == names, done.stderr[-500:]
    return {name: (length, megabytes) for name, length, megabytes in lines}


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.parametrize("names", [list(PAGES)[at::5] for at in range(5)], ids=", ".join)
def test_hostile_pages_are_converted_within_bounds(names: list[str]) -> None:
    for name, (_, megabytes) in converted(names, "markdown").items():
        assert megabytes < (MOST_MEGABYTES / 4 if name in SMALL else MOST_MEGABYTES), name


@pytest.mark.realtime
@pytest.mark.nightly
def test_so_they_are_as_text() -> None:
    for name, (length, megabytes) in converted(["deep lists", "spans", "one long line", "code"], "text").items():
        assert length, name
        assert megabytes < MOST_MEGABYTES, name

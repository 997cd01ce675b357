"""Pages made to cost much: each is converted in a process of its own, which must come to its end, and stay small."""

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
import json, resource, sys, threading
from capset.builtin.web_fetch.markdown import markdown_of
from capset.builtin.web_fetch.text import text_of
def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
convert = {"markdown": markdown_of, "text": text_of}[sys.argv[2]]
convert("<p>warm <b>up</b>", "http://a.example/")
before = peak()
n = int(sys.argv[3])
def rep(unit, n):
    return unit * (n // len(unit))
page = eval(sys.argv[1])
raw = page.encode()
page = raw.decode()
def run():
    print(json.dumps([len(convert(page, "http://a.example/")), (peak() - before) / 1024]))
threading.stack_size(512 * 1024)  # as little as a thread of macOS has
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""


def converted(page: str, form: str, size: int) -> tuple[int, float]:
    """Return how long the conversion is, and how many megabytes the process grew by."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, page, form, str(size)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    length, megabytes = json.loads(done.stdout)
    return length, megabytes


@pytest.mark.parametrize("name", PAGES)
def test_a_hostile_page_is_converted_within_bounds(name: str) -> None:
    _, megabytes = converted(PAGES[name], "markdown", SIZE)
    assert megabytes < MOST_MEGABYTES


@pytest.mark.parametrize("name", ["deep lists", "spans", "one long line", "code"])
def test_so_it_is_as_text(name: str) -> None:
    length, megabytes = converted(PAGES[name], "text", SIZE)
    assert length
    assert megabytes < MOST_MEGABYTES

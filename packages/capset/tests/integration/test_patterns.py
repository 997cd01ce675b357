"""Patterns mean the same on every Python from 3.11.0 on."""

from __future__ import annotations

import ast
import random
import re

import pytest

from capset_tools.web_fetch import markup
from scripts.packages import ROOT

POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
"""What Python matches wrongly before 3.11.5 (gh-106052)."""


def test_no_pattern_has_a_possessive_group() -> None:
    problems: list[str] = []
    for file in ROOT.glob("packages/*/src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if isinstance(node, ast.Constant) and "(?" in text and POSSESSIVE_GROUP.search(text):
                problems.append(f"{file.name}:{node.lineno}: write repeated(…) of web_fetch.markup, or an atomic group")
    assert problems == []


@pytest.mark.parametrize("times", ["*", "+", "?", "{1,16}"])
def test_a_repeated_group_is_the_same_on_older_pythons(times: str, monkeypatch: pytest.MonkeyPatch) -> None:
    group, rest = r"[^<]++|<(b|i)>[^<]++</\1>|\s*+(?:'[^']*+'|[ab])", "(?:</b>|a|$)"
    current = re.compile(markup.repeated(group, times) + rest)
    monkeypatch.setattr("sys.version_info", (3, 11, 2, "final", 0))
    older = re.compile(markup.repeated(group, times) + rest)
    assert "(?>" in older.pattern
    random.seed(1)
    for _ in range(2_000):
        text = "".join(random.choices(["<b>", "</b>", "<i>", "</i>", "a", "b", "'", " "], k=random.randrange(1, 15)))
        match, other = current.search(text), older.search(text)
        assert (match and (match.span(), match.groups())) == (other and (other.span(), other.groups())), text

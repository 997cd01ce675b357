"""The common questions of the home page lead to the sections that answer them, in one click."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from scripts.packages import ROOT

DOCS: Final = ROOT / "docs"
QUESTION: Final = re.compile(r"^\| ([^|]+\?) \| \[[^\]]+\]\(([^)#]+)#([^)]+)\) \|$", re.MULTILINE)
TOPICS: Final = (
    "finance", "refused", "dies", "rotate keys", "sub-path", "credentials", "Claude Desktop", "upgrade", "own store",
    "test my capability", "replicas", "cost",
)  # fmt: skip
ANSWERS: Final = QUESTION.findall((DOCS / "index.md").read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("topic", TOPICS)
def test_a_newcomers_question_is_one_click_from_its_answer(topic: str) -> None:
    answers = [(page, anchor) for question, page, anchor in ANSWERS if topic in question]
    assert len(answers) == 1
    page, anchor = answers[0]
    assert anchor in anchors_of(DOCS / page)

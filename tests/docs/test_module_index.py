"""The index of modules in AGENTS.md is what the docstrings say."""

from __future__ import annotations

from scripts.module_index import AGENTS, HEADING, ROOT, first_line, index


def test_the_index_is_what_the_docstrings_say() -> None:
    written = AGENTS.read_text("utf-8").partition(f"\n{HEADING}\n")
    assert f"{HEADING}\n{written[2]}" == index(), "run python -m scripts.module_index"


def test_a_line_has_neither_references_nor_a_full_stop() -> None:
    assert first_line(ROOT / "src/capset/kernel/governance/limits.py") == (
        "The limits and budgets of calls, and the errors when they are exceeded"
    )
    assert "- `limits.py`: The limits and budgets of calls" in index()

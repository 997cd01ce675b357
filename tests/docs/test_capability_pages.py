"""Every built-in has a page, whose facts are those of its definition."""

from __future__ import annotations

import pytest

from scripts.capability_pages import ALL, BLOCK, EXTRAS, PAGES, UNTOLD, capabilities, facts, page_of, render

KNOWN = capabilities()
ICONS = {
    "current_time": "clock",
    "test_math": "calculator",
    "test_weather": "cloud-sun",
    "research": "search",
    "sandbox": "box",
    "session_file_system": "folder",
    "web_fetch": "globe",
    "stateless_todo_list": "list-checks",
}
"""Those that the first specification names."""


@pytest.mark.spec("P17")
@pytest.mark.parametrize("name", KNOWN)
def test_each_has_a_page_and_says_what_it_is(name: str) -> None:
    detail, page = KNOWN[name], page_of(name)
    assert page.exists(), f"{name} has no page: write {page.name}, then python -m scripts.capability_pages"
    blocks = {block[1]: block[2].strip() for block in BLOCK.finditer(page.read_text("utf-8"))}
    assert blocks.get(name) == facts(detail), "write the facts anew: python -m scripts.capability_pages"
    assert detail.category
    assert detail.description
    assert detail.icon == ICONS.get(name, detail.icon)
    instructions = detail.instructions or [text for preset in detail.presets for text in preset.instructions]
    assert bool(instructions) is (name not in UNTOLD), "it has instructions, or a reason in UNTOLD for having none"


def test_what_is_said_by_name_is_said_of_a_built_in() -> None:
    assert KNOWN.keys() >= EXTRAS.keys() | UNTOLD.keys(), "they are renamed or gone: change EXTRAS or UNTOLD"


def test_the_index_has_all_of_them() -> None:
    index = (PAGES / "index.md").read_text("utf-8")
    assert [block[1] for block in BLOCK.finditer(index)] == [ALL]
    assert render(index, KNOWN) == index, "write the facts anew: python -m scripts.capability_pages"

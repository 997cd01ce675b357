"""Each page of the console is routed, and has its tests, one of them in a browser (the recipe of ``AGENTS.md``)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Final

import pytest

from capset_server.console import pages
from capset_server.console.app import MENU, PAGES

HERE: Final = Path(__file__).parent
TESTS_OF: Final = {
    **dict.fromkeys(("audit", "fingerprints"), "records"),
    **dict.fromkeys(("account", "keys", "limits", "organisations", "principals"), "administration"),
    **dict.fromkeys(("deliveries", "people"), "notifications"),
}
"""The tests of pages that are not called as their paths begin."""


def routed() -> Iterator[ModuleType]:
    """Yield the modules of pages that have routes."""
    for module in iter_modules(pages.__path__, f"{pages.__name__}."):
        if hasattr(made := import_module(module.name), "ROUTES"):
            yield made


NOUNS: Final = sorted({route.path.split("/")[1] for module in routed() for route in module.ROUTES})
"""The beginnings of all paths."""


def test_every_module_with_routes_is_among_the_pages() -> None:
    missing = sorted(module.__name__ for module in routed() if module not in PAGES)
    assert not missing, f"put {missing} into PAGES of capset_server/console/app.py"


def test_every_place_of_the_menu_is_a_page() -> None:
    paths = {route.path for module in PAGES for route in module.ROUTES if route.method == "GET"}
    missing = sorted(place.path for place in MENU if f"/{place.path}" not in paths)
    assert not missing, f"{missing} in MENU of capset_server/console/app.py: no page has such a path"


@pytest.mark.parametrize("noun", NOUNS)
def test_every_page_has_tests_and_is_walked_in_a_browser(noun: str) -> None:
    name = TESTS_OF.get(noun, noun)
    advice = f"the pages below /{noun} need it, or the name of their tests in TESTS_OF of {__name__}"
    assert (HERE / f"test_{name}.py").is_file(), f"tests/server/console/test_{name}.py: {advice}"
    journeys = HERE / f"test_{name}_journeys.py"
    assert journeys.is_file(), f"tests/server/console/{journeys.name}: {advice}"
    text = journeys.read_text("utf-8")
    assert "pytest.mark.browser" in text, f"tests/server/console/{journeys.name} runs no browser: mark it so"
    assert "hold_page(" in text, f"tests/server/console/{journeys.name} must await hold_page(page) on each page"

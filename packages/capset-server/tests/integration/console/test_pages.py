"""Each page of the console is routed, and has its tests, one of them in a browser (the recipe of ``AGENTS.md``)."""

from __future__ import annotations

from typing import Final

import pytest

from capset_server.console.app import MENU, PAGE_ROUTES
from scripts.packages import ROOT

FOLDER: Final = "packages/capset-server/tests/integration/console"
TESTS_OF: Final = {
    "": "home",
    **dict.fromkeys(("audit", "fingerprints"), "records"),
    **dict.fromkeys(("account", "keys", "limits", "organisations", "principals"), "administration"),
    **dict.fromkeys(("deliveries", "people"), "notifications"),
}
"""The tests of pages that are not called as their paths begin."""


NOUNS: Final = sorted({route.path.split("/")[1] for route in PAGE_ROUTES})
"""The beginnings of all paths."""


def test_every_place_of_the_menu_is_a_page() -> None:
    paths = {route.path for route in PAGE_ROUTES if route.method == "GET"}
    missing = sorted(place.path for place in MENU if f"/{place.path}" not in paths)
    assert not missing, f"{missing} in MENU of capset_server/console/app.py: no page has such a path"


@pytest.mark.parametrize("noun", NOUNS)
def test_every_page_has_tests_and_is_walked_in_a_browser(noun: str) -> None:
    name = TESTS_OF.get(noun, noun)
    advice = f"the pages below /{noun} need it, or the name of their tests in TESTS_OF of {__name__}"
    assert (ROOT / FOLDER / f"test_{name}.py").is_file(), f"{FOLDER}/test_{name}.py: {advice}"
    journeys = ROOT / FOLDER / f"test_{name}_journeys.py"
    assert journeys.is_file(), f"{FOLDER}/{journeys.name}: {advice}"
    text = journeys.read_text("utf-8")
    assert "pytest.mark.browser" in text, f"{FOLDER}/{journeys.name} runs no browser: mark it so"
    assert "hold_page(" in text, f"{FOLDER}/{journeys.name} must await hold_page(page) on each page"

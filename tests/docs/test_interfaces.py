"""What the pages name is there: commands with their options, and paths of the REST API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from scripts.packages import ROOT
from tests.helpers.commands import commands_in, unknown_words

PAGES: Final = [ROOT / "README.md", ROOT / "docs/index.md", *sorted((ROOT / "docs").glob("[cg]*/*.md"))]
REQUEST: Final = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) (/v1/[\w{}/.-]*\w)")
DOCUMENT: Final = json.loads((ROOT / "tests/golden/openapi.json").read_text(encoding="utf-8"))
CHATS: Final = ("/ai-sdk", "/ag-ui")
"""The protocols of others, which the document leaves out."""


def is_served(method: str, path: str) -> bool:
    """Return whether the OpenAPI document has a request."""
    templates = [template for template, operations in DOCUMENT["paths"].items() if method.lower() in operations]
    patterns = (re.sub(r"\{\w+\}", "[^/]+", template) for template in templates)
    return path.endswith(CHATS) or any(re.fullmatch(pattern, path) for pattern in patterns)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_options_and_requests_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    unknown = {" ".join(words): options for words in commands_in(text) if (options := unknown_words(words))}
    assert unknown == {}
    assert [request for request in REQUEST.findall(text) if not is_served(*request)] == []

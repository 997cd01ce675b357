from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.agents.support import Shelf


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'capset.db'}"

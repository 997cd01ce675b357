from __future__ import annotations

import pytest

from tests.helpers.kernel.streams.fixtures import (
    anyio_backend,
    impatient,
    nothing_is_left_behind,
    pytest_collection_modifyitems,
    stage,
)
from tests.helpers.kernel.streams.support import DOORS, FORMS

__all__ = ["anyio_backend", "impatient", "nothing_is_left_behind", "pytest_collection_modifyitems", "stage"]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param

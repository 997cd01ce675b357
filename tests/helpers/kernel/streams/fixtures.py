"""Tests on virtual time, and at night on uvloop, whose time is real; the stage looks at what is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.kernel import kernel as kernel_module
from capset.kernel import runtime
from capset.kernel.call.stages import run as handling
from capset.kernel.streams import processors as processing
from tests.helpers.kernel.fixtures import nothing_is_left_behind
from tests.helpers.kernel.streams.support import DOORS, FORMS, Stage
from tests.virtual_time import VIRTUAL

__all__ = ["nothing_is_left_behind"]
QUICK = 0.1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the night what varies both the form of the processor and the door to it."""
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("form", FORMS[0]) != FORMS[0] and params.get("door", DOORS[0]) != DOORS[0]:
            item.add_marker("nightly")


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(VIRTUAL, id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop", marks=[pytest.mark.nightly, pytest.mark.realtime]),
    ],
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Give the stage: on SQLite, but in memory where the test asks for that, or on uvloop, which changes no store."""
    is_quick = "uvloop" in request.node.name and not hasattr(request, "param")
    path = None if is_quick or getattr(request, "param", "sqlite") == "memory" else tmp_path / "capset.db"
    return Stage(path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> float:
    """Shorten all bounds on waiting for what should have ended, and give their length."""
    monkeypatch.setattr(runtime, "CLEANUP_SECONDS", QUICK)
    monkeypatch.setattr(processing, "CLEANUP_SECONDS", QUICK)
    monkeypatch.setattr(handling, "CLEANUP_SECONDS", QUICK)
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", QUICK)
    return QUICK

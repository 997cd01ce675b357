"""Fixtures and rules of every test, of the packages and of lab/."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import real_time
from tests.examples import PROFILE

if TYPE_CHECKING:
    from tests.databases import Server

pytest.register_assert_rewrite("tests.helpers")  # fixtures assert, too
MEMORY = Path("/dev/shm")
ROOM_BYTES = 3 << 30
NOT_INSTALLED = Path(__file__).parent / ".reports/not-installed"

# How long an example takes says more about the machine than about the code.
settings.register_profile("here", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile(PROFILE)

# Each client of a test would load the machine's trust store, which takes longer than most tests.
if find_spec("httpx2"):  # which the library alone has not
    import httpx2
    from httpx2._transports import default as transports

    pytest.MonkeyPatch().setattr(transports, "create_ssl_context", cache(httpx2.create_ssl_context))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Answer ``-n auto``: two processes more than there are cores, since many tests wait for what takes its time."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return (cores or 1) + 2


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have tests write to memory where that has room: only processes fail here, and to wait for a disk proves nothing.

    ``TMPDIR`` says where else. ``CAPSET_LOOP=uvloop`` has tests run on the loop that servers have.
    """
    config.pluginmanager.register(real_time)
    real_time.install()
    if os.environ.get("CAPSET_LOOP") == "uvloop":
        uvloop = import_module("uvloop")  # which Windows has not
        # The one thing that asyncio's runner and anyio's both ask.
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())  # pyright: ignore[reportDeprecated]
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return
    found = os.statvfs(MEMORY)
    if found.f_bavail * found.f_frsize >= ROOM_BYTES and not found.f_flag & (os.ST_RDONLY | os.ST_NOEXEC):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage again and again, and leave the tests out of every later search for it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests whose examples Hypothesis makes up, and the checks of suites that start interpreters."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("property")
    if "hashes_are_the_same_in_every_process" in item.name:
        item.add_marker("realtime")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a skipped test fail in CI, unless a program could not be installed (``scripts/install_for_tests.sh``)."""
    report = yield
    is_complete = os.environ.get("CI") and not any(NOT_INSTALLED.glob("*"))
    if is_complete and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def postgres() -> Generator[Server]:
    """Give a PostgreSQL server for this process of the tests, started when it is first asked for."""
    from tests.databases import Server

    try:
        # Not in pytest's own folder: the path of a socket has 107 bytes at most.
        server = Server(Path(tempfile.mkdtemp(prefix="capset-pg-")))
    except Exception as error:
        pytest.skip(f"no PostgreSQL server can be started here: {error!r}")
    with ThreadPoolExecutor(1) as thread:  # an async test may be the first that asks for it, while its loop runs
        thread.submit(asyncio.run, server.prepare()).result()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres: Server) -> Generator[str]:
    """Give the URL of a new PostgreSQL database."""
    with postgres.database() as url:
        yield url

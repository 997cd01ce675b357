"""``--open``: the console in the browser that ``BROWSER`` names, at the end of a demo or of a server's start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli.support import Command
from tests.waiting import wait_until

_OPENER = "import pathlib, sys; pathlib.Path({told!r}).write_text(sys.argv[1])"
_SECONDS = 60.0
_APART: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
_SERVE = ("serve", "--insecure", "--port", "0", "--open")


def browser(folder: Path) -> tuple[dict[str, str], Path]:
    """Return the environment of a browser that only notes which address it was given, and where it does."""
    opened, opener = folder / "opened", folder / "opener.py"
    opener.write_text(_OPENER.format(told=str(opened)))
    return {"BROWSER": f"{sys.executable} {opener} %s"}, opened


@pytest.mark.realtime
@pytest.mark.spec("N15")
@pytest.mark.parametrize("words", [_SERVE, pytest.param(("demo", "--open"), marks=pytest.mark.nightly)])
def test_the_console_is_opened(capset: Command, words: tuple[str, ...]) -> None:
    environ, opened = browser(capset.folder)
    started = Command(capset.folder, {**capset.environ, **environ}).start_anew(*words, **_APART)

    def address() -> str:
        assert started.poll() is None
        return opened.read_text() if opened.exists() else ""

    try:
        with urllib.request.urlopen(wait_until(address, "the browser to be opened")) as page:
            assert "<title>" in page.read().decode()
    finally:
        os.killpg(started.pid, signal.SIGINT)
        started.wait(_SECONDS)

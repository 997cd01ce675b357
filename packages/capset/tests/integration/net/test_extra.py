"""Without the extra the client says what to install; with it, nothing is loaded before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from capset.extras import install_command

ASK = """
import asyncio, sys
from capset import ToolError
from capset.ext import HttpClient
from capset_tools.http import http

async def main():
    assert not {"httpx2", "httpcore2", "brotli", "backports.zstd"} & set(sys.modules)
    sys.modules["httpcore2"] = None
    try:
        async with HttpClient().open("GET", "https://example.com/", timeout=1):
            pass
    except ToolError as error:
        print(error.code, error.hint)

asyncio.run(main())
"""


@pytest.mark.realtime
def test_a_missing_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True, text=True)
    assert done.stdout == f"not_installed {install_command('web')}\n"

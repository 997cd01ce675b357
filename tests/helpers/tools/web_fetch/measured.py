"""Run as a program of its own: fetch a URL, and print by how much that raised the most memory it ever had.

``measured.py URL WARM-UP ARGUMENTS``: the warm-up is fetched first, so that imports and threads belong to the baseline.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from capset_testing import session_for
from capset_tools.web_fetch import WebFetchConfig, web_fetch_over

STATUS = Path("/proc/self/status")


def peak() -> int:
    """Return the most KiB that were resident; where the kernel says so of this program, and not of its parent too."""
    if STATUS.exists():
        return next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used // 1024 if sys.platform == "darwin" else used


async def main(url: str, warm_up: str, arguments: dict[str, Any]) -> None:
    capability, config = web_fetch_over(first_byte=5.0), WebFetchConfig(allow=("127.0.0.1",))
    async with session_for(capability, permissions=["http:read"], config=config) as desk:
        tool = desk.session.snapshot.tools["web_fetch"].tool
        await desk.session.call(tool, warm_up, **arguments)
        baseline = peak()
        page = await desk.session.call(tool, url, **arguments)
        summary = {key: page.get(key) for key in ("size", "truncated", "format", "error")}
        print(json.dumps({**summary, "end": page.get("content", "")[-60:], "mb": (peak() - baseline) / 1024}))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))

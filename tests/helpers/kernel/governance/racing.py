"""A server that approves requests, all of its principals at once: ``racing.py URL NOW NAME…``; the ids come by stdin.

It prints one line of JSON for each attempt: whether it was taken.
"""

from __future__ import annotations

import asyncio
import json
import sys

from capset import Kernel, Principal
from capset.errors import Conflict
from capset.ext import Answer
from capset_testing import FakeClock


async def main(url: str, now: int, names: list[str]) -> None:
    """Approve every request as every principal."""
    async with Kernel(store=url, clock=FakeClock(now)) as kernel:
        print("ready", flush=True)
        requests = (await asyncio.to_thread(sys.stdin.read)).split()

        async def approve(request: str, name: str) -> None:
            try:
                await kernel.approvals.decide(request, Answer(approved=True), by=Principal(name, org="acme"))
                taken = True
            except Conflict:
                taken = False
            print(json.dumps({"id": request, "by": name, "taken": taken}), flush=True)

        await asyncio.gather(*[approve(request, name) for request in requests for name in names])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))

"""A server with a runner, on the database that it is given, which serves until it is killed.

It prints one line of JSON: its address, and the keys of ada and of one who may approve what she asks for.
"""

from __future__ import annotations

import asyncio
import json
import sys

from tests.server.approving import till
from tests.server.runners import Parrot
from tests.server.support import site


async def main(store: str) -> None:
    """Serve for ever."""
    async with site(till, store=store, generator=Parrot()) as here:
        approver = await here.key("bea")
        print(json.dumps({"url": here.url, "key": here.keys["ada"], "approver": approver}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

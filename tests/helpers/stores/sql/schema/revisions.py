"""A program that opens a store, and the indexes of words among those of a database."""

from __future__ import annotations

OPEN = """
import asyncio, sys

async def main():
    store = store_at(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    await store.close()
    print("alembic" in sys.modules, flush=True)

asyncio.run(main())
"""


def is_no_index_of_words(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or not str(name).startswith("document_words")

"""The retention of links and payloads, which goes with that of the records (spec 2, F36)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from capset.clock import iso
from capset.stores.base.lineage import RENEWAL_SECONDS

RECORD_HASHES: Final = ("static_hash", "runtime_hash", "prompt_hash", "tool_hash", "code_hash")
"""The columns of a record that name a hash with a payload."""
REFERRING_KINDS: Final = ("agent", "block", "capability", "toolkit", "runtime")
"""The kinds of payloads that refer to other payloads."""
_HASH: Final = re.compile('"([0-9a-f]{64})"')


def unnamed_before(before: str) -> str:
    """Return the time since when a payload must not have been named, to go with the records from before ``before``.

    A process stores a payload again only after ``RENEWAL_SECONDS``, although its records have named it until then.
    """
    limit = datetime.fromisoformat(before) - timedelta(seconds=RENEWAL_SECONDS)
    return iso(round(limit.timestamp()) * 1_000_000_000)


def hashes_in(texts: Iterable[str]) -> set[str]:
    """Return every hash that some JSON texts contain, such as payloads, or the tools of links."""
    return {payload_hash for text in texts for payload_hash in _HASH.findall(text)}


def reachable(hashes: Iterable[str], read: Callable[[list[str]], Iterable[str]]) -> set[str]:
    """Return some hashes, and all those that their payloads refer to, directly or not.

    ``read`` returns the payloads of ``REFERRING_KINDS`` among some hashes.
    """
    reached: set[str] = set()
    pending = {*hashes}
    while pending:
        reached |= pending
        pending = hashes_in(read(sorted(pending))) - reached
    return reached


def named_hashes(rows: Iterable[Mapping[str, object]]) -> set[tuple[str, str]]:
    """Return the hashes that some records name, each with the record's org, ``""`` for none."""
    return {(str(row["org"] or ""), str(value)) for row in rows for name in RECORD_HASHES if (value := row[name])}

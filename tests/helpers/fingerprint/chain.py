"""Links of a chain of records."""

from __future__ import annotations

from typing import Any

from capset.fingerprint.chain import GENESIS, seal
from capset_testing.store_suite.support import entry


def links(count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    previous = GENESIS
    for seq in range(1, count + 1):
        row = {**entry(f"a{seq}").columns(), "seq": seq, "writer": "w", "previous": previous}
        rows.append(seal(row))
        previous = row["hash"]
    return rows

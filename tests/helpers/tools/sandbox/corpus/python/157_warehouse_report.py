#!/usr/bin/env python3
"""Report which warehouse items have to be ordered again."""
# Which items fall below their reorder point within the next two weeks, and what does the order cost?

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

DATA_FILE = Path("warehouse.json")


@dataclass
class Item:
    name: str
    stock: int
    daily_use: float
    reorder_point: int
    pack: int
    unit_cost: float

    def days_left(self) -> float:
        """Return how many days the stock lasts."""
        return self.stock / self.daily_use if self.daily_use else math.inf

    def to_order(self, days: int) -> int:
        """Return the packs to order so that the stock lasts."""
        expected = self.stock - self.daily_use * days
        if expected >= self.reorder_point:
            return 0
        return math.ceil((self.reorder_point - expected) / self.pack)


def load_items(path: Path) -> list[Item]:
    """Load the items from a JSON file."""
    try:
        return [Item(**entry) for entry in json.loads(path.read_text())]
    except (OSError, json.JSONDecodeError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)


def main() -> None:
    rows = [["screws", 5000, 220.5, 2000, 1000, 0.02], ["panels", 40, 1.5, 25, 5, 31.4], ["glue", 12, 0, 6, 1, 4.95]]
    keys = list(Item.__dataclass_fields__)
    DATA_FILE.write_text(json.dumps([dict(zip(keys, row)) for row in rows], indent=2))
    total = 0.0
    for item in load_items(DATA_FILE):
        packs = item.to_order(14)
        cost = packs * item.pack * item.unit_cost
        total += cost
        print(f"{item.name:<8} {item.days_left():>7.2f} days left | order {packs} x {item.pack:<5} = {cost:8.2f}")
    print(f"Total: {total:,.2f}")


if __name__ == "__main__":
    main()

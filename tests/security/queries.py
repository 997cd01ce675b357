"""Queries that are made instead of listed, for classes without end: ``generated`` in sql.yaml names these."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Final

WRITES: Final = ("DELETE FROM people", "DROP TABLE people", "INSERT INTO people VALUES (5, 'eve')")
BETWEEN: Final = (";", " ; ", ";\n", ";--\n", "/**/;/**/", ";;", ";\t;")


def stacked() -> Iterator[str]:
    """Yield a query and a write after it, with every way to end a statement between them."""
    for end, write in product(BETWEEN, WRITES):
        yield f"SELECT 1{end}{write}"


def disguised() -> Iterator[str]:
    """Yield writes whose letters and gaps are changed in ways that mean nothing to an engine."""
    dice = random.Random(4)
    for write in WRITES * 5:
        words = ["".join(dice.choice((letter.upper(), letter.lower())) for letter in word) for word in write.split()]
        gaps = [dice.choice((" ", "\t", "\n", "/* SELECT */", " -- SELECT 1\n", "\r\n", "\f")) for _ in words]
        yield "".join(gap + word for gap, word in zip(gaps, words, strict=True))


GENERATORS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {"stacked": stacked, "disguised": disguised}

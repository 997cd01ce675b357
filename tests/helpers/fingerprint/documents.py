"""Documents made from a seed, with everything in them that canonical JSON can get wrong; and their form without it."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from random import Random
from typing import Any, Final

EXACT: Final = 2**53
ALPHABETS: Final = (
    "abcdefghijklmnopqrstuvwxyz_",
    "AZaz019 .,:;-+*/\\\"'{}[]()<>$#e",
    "\x00\x01\x07\x08\t\n\x0b\x0c\r\x1b\x1f \x7f\x80\x9f",
    "äéßñçøþž\u0301\u200b\u2028\u2029\ufeff",
    "日本語한국어ไทยעברית",
    # Neighbours in one order and far apart in the other.
    "\ud7ff\ue000\uf8ff\ufb33\uffff\U00010000\U0001f600\U0010ffff",
)
LOOK_ALIKES: Final = (
    *("1", "-1", "1.5", "1e+22", "-0.0", "true", "false", "null", "NaN", "", "$int", "9007199254740993"),
    *('{"1":', '{"true":1}', ":1.5,", ",1e-07]", "12:00:00.123Z", '":0.0}', "[" * 20, "\\", '\\"', '"', "0" * 40),
)
"""Texts that look like what the shortcut must leave to the walk."""


def documents(seed: int, count: int) -> Iterator[Any]:
    """Yield so many documents, the same ones for the same seed."""
    random = Random(seed)
    for number in range(count):
        document = _value(random, 3)
        if number % 50 == 0:
            for _ in range(random.randrange(1, 30) if number % 1000 else random.randrange(95, 130)):
                document = [document] if random.random() < 0.5 else {_text(random): document}
        yield document


def for_reference(value: Any) -> Any:
    """Return a document as the reference takes it: with integers beyond ±2^53, and what looks like them, as written.

    The reference refuses ±2^53 too, which RFC 8785 would write as the number that it is.
    """
    match value:
        case bool():
            return value
        case int():
            return value if abs(value) < EXACT else float(value) if abs(value) == EXACT else {"$int": str(value)}
        case list() | tuple():
            return [for_reference(item) for item in value]
        case dict():
            members = {key: for_reference(member) for key, member in value.items()}
            return {f"${key}": members[key] for key in members} if looks_tagged(value) else members
        case _:
            return value


def looks_tagged(members: dict[str, Any]) -> bool:
    """Return whether an object is one that the written form of an integer has to be told apart from."""
    if len(members) != 1:
        return False
    ((key, value),) = members.items()
    if not isinstance(value, str) or not re.fullmatch(r"\$+int", key) or not re.fullmatch(r"-?[1-9][0-9]*", value):
        return False
    return len(value) <= 4_300 and abs(int(value)) > EXACT


def _value(random: Random, levels: int) -> Any:
    chance = random.random()
    if levels == 0 or chance < 0.35:
        return _scalar(random)
    size = random.choice((0, 1, 1, 2, 2, 3, 4))
    if chance < 0.6:
        items = [_value(random, levels - 1) for _ in range(size)]
        return tuple(items) if chance < 0.4 else items
    return {_text(random): _value(random, levels - 1) for _ in range(size)}


def _scalar(random: Random) -> Any:
    match random.randrange(10):
        case 0:
            return random.choice((None, True, False))
        case 1 | 2:
            return random.randrange(-1000, 1000)
        case 3:
            return random.choice((-1, 1)) * (EXACT + random.randrange(-3, 4)) * random.choice((1, 1, 1, 10, 10**300))
        case 4:
            return _number(random)
        case _:
            return _text(random)


def _number(random: Random) -> float:
    match random.randrange(5):
        case 0:
            return random.choice((0.0, -0.0, 1.0, -1.5, 5e-324, 1.7976931348623157e308, 0.1, 1e21, 1e-7, 2.0**53))
        case 1:
            return random.uniform(-1000, 1000)
        case 2:
            return float(f"{random.choice('-+')}{random.randrange(1, 10**6)}e{random.randrange(-30, 30)}")
        case 3:
            return math.nextafter(10.0 ** random.randrange(-10, 25), random.choice((0, math.inf)))
        case _:
            (number,) = struct.unpack(">d", random.randbytes(8))
            return number if math.isfinite(number) else 0.5


def _text(random: Random) -> str:
    chance = random.random()
    if chance < 0.15:
        return random.choice(LOOK_ALIKES)
    alphabet = ALPHABETS[0] if chance < 0.6 else random.choice(ALPHABETS)
    return "".join(random.choices(alphabet, k=random.randrange(8)))

"""Retries of tools: the number of attempts, and the delays between them (spec 4, G25)."""

from __future__ import annotations

from dataclasses import dataclass
from sys import float_info
from typing import Final

from capset.definitions.fields import REAL, checked_field, requiring, store_checked, within
from capset.errors import DefinitionError

MAX_ATTEMPTS: Final = 100


_checked_attempts: Final = requiring(f"{{}} is a whole number, 2 to {MAX_ATTEMPTS}", within(int, 2, MAX_ATTEMPTS))
_checked_delay: Final = requiring("a retry's {} is a number of seconds, 0 or more", within(REAL, 0, float_info.max))


@dataclass(frozen=True, slots=True)
class Retry:
    """Retries with up to ``max_attempts`` attempts, including the first.

    After attempt ``n``, a random delay between 0 and the smaller of ``base × 2ⁿ⁻¹`` and ``cap`` seconds passes
    (exponential backoff with full jitter).
    """

    max_attempts: int = checked_field(_checked_attempts)
    base: float = checked_field(_checked_delay, 0.1)
    cap: float = checked_field(_checked_delay, 10.0)

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for invalid numbers."""
        store_checked(self)

    def max_delay(self, attempt: int) -> float:
        """Return the longest delay in seconds between an attempt (the first is 1) and the next."""
        return min(self.cap, self.base * 2.0 ** (attempt - 1))


def checked_retry(owner: str, value: Retry | int | None, *, idempotent: bool) -> Retry | None:
    """Return the retries of a tool. Raises ``DefinitionError`` for a tool that is not idempotent."""
    if value is None:
        return None
    try:
        retry = value if isinstance(value, Retry) else Retry(value)
    except DefinitionError as error:
        raise DefinitionError(f"{owner}: retry: {error.message}") from None
    if not idempotent:
        raise DefinitionError(
            f"{owner} is not idempotent, so it is never retried",
            hint="set idempotent=True if calling it twice has the same effect as calling it once, or leave retry out",
        )
    return retry

"""The port of the requests for approvals (spec 4, G16–G18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.approvals import ApprovalRow, ApprovalStatus, EqualCall

STANDING: Final[tuple[ApprovalStatus, ...]] = ("pending", "approved", "rejected")
"""The statuses in which a request stands, until it expires: an equal call meets it."""


@dataclass(frozen=True, slots=True)
class ApprovalQuery:
    """Which requests of one org: those that equal every field that is not ``None``, newest first.

    ``limit`` is 1–1,000; ``before`` is the id that the page ends before (keyset paging, spec 5, P15).
    """

    org: str | None
    status: ApprovalStatus | None = None
    session: str | None = None
    tool_hash: str | None = None
    digest: str | None = None
    limit: int = 50
    before: str | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit beyond 1–1,000."""
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"the limit of a query is 1–1,000, not {self.limit}")


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Some requests, and the ``before`` that asks for those that follow them, if there are any."""

    items: tuple[ApprovalRow, ...]
    next: str | None


class ApprovalStore(Protocol):
    """The requests, each of one org."""

    async def open(self, row: ApprovalRow, *, most: int, by_code: bool = False) -> ApprovalRow | None:
        """Keep a new request, and return it; or the one that stands for an equal call at its ``created_at``.

        With ``by_code`` equal calls have the row's hash of code, or none as it has none.
        Of equal requests that are made at once, in whatever process, one is kept. ``None`` where ``most`` requests of
        its principal, for whom it acts alike, are pending. Raises ``StoreError`` if there is one of its id.
        """
        ...

    async def standing(self, call: EqualCall, now: str) -> ApprovalRow | None:
        """Return the newest request for an equal call that stands: pending, approved or rejected, and not expired.

        Code counts where the call says which.
        """
        ...

    async def get(self, org: str | None, id: str) -> ApprovalRow | None:
        """Return a request of an org, or ``None``."""
        ...

    async def list(self, query: ApprovalQuery) -> ApprovalPage:
        """Return requests, newest first."""
        ...

    async def move(self, row: ApprovalRow, expected: ApprovalStatus) -> bool:
        """Keep ``row`` in the place of the request of its id and org, if that has the expected status still.

        Returns whether it had, durably: of several who move one request at once, one is told so.
        """
        ...

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return requests of every org, pending or approved, that expire at ``now`` or before, the oldest first."""
        ...

"""The protocol of the requests for approvals (spec 4, G16–G18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.approvals import ApprovalRow, ApprovalStatus, EqualCall

STANDING: Final[tuple[ApprovalStatus, ...]] = ("pending", "approved", "rejected")
"""The statuses in which a request stands, until it expires: an equal call meets it."""


@dataclass(frozen=True, slots=True)
class ApprovalQuery:
    """A query for requests of one org that equal every field that is not ``None``, newest first.

    ``limit`` is 1–1,000; ``before`` is the id that the page ends before (keyset paging).
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
    """Some requests, and the ``before`` of the next page, if there is one."""

    items: tuple[ApprovalRow, ...]
    next: str | None


class ApprovalStore(Protocol):
    """The requests, each of one org."""

    async def open(self, row: ApprovalRow, *, most: int, by_code: bool = False) -> ApprovalRow | None:
        """Store a new request and return it, or return the standing one for an equal call at its ``created_at``.

        With ``by_code`` equal calls also share the row's hash of code, or have none if it has none. Of equal requests
        that are made at once, in any processes, one is stored. ``None`` if ``most`` requests of its principal, with the
        same ``on_behalf_of``, are pending. Raises ``StoreError`` if its id is taken.
        """
        ...

    async def standing(self, call: EqualCall, now: str) -> ApprovalRow | None:
        """Return the newest standing request for an equal call: pending, approved or rejected, and not expired.

        Code is compared if the call names it.
        """
        ...

    async def get(self, org: str | None, id: str) -> ApprovalRow | None:
        """Return a request of an org, or ``None``."""
        ...

    async def list(self, query: ApprovalQuery) -> ApprovalPage:
        """Return requests, newest first."""
        ...

    async def move(self, row: ApprovalRow, expected: ApprovalStatus) -> bool:
        """Replace the request of ``row``'s id and org, if it still has the expected status.

        Returns whether it had, durably: of several callers that move one request at once, one gets ``True``.
        """
        ...

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return requests of every org, pending or approved, that expire at ``now`` or before, the oldest first."""
        ...

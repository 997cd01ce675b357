"""What ``try_call`` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

from capset.errors import CapsetError

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Result(Generic[R]):
    """How a call ended: with ``data`` if ``success``, else with ``error``.

    ``record`` is the id of the call's record; the hashes are those of the snapshot that it ran in.
    """

    success: bool
    data: R | None
    error: CapsetError | None
    record: str
    runtime_hash: str
    prompt_hash: str

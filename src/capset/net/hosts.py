"""What a config of a capability that asks the Web says of internal hosts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from capset.errors import DefinitionError
from capset.net.allowing import Allowed


def _are_hosts(allow: tuple[str, ...]) -> tuple[str, ...]:
    try:
        Allowed.read(allow)
    except DefinitionError as error:
        raise ValueError(error.message) from None
    return allow


AllowedHosts = Annotated[
    tuple[str, ...],
    Field(
        max_length=1_000,
        description="Hosts of this machine or of private networks that may be asked: host, or host:port.",
    ),
    AfterValidator(_are_hosts),
]
"""The type of a config's field that is passed on as ``allow`` of ``HttpClient``; what is no host is refused."""

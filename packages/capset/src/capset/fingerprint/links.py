"""The link between a turn and its exact capabilities (spec 2, F26)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.hashes import Ref, runtime_hash

Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal digits."""


class CapabilityLink(BaseModel):
    """The hashes of one evaluation under a hash ``profile``, with the agent that they belong to.

    ``agent_id`` and ``agent_name`` are the host's labels and are never hashed. ``tool_refs`` are the tools in play,
    sorted by name, each with the hash of its code, which no other hash covers. ``invocation_hash`` is ``None`` if no
    invocation was given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    agent_id: str
    agent_name: str
    static_hash: Hash
    runtime_hash: Hash
    prompt_hash: Hash
    invocation_hash: Hash | None = None
    profile: str = PROFILE
    tool_refs: tuple[Ref, ...] = ()


def create_link(
    *,
    agent_id: str,
    agent_name: str,
    static_hash: str,
    prompt_hash: str,
    tool_refs: Iterable[Ref],
    invocation_hash: str | None = None,
) -> CapabilityLink:
    """Return the link for tools known to be in play. The runtime hash is computed from them.

    Raises ``ValueError`` for an invalid hash.
    """
    refs = tuple(sorted(tool_refs, key=lambda ref: (ref.name, ref.hash)))
    return CapabilityLink(
        agent_id=agent_id,
        agent_name=agent_name,
        static_hash=static_hash,
        runtime_hash=runtime_hash(refs),
        prompt_hash=prompt_hash,
        invocation_hash=invocation_hash,
        tool_refs=refs,
    )

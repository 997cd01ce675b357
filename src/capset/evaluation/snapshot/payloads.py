"""The payloads of all hashes of a snapshot, by hash, so that anyone can recompute them (spec 2, F2)."""

from __future__ import annotations

from collections.abc import Mapping

from capset.composition.statics import static_parts
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import tool_hash
from capset.fingerprint.payloads import Payload, prompt_payload, runtime_payload, tool_payload


def covered_payloads(snapshot: Snapshot) -> Mapping[str, Payload]:
    """Return the payload of every hash of a snapshot: the definition with all it names, all tools, runtime, prompt.

    Includes tools that are not in play. Excludes the invocation's payload, which identifies the end user.
    """
    found = {one.hash: one.payload for one in static_parts(snapshot.composition)}
    found |= {tool_hash(one.tool): tool_payload(one.tool) for one in snapshot.installed.values()}
    found[snapshot.runtime_hash] = runtime_payload(ref.payload for ref in snapshot.tool_refs)
    found[snapshot.prompt_hash] = prompt_payload(snapshot.composition.block.system_prompt, snapshot.instructions)
    return found

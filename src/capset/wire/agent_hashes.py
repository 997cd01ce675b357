"""The hashes of an agent as somebody sees it, and all that they cover (spec 2, F2–F9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capset.evaluation.code import code_of
from capset.evaluation.compare.sides import refs_in
from capset.evaluation.snapshot.payloads import covered_payloads
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.canonical import PROFILE, canonical
from capset.fingerprint.hashes import Ref, tool_hash
from capset.fingerprint.payloads import Payload
from capset.wire.code import ToolsCodeShape, code_shapes
from capset.wire.shapes import Shape


class CoveredShape(Shape):
    """Something that a hash covers, and in ``parts`` what its payload names.

    What was told above in the tree has no ``parts`` there a second time.
    """

    kind: str
    name: str
    hash: str
    parts: list[CoveredShape]


class FingerprintTool(Shape):
    """A tool of the agent, and whether the runtime hash covers it: then it is in play, and else the reason says why.

    ``code_hash`` is the hash of its code, if there is one.
    """

    name: str
    hash: str
    code_hash: str | None = None
    in_play: bool
    reason: str


class AgentHashesShape(Shape):
    """Three hashes, each 64 hexadecimal digits by the ``profile``, and what they cover.

    ``definition`` is what the static hash covers, made of payloads that name others. ``code`` is the code behind the
    tools, which none of the three covers. ``payloads`` are canonical texts by their hashes, if they were asked for: the
    SHA-256 of the UTF-8 of each is its hash.
    """

    agent: str
    principal: str
    profile: str
    static_hash: str
    runtime_hash: str
    prompt_hash: str
    definition: CoveredShape
    tools: list[FingerprintTool]
    code: list[ToolsCodeShape]
    notices: list[str]
    payloads: dict[str, str] | None = None


def hashes_shape(snapshot: Snapshot, *, with_payloads: bool = False) -> AgentHashesShape:
    """Return the wire shape of a snapshot's hashes; its tools are by name."""
    known = covered_payloads(snapshot)
    composition = snapshot.composition
    definition = _covered(Ref(composition.block.name, snapshot.static_hash), known, set())
    return AgentHashesShape(
        agent=composition.block.name,
        principal=snapshot.principal.id,
        profile=PROFILE,
        static_hash=snapshot.static_hash,
        runtime_hash=snapshot.runtime_hash,
        prompt_hash=snapshot.prompt_hash,
        definition=definition,
        tools=[
            FingerprintTool(
                name=name,
                hash=tool_hash(one.tool),
                code_hash=code_of(one.tool).hash,
                in_play=name in snapshot.tools,
                reason=snapshot.explain(name).reason,
            )
            for name, one in sorted(snapshot.installed.items())
        ],
        code=code_shapes({name: one.tool for name, one in snapshot.installed.items()}),
        notices=list(composition.notices),
        payloads=canonical_payloads(snapshot) if with_payloads else None,
    )


def canonical_payloads(snapshot: Snapshot) -> dict[str, str]:
    """Return the canonical text of everything that the hashes of a snapshot cover, by hash; of its tools' code too."""
    code = [code_of(one.tool) for one in snapshot.installed.values()]
    known = {shown: canonical(payload).decode() for shown, payload in covered_payloads(snapshot).items()}
    return known | {one.hash: one.covers for one in code if one.hash is not None and one.covers is not None}


def _covered(ref: Ref, known: Mapping[str, Payload], told: set[str]) -> CoveredShape:
    payload: Mapping[str, Any] = known[ref.hash]
    is_new = ref.hash not in told
    told.add(ref.hash)
    inside = dict.fromkeys(one for _, one in refs_in(payload)) if is_new else {}
    parts = [_covered(one, known, told) for one in inside]
    return CoveredShape(kind=str(payload["kind"]), name=ref.name, hash=ref.hash, parts=parts)

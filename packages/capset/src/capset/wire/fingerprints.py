"""Hashes, their payloads, and the code behind tools, on the wire (spec 2, F1–F9, F35)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from capset.definitions.tools.definition import AnyTool
from capset.evaluation.code import Code, CodeKind, code_of
from capset.evaluation.compare.sides import refs_in
from capset.evaluation.snapshot.snapshot import Snapshot, covered_payloads
from capset.fingerprint.canonical import PROFILE, canonical
from capset.fingerprint.hashes import Ref, tool_hash
from capset.fingerprint.payloads import Payload
from capset.stores.base import Sighting, Sightings
from capset.wire.lineage import RefShape
from capset.wire.shapes import Shape


class CodeShape(Shape):
    """The hash of some code, which no other hash covers, and its origin; without a hash, the ``reason``.

    ``name`` and ``version`` are those of the distribution. If there is none, ``name`` is that of the package, or of the
    module's file.
    """

    hash: str | None = None
    kind: CodeKind | None = None
    name: str | None = None
    version: str | None = None
    reason: str | None = None


class ToolsCodeShape(CodeShape):
    """The code behind some tools, by their names."""

    tools: list[str]


def code_shape(code: Code) -> CodeShape:
    """Return the wire shape of the code behind a tool."""
    return CodeShape(hash=code.hash, kind=code.kind, name=code.name, version=code.version, reason=code.reason)


def code_shapes(tools: Mapping[str, AnyTool]) -> list[ToolsCodeShape]:
    """Return the code behind some tools, each once, in the order of the tools' names."""
    names_by_code: dict[Code, list[str]] = {}
    for name, tool in sorted(tools.items()):
        names_by_code.setdefault(code_of(tool), []).append(name)
    return [ToolsCodeShape(**dict(code_shape(code)), tools=names) for code, names in names_by_code.items()]


class FingerprintShape(Shape):
    """The payload that a hash covers. The hash is the SHA-256 of its canonical JSON, as defined by the ``profile``.

    ``code`` is the origin of the code, if the kind is ``code`` and the server runs that code itself.
    """

    hash: str
    profile: str
    kind: str
    payload: dict[str, Any]
    code: CodeShape | None = None


class InstalledCapability(Shape):
    """An installed capability, and its tools by name, including those of all its presets.

    ``hash`` is its hash in an agent that uses it without options.
    """

    id: str
    hash: str
    tools: list[RefShape]


class InstalledShape(Shape):
    """The installed capabilities by id, their hashes as defined by the ``profile``, and the code behind their tools.

    In ``code``, a tool is named ``capability.tool``.
    """

    profile: str
    capabilities: list[InstalledCapability]
    code: list[ToolsCodeShape]


class SightedAgentShape(Shape):
    """An agent whose turns had a hash: the first and last time, the number of links, and the newest link."""

    agent_id: str
    agent_name: str
    first_at: str
    last_at: str
    links: int
    last_link: str


class SightingsShape(Shape):
    """Where a hash was in use: the number of links that name it, their times, the agents, and the newest 50 sessions.

    At most the newest 10,000 links of the organisation are searched. ``is_partial`` says whether there are older ones,
    and ``covered_from`` is the time from which on all links were searched.
    """

    hash: str
    links: int
    first_at: str | None = None
    last_at: str | None = None
    agents: list[SightedAgentShape]
    sessions: list[str]
    covered_from: str | None = None
    is_partial: bool


def sightings_shape(hash: str, sightings: Sightings) -> SightingsShape:
    """Return the wire shape of the links that name a hash."""
    by_agent: dict[str, list[Sighting]] = {}
    for sighting in sightings.items:
        by_agent.setdefault(sighting.agent_id, []).append(sighting)
    sessions = dict.fromkeys(link.session for link in sightings.items if link.session is not None)
    return SightingsShape(
        hash=hash,
        links=len(sightings.items),
        first_at=sightings.items[-1].created_at if sightings.items else None,
        last_at=sightings.items[0].created_at if sightings.items else None,
        agents=[
            SightedAgentShape(
                agent_id=agent,
                agent_name=agent_sightings[0].agent_name,
                first_at=agent_sightings[-1].created_at,
                last_at=agent_sightings[0].created_at,
                links=len(agent_sightings),
                last_link=agent_sightings[0].link,
            )
            for agent, agent_sightings in islice(by_agent.items(), 200)  # newest first
        ],
        sessions=[*sessions][:50],
        covered_from=sightings.since,
        is_partial=sightings.since is not None,
    )


class CoveredShape(Shape):
    """Something that a hash covers. ``parts`` are what its payload refers to.

    If it appears in the tree more than once, only the first occurrence has ``parts``.
    """

    kind: str
    name: str
    hash: str
    parts: list[CoveredShape]


class FingerprintTool(Shape):
    """A tool of the agent, and whether it is in play, which means that the runtime hash covers it.

    ``reason`` explains why it is in play or not. ``code_hash`` is the hash of its code, if there is one.
    """

    name: str
    hash: str
    code_hash: str | None = None
    in_play: bool
    reason: str


class AgentHashesShape(Shape):
    """Three hashes of 64 hexadecimal digits each, as defined by the ``profile``, and what they cover.

    ``definition`` is what the static hash covers: a tree of payloads that refer to others. ``code`` is the code behind
    the tools, which none of the three hashes covers. ``payloads``, if requested, are canonical texts by their hashes:
    each hash is the SHA-256 of the text in UTF-8.
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
    """Return the wire shape of a snapshot's hashes, with its tools sorted by name."""
    payloads = covered_payloads(snapshot)
    composition = snapshot.composition
    definition = _covered_shape(Ref(composition.block.name, snapshot.static_hash), payloads, set())
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
                hash=tool_hash(installed.tool),
                code_hash=code_of(installed.tool).hash,
                in_play=name in snapshot.tools,
                reason=snapshot.explain(name).reason,
            )
            for name, installed in sorted(snapshot.installed.items())
        ],
        code=code_shapes({name: installed.tool for name, installed in snapshot.installed.items()}),
        notices=list(composition.notices),
        payloads=canonical_payloads(snapshot) if with_payloads else None,
    )


def canonical_payloads(snapshot: Snapshot) -> dict[str, str]:
    """Return the canonical text of every payload that a snapshot's hashes cover, tool code included, by hash."""
    code = [code_of(installed.tool) for installed in snapshot.installed.values()]
    texts = {payload_hash: canonical(payload).decode() for payload_hash, payload in covered_payloads(snapshot).items()}
    return texts | {
        tool_code.hash: tool_code.covers
        for tool_code in code
        if tool_code.hash is not None and tool_code.covers is not None
    }


def _covered_shape(ref: Ref, payloads: Mapping[str, Payload], described: set[str]) -> CoveredShape:
    payload: Mapping[str, Any] = payloads[ref.hash]
    is_new = ref.hash not in described
    described.add(ref.hash)
    inside = dict.fromkeys(inner_ref for _, inner_ref in refs_in(payload)) if is_new else {}
    parts = [_covered_shape(inner_ref, payloads, described) for inner_ref in inside]
    return CoveredShape(kind=str(payload["kind"]), name=ref.name, hash=ref.hash, parts=parts)

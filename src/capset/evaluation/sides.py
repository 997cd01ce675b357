"""What is known of one version that is to be compared: its link, and whatever its hashes cover (spec 2, F31)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from capset.errors import DefinitionError
from capset.evaluation.envelope import SnapshotEnvelope
from capset.fingerprint.canonical import PROFILE, NotCanonical, digest
from capset.fingerprint.diff import format_hash_short
from capset.fingerprint.hashes import Ref, runtime_hash
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import Payload, prompt_payload


@dataclass(frozen=True, slots=True)
class Side:
    """One of two versions. ``payloads`` are by their hashes, as many as are known; the envelope if there is one.

    Raises ``DefinitionError`` if something does not give the hash that stands beside it: then somebody changed it, and
    to compare it would mislead. By a profile that is not known here, nothing can be recomputed.
    """

    link: CapabilityLink
    payloads: Mapping[str, Payload] = field(default_factory=dict[str, Payload])
    envelope: SnapshotEnvelope | None = None

    def __post_init__(self) -> None:
        if self.link.profile != PROFILE:
            return
        if runtime_hash(self.link.tool_refs) != self.link.runtime_hash:
            raise _changed("the tools of the link do not give its runtime hash", self.link.runtime_hash)
        for expected, payload in self.payloads.items():
            try:
                actual = digest(payload)
            except NotCanonical as error:
                raise _changed(f"a payload cannot be hashed, at {error},", expected) from None
            if actual != expected:
                raise _changed(f"the payload of {_name(payload)} does not give its hash", expected)


def side_of(envelope: SnapshotEnvelope) -> Side:
    """Return all that an envelope holds. Raises ``DefinitionError`` if its parts do not fit its link, or its hashes."""
    link, static = envelope.link, envelope.static
    if envelope.profile != link.profile:
        raise _changed("the profile is not that of the link", link.runtime_hash)
    if {Ref(tool.name, tool.hash) for tool in envelope.runtime.tools} != set(link.tool_refs):
        raise _changed("the tools are not those of the link", link.runtime_hash)
    if static is not None and static.hash != link.static_hash:
        raise _changed("the static part is not that of the link", link.static_hash)
    return Side(link, _payloads(envelope), envelope)


def _payloads(envelope: SnapshotEnvelope) -> dict[str, Payload]:
    runtime = envelope.runtime
    parts = (*(envelope.static.parts if envelope.static else ()), *runtime.tools)
    known: dict[str, Payload] = {one.hash: one.payload for one in parts}
    if envelope.static is not None:
        known[envelope.static.hash] = envelope.static.payload
    known[envelope.link.prompt_hash] = prompt_payload(runtime.system_prompt, runtime.instructions)
    return known


def refs_in(payload: Payload) -> Iterator[tuple[str, Ref]]:
    """Yield what else a payload names, each with the key that it stands under; what does not fit is passed over."""
    if isinstance(root := payload.get("root"), str):
        yield "root", Ref("root", root)
    for key in ("capabilities", "children", "uses", "members", "tools"):
        found = payload.get(key)
        for one in cast("list[Any]", found) if isinstance(found, list) else ():
            match one:
                case {"name": str(name), "hash": str(hash)}:
                    yield key, Ref(name, hash)
                case _:
                    pass


def _name(payload: Payload) -> str:
    name = f" {payload['name']!r}" if "name" in payload else ""
    return f"the {payload.get('kind', 'nothing')}{name}"


def _changed(what: str, expected: str) -> DefinitionError:
    return DefinitionError(
        f"{what} {format_hash_short(expected)}…: it was changed since it was captured",
        hint="compare what was captured as it is: to_json() of an envelope or a link's model_dump_json()",
    )

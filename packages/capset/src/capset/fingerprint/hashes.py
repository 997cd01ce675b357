"""Hashes, each computed once for an immutable definition (spec 2, F13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.toolkits import AnyToolkit, DynamicToolkit, Member
from capset.fingerprint.canonical import digest
from capset.fingerprint.invocations import normalize_invocation
from capset.fingerprint.payloads import (
    Payload,
    agent_payload,
    block_payload,
    capability_payload,
    dynamic_toolkit_payload,
    invocation_payload,
    prompt_payload,
    root_payload,
    runtime_payload,
    tool_payload,
    toolkit_payload,
)

# A cache over frozen values, not a registry: only a caller that already has an object can look it up.
_TOOLS: WeakKeyDictionary[AnyTool, str] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference from one payload to another by name and hash, such as from a runtime payload to a tool.

    ``code`` is the hash of the tool's code, if known. Only links have it: no payload includes it, and comparisons
    ignore it.
    """

    name: str
    hash: str
    code: str | None = field(default=None, compare=False)

    @property
    def payload(self) -> Payload:
        """The reference as part of another payload."""
        return {"name": self.name, "hash": self.hash}


def tool_hash(tool: AnyTool) -> str:
    """Return the hash of one tool, computed at first use."""
    cached = _TOOLS.get(tool)
    if cached is None:
        cached = _TOOLS[tool] = digest(tool_payload(tool))
    return cached


def toolkit_hash(toolkit: AnyToolkit, names: Mapping[str, str] | None = None) -> str:
    """Return the hash of a toolkit. ``names`` maps its tools' own names to their names here.

    The hash of a dynamic toolkit covers no members.
    """
    return digest(member_payload(toolkit, names))


def member_payload(member: Member, names: Mapping[str, str] | None = None) -> Payload:
    """Return the payload of a tool or a toolkit; ``names`` as for ``toolkit_hash``."""
    if isinstance(member, Tool):
        return tool_payload(member)
    if isinstance(member, DynamicToolkit):
        return dynamic_toolkit_payload(member)
    return toolkit_payload(member, [member_ref(inner, names).payload for inner in member.members])


def member_ref(member: Member, names: Mapping[str, str] | None = None) -> Ref:
    """Return the reference to a toolkit, or to a tool under its name here."""
    if isinstance(member, Tool):
        return Ref((names or {}).get(member.name, member.name), tool_hash(member))
    return Ref(member.name, toolkit_hash(member, names))


def capability_hash(capability: AnyCapability, *, config: BaseModel | None = None) -> str:
    """Return the hash of one capability with its tools; see ``reference_payload`` for other uses of it."""
    return digest(reference_payload(capability, config=config))


def reference_payload(
    capability: AnyCapability,
    *,
    presets: Sequence[str] | None = None,
    config: BaseModel | None = None,
    names: Mapping[str, str] | None = None,
    uses: Mapping[AnyCapability, str] | None = None,
    with_base: bool = True,
    prefix: str = "",
) -> Payload:
    """Return the payload of a capability as used here; see ``capability_payload``.

    ``names`` maps its tools' own names to their names here. ``prefix`` is that of the tools that it makes at run time.
    ``uses`` has the hashes of the capabilities that it needs.
    """
    active_presets = capability.default if presets is None else presets
    parts = ([capability.part] if with_base else []) + [capability.presets[name].part for name in active_presets]
    members = dict.fromkeys(member for part in parts for member in part.members)
    needed = dict.fromkeys(use.base for use in capability.uses if not callable(use))
    return capability_payload(
        capability,
        [member_ref(member, names).payload for member in members],
        presets=active_presets,
        config=config,
        uses=[Ref(base.name, uses[base]).payload for base in needed if uses and base in uses],
        with_base=with_base,
        prefix=prefix,
        rename={name: alias for name, alias in (names or {}).items() if alias != prefix + name},
    )


def definition_payload(block: Block, capabilities: Iterable[Ref], children: Iterable[Ref] = ()) -> Payload:
    """Return the payload of the definition of an agent or another block, with every block that it runs.

    ``capabilities`` are the contributing ones in order, ``children`` the blocks inside.
    """
    make_payload = agent_payload if isinstance(block, Agent) else block_payload
    return make_payload(
        block, [ref.payload for ref in capabilities], root_hash(block), [ref.payload for ref in children]
    )


def definition_hash(block: Block, capabilities: Iterable[Ref], children: Iterable[Ref] = ()) -> str:
    """Return the hash of the definition of an agent or another block: its ``static_hash``."""
    return digest(definition_payload(block, capabilities, children))


def root_hash(block: Block) -> str | None:
    """Return the hash of a block's own toolkit, or ``None`` if it declares no tool and no policy itself."""
    if not block.part.members and not block.part.policies:
        return None
    return digest(root_payload(block, [member_ref(member).payload for member in block.part.members]))


def runtime_hash(tools: Iterable[Ref]) -> str:
    """Return the hash of exactly the tools in play."""
    return digest(runtime_payload(tool.payload for tool in tools))


def invocation_hash(invocation: Mapping[str, Any] | None, allowlist: Iterable[str] = ()) -> str | None:
    """Return the hash of an invocation context, or ``None`` for an empty one.

    Raises ``InvalidArguments`` as ``normalize_invocation`` does.
    """
    normalised = normalize_invocation(invocation, allowlist)
    return digest(invocation_payload(normalised)) if normalised else None


def prompt_hash(system_prompt: str, instructions: Iterable[str]) -> str:
    """Return the hash of the prompt and instructions, without rendered context."""
    return digest(prompt_payload(system_prompt, instructions))

"""Capture of an evaluation as an envelope that can be stored (spec 2, F26, F27)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, cast

from typing_extensions import Unpack

from capset.composition.compose import Composition, compose
from capset.composition.installation import InstalledTool
from capset.composition.statics import static_parts
from capset.definitions.blocks import Block
from capset.definitions.calls.contexts import Context
from capset.definitions.principals import Attributes, Principal
from capset.definitions.secrets import is_secret_name
from capset.errors import InvalidArguments
from capset.evaluation.code import code_of, read_code
from capset.evaluation.evaluate import Labels, evaluate
from capset.evaluation.policies import PolicyMode
from capset.evaluation.snapshot.envelope import (
    PolicyPart,
    PolicyResult,
    RuntimePart,
    SnapshotEnvelope,
    StaticPart,
    WireContext,
    WirePayload,
    WirePrincipal,
    WireTool,
)
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.links import CapabilityLink
from capset.fingerprint.payloads import tool_payload

Redact = Callable[[Any], Any]
"""A function that masks all matches of the host's patterns in JSON data, such as ``kernel.redactor``."""


@dataclass(frozen=True, eq=False, slots=True)
class Captured:
    """The outcome of one evaluation: the envelope to store, its link, and the snapshot with the live tools."""

    envelope: SnapshotEnvelope
    snapshot: Snapshot

    @property
    def link(self) -> CapabilityLink:
        """The hashes, with the agent that they belong to."""
        return self.envelope.link

    @property
    def tools(self) -> Mapping[str, InstalledTool]:
        """The live tools in play, by name."""
        return self.snapshot.tools

    @property
    def instructions(self) -> tuple[str, ...]:
        """The instructions for the model in addition to the system prompt."""
        return self.snapshot.instructions


async def capture(
    agent: Block | Composition,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    context: Context | None = None,
    session_context: Mapping[str, Any] | None = None,
    policy_mode: PolicyMode = "authoritative",
    include_static: bool = True,
    redact: Redact | None = None,
    **labels: Unpack[Labels],
) -> Captured:
    """Evaluate an agent once, and return the envelope to store together with the live tools.

    ``session_context`` is the host's JSON data, which is stored but never hashed. The other arguments are those of
    ``evaluate`` and ``envelope_of``. Raises any error of ``compose`` and ``evaluate``, and ``InvalidArguments`` for a
    session context that is not JSON data.
    """
    snapshot = await _evaluate(agent, principal, env, context, labels)
    envelope = envelope_of(
        snapshot,
        session_context=session_context,
        policy_mode=policy_mode,
        include_static=include_static,
        redact=redact,
    )
    return Captured(envelope, snapshot)


async def capture_runtime(
    agent: Block | Composition,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    context: Context | None = None,
    redact: Redact | None = None,
    **labels: Unpack[Labels],
) -> Captured:
    """Evaluate an agent once, and capture only the runtime part, for turns whose definition is already stored."""
    return await capture(
        agent, principal=principal, env=env, context=context, include_static=False, redact=redact, **labels
    )


async def compute_link(
    agent: Block | Composition,
    *,
    principal: Principal,
    env: Mapping[str, Any] | None = None,
    context: Context | None = None,
    **labels: Unpack[Labels],
) -> CapabilityLink:
    """Evaluate an agent once, and return only the link."""
    return link_of(await _evaluate(agent, principal, env, context, labels))


async def _evaluate(
    agent: Block | Composition,
    principal: Principal,
    env: Mapping[str, Any] | None,
    context: Context | None,
    labels: Labels,
) -> Snapshot:
    """Evaluate an agent, and read the code behind its tools."""
    composition = agent if isinstance(agent, Composition) else compose(agent)
    snapshot = await evaluate(composition, principal=principal, env=env, context=context, **labels)
    await read_code(snapshot)
    return snapshot


def link_of(snapshot: Snapshot) -> CapabilityLink:
    """Return the link of a snapshot. Its ``agent_id`` defaults to the agent's name.

    Blocks while it reads code that is not read yet. To avoid that, await ``read_code`` first.
    """
    name = snapshot.composition.block.name if snapshot.agent_name is None else snapshot.agent_name
    tools = snapshot.tools
    return CapabilityLink(
        agent_id=name if snapshot.agent_id is None else snapshot.agent_id,
        agent_name=name,
        static_hash=snapshot.static_hash,
        runtime_hash=snapshot.runtime_hash,
        prompt_hash=snapshot.prompt_hash,
        invocation_hash=snapshot.invocation_hash,
        tool_refs=tuple([replace(ref, code=code_of(tools[ref.name].tool).hash) for ref in snapshot.tool_refs]),
    )


def envelope_of(
    snapshot: Snapshot,
    *,
    session_context: Mapping[str, Any] | None = None,
    policy_mode: PolicyMode | None = None,
    include_static: bool = True,
    redact: Redact | None = None,
) -> SnapshotEnvelope:
    """Return the envelope of a snapshot, such as ``session.snapshot``.

    ``policy_mode`` governs calls of a hydrated snapshot and defaults to the snapshot's own. ``include_static`` adds the
    definition. Attributes of the principal that ``redact`` would mask are left out, since policies would take a masked
    value for a different one. Raises ``InvalidArguments`` for a session context that is not JSON data.
    """
    env, dropped = json_safe(snapshot.env)
    return SnapshotEnvelope(
        static=_static(snapshot.composition) if include_static else None,
        policy=PolicyPart(
            mode=policy_mode or snapshot.policy_mode,
            results=tuple(
                PolicyResult(id=policy.id, kind=decision.kind, reason=decision.reason)
                for policy, decision in snapshot.answers.items()
            ),
        ),
        runtime=RuntimePart(
            link=link_of(snapshot),
            tools=tuple(_tool(ref.name, ref.hash, snapshot.tools[ref.name]) for ref in snapshot.tool_refs),
            system_prompt=snapshot.composition.block.system_prompt,
            instructions=snapshot.instructions,
            toolkit_context=WireContext(
                namespace=snapshot.namespace,
                agent_id=snapshot.agent_id,
                agent_name=snapshot.agent_name,
                principal=_principal(snapshot.principal, redact),
                env=env,
                dropped=dropped,
            ),
        ),
        context=None if session_context is None else session_context_of(session_context),
    )


def session_context_of(context: Mapping[str, Any]) -> dict[str, Any]:  # JSON data
    """Return a session context as stored. Raises ``InvalidArguments`` unless it is JSON data without secrets."""
    safe_context, dropped = json_safe(context)
    if dropped:
        raise InvalidArguments(
            f"a session context must be JSON data without secrets; {dropped[0]!r} is not",
            hint="leave it out, or pass an id instead",
        )
    return safe_context


def _static(composition: Composition) -> StaticPart:
    definition, *parts = static_parts(composition)
    return StaticPart(
        hash=definition.hash,
        payload=plain_copy(definition.payload),
        parts=tuple(WirePayload(name=part.name, hash=part.hash, payload=plain_copy(part.payload)) for part in parts),
    )


def _principal(principal: Principal, redact: Redact | None) -> WirePrincipal:
    dropped: list[str] = []

    def drop_masked(attributes: Attributes, path: str) -> dict[str, Any]:
        masked = attributes.masked() if redact is None else redact(attributes.masked())
        unmasked = {name: value for name, value in attributes.items() if name in masked and masked[name] == value}
        paths = [f"{path}.{name}" for name in attributes if name not in unmasked]
        dropped.extend(paths if redact is None else redact(paths))
        return unmasked

    return WirePrincipal(
        id=principal.id,
        kind=principal.kind,
        org=principal.org,
        permissions=tuple(sorted(principal.permissions)),
        on_behalf_of=principal.on_behalf_of,
        attributes=drop_masked(principal.attributes, "attributes"),
        on_behalf_of_attributes=tuple(
            drop_masked(attributes, f"on_behalf_of_attributes[{index}]")
            for index, attributes in enumerate(principal.on_behalf_of_attributes)
        ),
        dropped=tuple(dropped),
    )


def _tool(name: str, definition_hash: str, installed: InstalledTool) -> WireTool:
    policies = tuple(policy.id for policy in installed.policies)
    return WireTool(
        name=name, hash=definition_hash, payload=plain_copy(tool_payload(installed.tool)), policies=policies
    )


_DROPPED: Final = object()


def json_safe(values: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return copies of the values that are JSON data, and the paths of all others, such as ``db.pool``.

    Drops values of other types, numbers outside JSON's range or too long to read, text with a lone surrogate, values
    that contain themselves or are nested more than 50 levels deep, and values under secret-looking names.
    """
    json_filter = _JsonFilter()
    safe = json_filter.filter_members(values, "")
    return safe, tuple(json_filter.dropped)


def plain_copy(value: Any) -> Any:
    """Return a copy of JSON data in plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain_copy(member) for key, member in cast("Mapping[str, Any]", value).items()}
    return [plain_copy(member) for member in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


class _JsonFilter:
    """One pass over some values."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self._containers: set[int] = set()
        """The ids of the containers around the current value."""

    def filter_members(self, members: Mapping[Any, Any], path: str) -> dict[str, Any]:
        safe_members: dict[str, Any] = {}
        for name, value in members.items():
            member_path = f"{path}.{_printable_name(name)}" if path else _printable_name(name)
            is_allowed = isinstance(name, str) and _is_text(name) and (value is None or not is_secret_name(name))
            safe = self._filter_value(value, member_path) if is_allowed else self._drop(member_path)
            if safe is not _DROPPED:
                safe_members[name] = safe
        return safe_members

    def _filter_value(self, value: Any, path: str) -> Any:
        if _is_leaf(value):
            return value
        identity = id(cast("object", value))
        if len(self._containers) >= 50 or identity in self._containers:  # too deep, or a cycle
            return self._drop(path)
        self._containers.add(identity)
        try:
            if type(value) in (list, tuple):
                items = [self._filter_value(element, f"{path}[{index}]") for index, element in enumerate(value)]
                return [element for element in items if element is not _DROPPED]
            if isinstance(value, Mapping):
                return self.filter_members(cast("Mapping[Any, Any]", value), path)
        finally:
            self._containers.discard(identity)
        return self._drop(path)

    def _drop(self, path: str) -> Any:
        self.dropped.append(path)
        return _DROPPED


def _is_leaf(value: Any) -> bool:
    kind = cast("type[object]", type(value))
    if kind is int:
        return value.bit_length() <= 12_000  # Python neither writes nor reads more than 4,300 decimal digits
    return value is None or kind is bool or (kind is float and isfinite(value)) or (kind is str and _is_text(value))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable_name(name: object) -> str:
    return str(name).encode(errors="backslashreplace").decode()

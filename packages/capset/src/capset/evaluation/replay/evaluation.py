"""Replay of a stored snapshot: what the agent could do then, and what it can do now (spec 2, F33)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capset.composition.compose import Composition, compose
from capset.definitions.blocks import Block
from capset.definitions.calls.contexts import Context
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, Field, HydrationRefused, counted
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff, PolicyChange, ToolChange
from capset.evaluation.compare.report import Line, plain, report_lines
from capset.evaluation.compare.sides import side_of
from capset.evaluation.snapshot.capture import Captured, capture
from capset.evaluation.snapshot.envelope import SnapshotEnvelope
from capset.evaluation.snapshot.hydrate import hydrate


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A tool that is no longer in play, with the reason from today's evaluation."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False, slots=True)
class Replay:
    """Two evaluations of one agent, the stored one and today's, with all differences.

    ``missing`` has the reason for every tool that is no longer in play. ``refusal`` is the error that ``hydrate``
    raises for the envelope, with every refused tool in its ``fields``, or ``None`` if it accepts the envelope.
    ``dropped`` has the paths of ``env`` that are neither in the envelope nor given again. ``notes`` list what else
    could not be reproduced.
    """

    then: SnapshotEnvelope
    now: Captured
    principal: Principal
    diff: Diff
    missing: tuple[MissingTool, ...]
    refusal: HydrationRefused | None
    dropped: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def both(self) -> tuple[str, ...]:
        """The names of the tools in play then and now, the same or changed."""
        return tuple(ref.name for ref in self.then.link.tool_refs if ref.name in self.now.tools)

    @property
    def only_then(self) -> tuple[str, ...]:
        """The names of the tools that were in play then but are not now."""
        return tuple(ref.name for ref in self.then.link.tool_refs if ref.name not in self.now.tools)

    @property
    def only_now(self) -> tuple[str, ...]:
        """The names of the tools that are in play now but were not then."""
        names = {ref.name for ref in self.then.link.tool_refs}
        return tuple(ref.name for ref in self.now.link.tool_refs if ref.name not in names)

    @property
    def changed(self) -> tuple[ToolChange, ...]:
        """The tools in play then and now whose definition or policies differ."""
        return tuple(tool for tool in self.diff.tools if tool.kind in ("changed", "gated"))

    @property
    def flipped(self) -> tuple[PolicyChange, ...]:
        """The policies whose answer changed."""
        return tuple(policy for policy in self.diff.policies or () if policy.kind == "flipped")

    @property
    def refused(self) -> tuple[Field, ...]:
        """The tools that ``hydrate`` refuses, each with the reason."""
        return self.refusal.fields if self.refusal else ()

    @property
    def differs(self) -> bool:
        """Whether a hash or a policy's answer differs, or ``hydrate`` refuses the envelope."""
        return self.diff.differs or self.refusal is not None


async def replay(
    envelope: SnapshotEnvelope,
    agent: Block | Composition,
    *,
    principal: Principal | None = None,
    env: Mapping[str, Any] | None = None,
    context: Context | None = None,
) -> Replay:
    """Evaluate today's version of an agent under the conditions of an envelope, and report the differences.

    ``principal`` and ``env`` default to the envelope's. ``context`` is the context for dynamic ``uses``, which add
    nothing without it. Policies are asked again. Dynamic toolkits are made twice: for today's evaluation, and to find
    out whether ``hydrate`` would accept the envelope. No tool is called. The invocation is not compared, since an
    envelope has only its hash.

    Raises ``DefinitionError`` if the envelope was changed after its capture, or if neither it nor the caller names a
    principal, and any error of ``compose`` and ``evaluate``.
    """
    then = side_of(envelope)
    toolkit_context = envelope.runtime.toolkit_context
    actor = principal or principal_of(envelope)
    composition = agent if isinstance(agent, Composition) else compose(agent)
    now = await capture(
        composition,
        principal=actor,
        env=toolkit_context.env if env is None else env,
        context=context,
        session_context=envelope.context,
        policy_mode=envelope.policy.mode,
        include_static=envelope.static is not None,
        namespace=toolkit_context.namespace,
        agent_id=toolkit_context.agent_id,
        agent_name=envelope.link.agent_name,
    )
    now = _same_invocation(now, envelope)
    return Replay(
        envelope,
        now,
        actor,
        diff_sides(then, side_of(now.envelope)),
        tuple(
            MissingTool(ref.name, _missing_reason(now, ref.name))
            for ref in envelope.link.tool_refs
            if ref.name not in now.tools
        ),
        await _refusal(envelope, composition, actor, env, context),
        tuple(path for path in toolkit_context.dropped if not _is_overridden(path, toolkit_context.env, env)),
        (*_notes(composition, context), *_dropped_attributes(envelope, principal)),
    )


def principal_of(envelope: SnapshotEnvelope) -> Principal:
    """Return the acting principal. Raises ``DefinitionError`` if the envelope does not name one."""
    principal = envelope.runtime.toolkit_context.principal
    if principal is None:
        raise DefinitionError("the envelope has no principal", hint="name the principal")
    return Principal(**principal.model_dump(exclude={"dropped"}))


def _same_invocation(now: Captured, then: SnapshotEnvelope) -> Captured:
    """Return a capture with the stored invocation hash, since a replay does not compare invocations."""
    link = now.link.model_copy(update={"invocation_hash": then.link.invocation_hash})
    runtime = now.envelope.runtime.model_copy(update={"link": link})
    return Captured(now.envelope.model_copy(update={"runtime": runtime}), now.snapshot)


def _is_overridden(path: str, stored_env: Mapping[str, Any], env: Mapping[str, Any] | None) -> bool:
    """Whether the caller gave a value for a dropped path, or for the value that contains it."""
    if env is None:
        return False
    key = path if path in env else re.split(r"[.\[]", path, maxsplit=1)[0]
    return key in env and (key not in stored_env or env[key] is not stored_env[key])


def _missing_reason(now: Captured, name: str) -> str:
    if name in now.snapshot.installed:
        return now.snapshot.explain(name).reason
    denied_toolkits = [path for path, toolkit in now.snapshot.toolkits.items() if not toolkit.in_play]
    suffix = f"; not made: the dynamic toolkit {' and '.join(denied_toolkits)}" if denied_toolkits else ""
    return f"the agent has no tool of that name{suffix}"


async def _refusal(
    envelope: SnapshotEnvelope,
    composition: Composition,
    principal: Principal,
    env: Mapping[str, Any] | None,
    context: Context | None,
) -> HydrationRefused | None:
    try:
        await hydrate(envelope, composition, principal=principal, env=env, context=context)
    except HydrationRefused as refused:
        return refused
    return None


def _notes(composition: Composition, context: Context | None) -> list[str]:
    if not composition.dynamic or context is not None:
        return []
    names = ", ".join(getattr(function, "__name__", "uses") for function in composition.dynamic)
    return [f"additions of dynamic uses are left out, since they need a session: {names}"]


def _dropped_attributes(envelope: SnapshotEnvelope, principal: Principal | None) -> list[str]:
    """Return a note on the attributes that the envelope's principal lacks, unless the caller gave a principal."""
    stored_principal = envelope.runtime.toolkit_context.principal
    if stored_principal is None or principal is not None or not stored_principal.dropped:
        return []
    return [f"attributes of the principal that were not stored are left out: {', '.join(stored_principal.dropped)}"]


def replay_lines(replay: Replay, *, width: int = 120) -> Iterator[Line]:
    """Yield the lines of a replay: the comparison, the tools still in play, why others are gone, and the consequences.

    Unprintable characters in names and values are escaped.
    """
    then, now = len(replay.then.link.tool_refs), len(replay.now.link.tool_refs)
    changed = {tool.name for tool in replay.changed}
    name = replay.then.link.agent_name
    yield Line("", 0, plain(f"{name} as seen by {replay.principal.id}: {counted(then, 'tool')} then, {now} now"))
    yield Line("", 0, "")
    sections = {
        "in play then and now, unchanged": (
            Line("=", 0, plain(tool_name)) for tool_name in replay.both if tool_name not in changed
        ),
        "no longer in play": (Line("-", 0, plain(f"{tool.name}  {tool.reason}")) for tool in replay.missing),
        "hydrate": _hydration_lines(replay),
        "env that was not stored": (Line("", 2, plain(path)) for path in replay.dropped),
        "left out": (Line("", 2, plain(note)) for note in replay.notes),
    }
    yield from report_lines(replay.diff, width=width)
    for heading, section in sections.items():
        if lines := list(section):
            yield Line("", 0, "")
            yield Line("#", 0, heading)
            yield from lines


def _hydration_lines(replay: Replay) -> Iterator[Line]:
    refusal = replay.refusal
    if refusal is None:
        yield Line("=", 0, "accepts the envelope")
        return
    yield Line("~", 0, f"refuses the envelope{'' if refusal.fields else f': {plain(refusal.message)}'}")
    yield from (Line("", 4, plain(field.expected)) for field in refusal.fields)

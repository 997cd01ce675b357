"""Comparison of two evaluations: hashes, tools, policies, the prompt, the definition (spec 2, F31)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps

from capset.evaluation.compare.differences import CodeChange, Diff, PartChange, PolicyChange, ToolChange, changes_of
from capset.evaluation.compare.sides import Side, refs_in, side_of
from capset.evaluation.policies import PolicyMode
from capset.evaluation.snapshot.envelope import PolicyPart, SnapshotEnvelope, WirePrincipal
from capset.fingerprint.changes import Change, compare_sets
from capset.fingerprint.diff import LinksDiff, diff_links
from capset.fingerprint.hashes import Ref
from capset.fingerprint.payloads import Payload


def diff_envelopes(before: SnapshotEnvelope, after: SnapshotEnvelope) -> Diff:
    """Compare two envelopes. Raises ``DefinitionError`` if one was changed after its capture."""
    return diff_sides(side_of(before), side_of(after))


def diff_sides(before: Side, after: Side) -> Diff:
    """Compare two versions, as far as their payloads are known."""
    links = diff_links(before.link, after.link)
    ours, theirs = before.envelope, after.envelope
    tools = tuple(_tools(before, after, links))
    prompts = (before.link.prompt_hash, after.link.prompt_hash)
    return Diff(
        before.link,
        after.link,
        links,
        tools,
        changes_of(*prompts, *_payload_pair(before, after, *prompts)),
        _definition(before, after, {(change.before, change.after) for change in tools}),
        None if ours is None or theirs is None else tuple(_policies(ours.policy, theirs.policy)),
        None if ours is None or theirs is None else _modes(ours.policy, theirs.policy),
        tuple(
            CodeChange(
                link, changes_of(link.before, link.after, *_payload_pair(before, after, link.before, link.after))
            )
            for link in links.code
        ),
        tuple(_notes(before, after)),
    )


def _payload_pair(before: Side, after: Side, old: str | None, new: str | None) -> tuple[Payload | None, Payload | None]:
    return before.payloads.get(old or ""), after.payloads.get(new or "")


def _tools(before: Side, after: Side, links: LinksDiff) -> Iterator[ToolChange]:
    tool_changes = [ToolChange(ref.name, "added", None, ref.hash) for ref in links.tools.added]
    tool_changes += [ToolChange(ref.name, "removed", ref.hash, None) for ref in links.tools.removed]
    tool_changes += [ToolChange(change.name, "changed", change.before, change.after) for change in links.tools.changed]
    gates = _gates(before.envelope, after.envelope)
    for tool_change in tool_changes:
        payloads = _payload_pair(before, after, tool_change.before, tool_change.after)
        own_gates = [(change.kind, change.before, change.after) for change in _own_gates(tool_change, payloads)]
        other = [
            change
            for change in gates.pop(tool_change.name, ())
            if (change.kind, change.before, change.after) not in own_gates
        ]
        yield ToolChange(
            tool_change.name, tool_change.kind, tool_change.before, tool_change.after, payloads, tuple(other)
        )
    hashes = {ref.name: ref.hash for ref in before.link.tool_refs}
    for name, changes in gates.items():
        yield ToolChange(name, "gated", hashes[name], hashes[name], gates=changes)


def _own_gates(tool: ToolChange, payloads: tuple[Payload | None, Payload | None]) -> list[Change]:
    changes = changes_of(tool.before, tool.after, *payloads) or ()
    return [change for change in changes if change.path == "policies[]"]


def _gates(before: SnapshotEnvelope | None, after: SnapshotEnvelope | None) -> dict[str, tuple[Change, ...]]:
    """Return the policies bound to or unbound from each tool that is on both sides."""
    if before is None or after is None:
        return {}
    ours = {tool.name: sorted(tool.policies) for tool in before.runtime.tools}
    theirs = {tool.name: sorted(tool.policies) for tool in after.runtime.tools}
    both = sorted(ours.keys() & theirs.keys())
    return {name: changes for name in both if (changes := tuple(compare_sets("gates", ours[name], theirs[name])))}


def _policies(before: PolicyPart, after: PolicyPart) -> Iterator[PolicyChange]:
    ours, theirs = ({policy_result.id: policy_result for policy_result in part.results} for part in (before, after))
    for name in dict.fromkeys((*ours, *theirs)):
        policy_result, other = ours.get(name), theirs.get(name)
        if policy_result is None or other is None or policy_result.kind != other.kind:
            yield PolicyChange(name, policy_result, other)


def _modes(before: PolicyPart, after: PolicyPart) -> tuple[PolicyMode, PolicyMode] | None:
    return None if before.mode == after.mode else (before.mode, after.mode)


def _definition(
    before: Side, after: Side, visited: set[tuple[str | None, str | None]]
) -> tuple[PartChange, ...] | None:
    """Return the changes of the definition, except for tools already reported."""
    pair = (before.link.static_hash, after.link.static_hash)
    if pair[0] == pair[1]:
        return ()
    if None in _payload_pair(before, after, *pair):
        return None
    return tuple(_parts(before, after, None, *pair, visited))


def _parts(
    before: Side, after: Side, name: str | None, old: str, new: str, visited: set[tuple[str | None, str | None]]
) -> Iterator[PartChange]:
    """Yield the changes of a payload and of those it references, recursively, each pair of hashes once."""
    visited.add((old, new))
    ours, theirs = _payload_pair(before, after, old, new)
    payload = theirs or ours
    if payload is None:
        return  # the payload that references it reports the new hash
    yield PartChange(str(payload.get("kind")), name, old, new, changes_of(old, new, ours, theirs))
    old_refs, new_refs = _refs(ours), _refs(theirs)
    for key, ref in old_refs.items():
        other = new_refs.get(key)
        if other is not None and other.hash != ref.hash and (ref.hash, other.hash) not in visited:
            yield from _parts(before, after, ref.name, ref.hash, other.hash, visited)


def _refs(payload: Payload | None) -> Mapping[tuple[str, str], Ref]:
    """Return a payload's refs by key and name. The first wins if several share a name, as dynamic additions may."""
    refs: dict[tuple[str, str], Ref] = {}
    for key, ref in refs_in(payload or {}):
        refs.setdefault((key, ref.name), ref)
    return refs


def _notes(before: Side, after: Side) -> Iterator[str]:
    """Yield the differences in data that is never hashed. Omits values that may be personal."""
    for attribute in ("agent_id", "agent_name"):
        ours, theirs = getattr(before.link, attribute), getattr(after.link, attribute)
        if ours != theirs:
            yield f"{attribute} differs: {ours!r}, {theirs!r}"
    if before.envelope is None or after.envelope is None:
        return
    toolkit_context, other = before.envelope.runtime.toolkit_context, after.envelope.runtime.toolkit_context
    if toolkit_context.namespace != other.namespace:
        yield f"namespace differs: {toolkit_context.namespace!r}, {other.namespace!r}"
    if toolkit_context.principal is not None and other.principal is not None:
        yield from _principals(toolkit_context.principal, other.principal)
    if keys := _differing(toolkit_context.env, other.env):
        yield f"env differs in: {', '.join(keys)}"
    if keys := _differing(before.envelope.context or {}, after.envelope.context or {}):
        yield f"context differs in: {', '.join(keys)}"


def _principals(before: WirePrincipal, after: WirePrincipal) -> Iterator[str]:
    if keys := _differing(_members(before), _members(after)):
        yield f"principal differs in: {', '.join(keys)}"
    old_permissions, new_permissions = set(before.permissions), set(after.permissions)
    if gained := sorted(new_permissions - old_permissions):
        yield f"permissions gained: {', '.join(gained)}"
    if lost := sorted(old_permissions - new_permissions):
        yield f"permissions lost: {', '.join(lost)}"


def _members(principal: WirePrincipal) -> dict[str, object]:
    """Return all members but the permissions. Attributes become JSON texts, which tell ``True`` from ``1``."""
    members: dict[str, object] = {**principal.model_dump(include={"id", "kind", "org", "on_behalf_of"})}
    members.update((f"attributes.{name}", dumps(value)) for name, value in principal.attributes.items())
    for index, attributes in enumerate(principal.on_behalf_of_attributes):
        members.update((f"on_behalf_of_attributes[{index}].{name}", dumps(value)) for name, value in attributes.items())
    return {**members, **dict.fromkeys(principal.dropped)}


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    keys = sorted({*before, *after})
    return [key for key in keys if (key in before) != (key in after) or before.get(key) != after.get(key)]

"""What differs between two envelopes, or two links of which less is known."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from capset import Agent, Principal
from capset.errors import DefinitionError
from capset.evaluation.compare.comparison import diff_envelopes, diff_sides
from capset.evaluation.compare.differences import Diff, PartChange, PolicyChange
from capset.evaluation.compare.sides import Side, side_of
from capset.evaluation.snapshot.envelope import PolicyResult, SnapshotEnvelope
from capset.fingerprint.canonical import digest
from capset.fingerprint.changes import Change
from capset.fingerprint.diff import ChangedRef
from capset.fingerprint.links import create_link
from capset.fingerprint.payloads import Payload
from tests.helpers.evaluation.compare.versions import always, earlier, envelope_of, later, notes, plain

T = TypeVar("T")
pytestmark = pytest.mark.spec("F31")


def known(part: T | None) -> T:
    assert part is not None
    return part


def tools_of(diff: Diff) -> dict[str, str]:
    return {change.name: change.kind for change in diff.tools}


def paths_of(part: PartChange) -> list[str]:
    return [change.path for change in part.changes or ()]


def test_an_envelope_does_not_differ_from_itself() -> None:
    for first, other in ((earlier(), earlier()), (later(), later(has_static=False))):
        diff = diff_envelopes(first, other)
        assert not diff.differs
        parts = (diff.tools, diff.policies, diff.prompt, diff.definition, diff.modes, diff.notes)
        assert parts == ((), (), (), (), None, ())


def test_what_changed_in_the_tools() -> None:
    diff = diff_envelopes(earlier(), later())
    kinds = {"export_notes": "added", "delete_note": "removed", "find_notes": "changed", "list_notes": "gated"}
    assert tools_of(diff) == kinds
    _, _, changed, gated = diff.tools
    assert changed.changes == (
        Change("description", "changed", "Find notes.", "Find notes by any word."),
        Change("permissions[]", "added", after="notes:write"),
        Change("schema.properties.limit.maximum", "changed", 10, 20),
    )
    assert changed.gates == gated.gates == (Change("gates[]", "added", after="always"),)
    assert (gated.changes, gated.before) == ((), gated.after)


def test_a_tools_own_new_policy_is_told_once() -> None:
    def envelope_with(*policies: Any) -> SnapshotEnvelope:
        return envelope_of(Agent("a", tools=[plain("it", *policies)]))

    (changed,) = diff_envelopes(envelope_with(), envelope_with(always)).tools
    assert Change("policies[]", "added", after="always") in (changed.changes or ())
    assert changed.gates == ()


def test_a_policy_that_flips_takes_its_tools_along() -> None:
    diff = diff_envelopes(earlier(), earlier(env={"day": False}))
    (flipped,) = known(diff.policies)
    allowed = PolicyResult(id="by_day", kind="allow")
    denied = PolicyResult(id="by_day", kind="deny", reason="closed at night")
    assert (flipped, flipped.kind) == (PolicyChange("by_day", allowed, denied), "flipped")
    assert set(tools_of(diff).values()) == {"removed"}
    assert [moved_hash.name for moved_hash in diff.links.hashes] == ["runtime"]


def test_what_a_permission_takes_away() -> None:
    diff = diff_envelopes(earlier(), earlier(principal=Principal("user-1", permissions=["notes:read"])))
    assert tools_of(diff) == {"delete_note": "removed"}
    assert (diff.policies, diff.definition, diff.prompt) == ((), (), ())
    assert diff.notes == ("permissions lost: notes:write",)
    ann = Principal("ann", permissions=["notes:read", "notes:write", "x:y"], org="acme")
    assert diff_envelopes(earlier(), earlier(principal=ann)).notes == (
        "principal differs in: id, org",
        "permissions gained: x:y",
    )


def test_what_changed_in_the_prompt() -> None:
    assert diff_envelopes(earlier(), later()).prompt == (
        Change("instructions[2]", "added", after="Name your sources."),
        Change("systemPrompt", "changed", earlier().runtime.system_prompt, later().runtime.system_prompt),
    )


def test_what_changed_in_the_definition() -> None:
    agent, capability = known(diff_envelopes(earlier(), later()).definition)
    assert (agent.kind, agent.name, capability.kind, capability.name) == ("agent", None, "capability", "notes")
    assert paths_of(agent) == ["capabilities[notes].hash", "instructions[1]", "systemPrompt"]
    assert [(change.path, change.kind) for change in capability.changes or ()] == [
        ("policies[]", "added"),
        ("tools[delete_note]", "removed"),
        ("tools[export_notes]", "added"),
        ("tools[find_notes].hash", "changed"),
    ]


def test_what_changed_in_what_an_agent_has_itself() -> None:
    first, other = (envelope_of(Agent("a", tools=[plain(name)])) for name in ("one", "two"))
    _, root = known(diff_envelopes(first, other).definition)
    assert (root.kind, root.name, paths_of(root)) == ("toolkit", "root", ["members[one]", "members[two]"])


def test_a_change_of_the_mode_is_one() -> None:
    diff = diff_envelopes(earlier(), earlier(mode="hint"))
    assert diff.modes == ("authoritative", "hint")
    assert diff.differs


def test_what_is_never_hashed_is_a_note_and_shows_no_value() -> None:
    first = earlier(env={"tier": "free", "plan": "old"}, context={"name": "Ada", "same": 1})
    other = earlier(env={"tier": "free", "plan": "new", "more": 1}, context={"name": "Bob", "same": 1}, agent_id="x")
    diff = diff_envelopes(first, other)
    assert diff.notes == (
        "agent_id differs: 'agent-1', 'x'",
        "env differs in: more, plan",
        "context differs in: name",
    )
    assert not diff.differs


def test_of_links_alone_the_hashes_and_tools_are_told() -> None:
    diff = diff_sides(Side(earlier().link), Side(later().link))
    assert diff.differs
    assert tools_of(diff) == {"export_notes": "added", "delete_note": "removed", "find_notes": "changed"}
    assert [change.changes for change in diff.tools if change.kind == "changed"] == [None]
    assert (diff.prompt, diff.definition, diff.policies) == (None, None, None)
    same = diff_sides(Side(earlier().link), Side(earlier().link))
    assert (same.differs, same.prompt, same.definition) == (False, (), ()), "equal hashes say all"


def test_a_link_is_compared_with_an_envelope_as_far_as_both_are_known() -> None:
    diff = diff_sides(Side(earlier().link), side_of(later()))
    assert (diff.prompt, diff.definition, diff.policies) == (None, None, None)
    (came, *_) = diff.tools
    assert (came.kind, came.payloads[0], came.payloads[1] is not None) == ("added", None, True)
    payloads = {tool.hash: tool.payload for tool in earlier().runtime.tools}
    diff = diff_sides(Side(earlier().link, payloads), side_of(later()))
    assert [len(change.changes or ()) for change in diff.tools if change.kind == "changed"] == [3]


def test_without_the_payload_of_a_part_its_hash_is_told() -> None:
    bare, bare_later = (
        envelope.model_copy(update={"static": known(envelope.static).model_copy(update={"parts": ()})})
        for envelope in (earlier(), later())
    )
    (agent,) = known(diff_envelopes(bare, bare_later).definition)
    assert "capabilities[notes].hash" in paths_of(agent)
    _, capability = known(diff_envelopes(bare, later()).definition)
    assert (capability.name, capability.changes) == ("notes", None)


def test_a_tool_that_only_the_definition_has_is_told_there() -> None:
    """Nobody may call it here, so it is in play on neither side."""

    def envelope_with(description: str) -> SnapshotEnvelope:
        return envelope_of(Agent("a", uses=[notes([plain("it", permissions=["x:y"], description=description)])]))

    diff = diff_envelopes(envelope_with("One."), envelope_with("Two."))
    assert diff.tools == ()
    *_, part = known(diff.definition)
    assert (part.kind, part.name) == ("tool", "it")
    assert part.changes == (Change("description", "changed", "One.", "Two."),)


def test_what_was_changed_since_is_not_compared() -> None:
    """Each way to change an envelope is in the tests of ``hydrate``, which verifies it in the same way."""
    envelope = earlier()
    first, *rest = envelope.runtime.tools
    forged_tool = first.model_copy(update={"payload": {**first.payload, "effect": "read", "description": "Harmless."}})
    for update, payload in ({"tools": (forged_tool, *rest)}, "tool 'delete_note'"), ({"system_prompt": "x"}, "prompt"):
        forged = envelope.model_copy(update={"runtime": envelope.runtime.model_copy(update=update)})
        for pair in ((forged, later()), (later(), forged)):
            with pytest.raises(DefinitionError, match=f"the payload of the {payload} does not match its hash"):
                diff_envelopes(*pair)
    with pytest.raises(DefinitionError, match="the tools of the link do not match its runtime hash"):
        Side(envelope.link.model_copy(update={"tool_refs": envelope.link.tool_refs[1:]}))
    with pytest.raises(DefinitionError, match="cannot be hashed"):
        Side(envelope.link, {"0" * 64: {"kind": "tool", "x": float("nan")}})


def test_a_profile_that_is_not_known_here_is_compared_as_it_is() -> None:
    link = earlier().link.model_copy(update={"profile": "jcs-2", "runtime_hash": "0" * 64})
    diff = diff_sides(Side(link), side_of(earlier()))
    assert diff.links.profiles == ("jcs-2", "jcs-1")
    assert diff.differs
    assert diff.links.tools.changed == ()


def test_both_sides_see_the_same() -> None:
    forward, back = diff_envelopes(earlier(), later()), diff_envelopes(later(), earlier())
    came, went = (*known(forward.policies), *known(back.policies))
    allowed = PolicyResult(id="always", kind="allow")
    assert (came, went) == (PolicyChange("always", None, allowed), PolicyChange("always", allowed, None))
    assert (came.kind, went.kind) == ("came", "went")
    assert {(change.name, change.before, change.after) for change in forward.tools} == {
        (change.name, change.after, change.before) for change in back.tools
    }
    assert forward.links.tools.changed == tuple(
        ChangedRef(change.name, change.after, change.before) for change in back.links.tools.changed
    )


def side(graph: dict[str, dict[str, Any]]) -> Side:
    """Return a version whose definition is the payload ``top``; a payload names others by their keys."""
    hashes: dict[str, str] = {}
    payloads: dict[str, Payload] = {}
    for name, payload in graph.items():
        named = {
            key: [{"name": member, "hash": hashes[member]} for member in value] if isinstance(value, list) else value
            for key, value in payload.items()
        }
        hashes[name] = digest(named)
        payloads[hashes[name]] = named
    top = hashes["top"]
    link = create_link(agent_id="a", agent_name="a", static_hash=top, prompt_hash="0" * 64, tool_refs=())
    return Side(link, payloads)


def test_a_change_is_followed_through_everything_that_names_it() -> None:
    graph: dict[str, dict[str, Any]] = {
        "kit": {"kind": "toolkit", "name": "kit", "members": ["tool"]},
        "base": {"kind": "capability", "name": "base", "tools": ["kit"]},
        "other": {"kind": "capability", "name": "other", "uses": ["base"]},
        "inner": {"kind": "agent", "capabilities": ["base"]},
        "top": {"kind": "agent", "capabilities": ["base", "other"], "children": ["inner"]},
    }
    tools = [{"kind": "tool", "name": "tool", "description": description} for description in ("One.", "Two.")]
    first, other = (side({"tool": tool, **graph}) for tool in tools)
    parts = known(diff_sides(first, other).definition)
    names = [None, "base", "kit", "tool", "other", "inner"]
    assert [part.name for part in parts] == names, "each once, although three name the capability"
    assert parts[3].changes == (Change("description", "changed", "One.", "Two."),)


def test_payloads_that_name_each_other_come_to_an_end() -> None:
    """No hashes allow that; by a profile that is not known here, nobody can tell."""

    def of(letter: str) -> Side:
        payload = {"kind": "agent", "systemPrompt": letter, "children": [{"name": "x", "hash": letter * 64}]}
        link = earlier().link.model_copy(update={"profile": "jcs-2", "static_hash": letter * 64})
        return Side(link, {letter * 64: payload})

    (agent,) = known(diff_sides(of("a"), of("b")).definition)
    assert paths_of(agent) == ["children[x].hash", "systemPrompt"]

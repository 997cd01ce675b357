from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.fingerprint.diff import (
    ChangedHash,
    ChangedRef,
    diff_links,
    diff_tools,
    explain_relationship,
    format_hash_short,
)
from capset.fingerprint.hashes import Ref
from capset.fingerprint.links import CapabilityLink, create_link

pytestmark = pytest.mark.spec("F30", "F31")
refs = st.lists(st.builds(Ref, st.sampled_from("abcd"), st.sampled_from(["1", "2", "3"])), max_size=6)


def link(
    *tools: Ref, static: str = "a", prompt: str = "b", invocation: str | None = None, **more: Any
) -> CapabilityLink:
    created = create_link(
        agent_id="id",
        agent_name="name",
        static_hash=static * 64,
        prompt_hash=prompt * 64,
        tool_refs=tools,
        invocation_hash=invocation and invocation * 64,
    )
    return created.model_copy(update=more)


def test_which_tools_came_went_and_changed() -> None:
    before = [Ref("a", "1"), Ref("b", "1"), Ref("c", "1"), Ref("e", "1")]
    after = [Ref("d", "1"), Ref("c", "2"), Ref("b", "1"), Ref("a", "1")]
    diff = diff_tools(before, after)
    assert (diff.added, diff.removed) == ((Ref("d", "1"),), (Ref("e", "1"),))
    assert diff.changed == (ChangedRef("c", "1", "2"),)
    assert (diff.unchanged, diff.differs) == (2, True)


@given(refs, refs)
def test_tools_from_both_sides(before: Sequence[Ref], after: Sequence[Ref]) -> None:
    forward, back = diff_tools(before, after), diff_tools(after, before)
    assert (forward.added, forward.removed, forward.unchanged) == (back.removed, back.added, back.unchanged)
    assert forward.changed == tuple(ChangedRef(change.name, change.after, change.before) for change in back.changed)
    assert len(before) == len(forward.removed) + len(forward.changed) + forward.unchanged
    assert len(after) == len(forward.added) + len(forward.changed) + forward.unchanged
    assert forward.differs == (sorted(map(repr, before)) != sorted(map(repr, after)))


def test_which_hashes_moved() -> None:
    first, other = link(Ref("a", "1")), link(Ref("a", "2"), static="c", invocation="d")
    diff = diff_links(first, other)
    assert diff.hashes == (
        ChangedHash("static", "a" * 64, "c" * 64),
        ChangedHash("runtime", first.runtime_hash, other.runtime_hash),
        ChangedHash("invocation", None, "d" * 64),
    )
    assert diff.tools.changed == (ChangedRef("a", "1", "2"),)
    assert (diff.profiles, diff.differs) == (None, True)
    assert diff_links(first, link(profile="jcs-2", tool_refs=first.tool_refs)).profiles == ("jcs-1", "jcs-2")
    assert not diff_links(first, link(Ref("a", "1"), agent_id="x", agent_name="y")).differs, "labels do not count"


A = Ref("a", "1")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (link(), link(), "Same in all: definition, tools in play and prompt."),
        (link(invocation="e"), link(invocation="e"), "Same in all: definition, tools in play, prompt and invocation."),
        (link(), link(A), "Same definition and prompt; different tools in play."),
        (link(), link(A, static="c", prompt="c"), "Nothing in common: different definition, tools in play and prompt."),
        (link(), link(invocation="e"), "Same definition, tools in play and prompt; different invocation."),
        (link(), link(A, static="c"), "Same prompt; different definition and tools in play."),
    ],
)
def test_one_sentence_says_what_differs(before: CapabilityLink, after: CapabilityLink, expected: str) -> None:
    assert explain_relationship(before, after) == expected


def test_hashes_of_different_profiles_are_not_compared() -> None:
    assert explain_relationship(link(), link(profile="jcs-2")).startswith(
        "Hashed with different profiles, jcs-1 and jcs-2"
    )


def test_a_hash_in_short() -> None:
    assert format_hash_short("0123456789abcdef" * 4) == "0123456789ab"
    assert format_hash_short(None) == "–"

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Policy, Principal, policy, tool
from capset.definitions.names import PERMISSION, checked_permissions, checked_texts


def work() -> int:
    """Work."""
    return 1


def approve(request: object) -> bool:
    return True


NEVER = ["", "a\n", "\na", "a\0", "\u00e9", "a/b", "a\u200b", 5, b"a", ["a"]]
TOOLS = ["a", "A", "9", "_", "-", "read_file", "Tool-1", "a" * 64]
CAPABILITIES = ["a", "notes", "storage:session", "a-b_c9", "a" * 50]
WRONG_CAPABILITIES = [None, "a b", "A", "9a", "_a", ":a", "a.b", "a" * 51]


@pytest.mark.spec("K1", "C1")
@pytest.mark.parametrize(
    ("label", "make", "fitting", "wrong"),
    [
        ("a tool's name", lambda name: tool(name=name)(work).name, TOOLS, ["a" * 65, "a b", "a.b", "a:b"]),
        ("a capability's name", lambda name: Capability(name).name, CAPABILITIES, WRONG_CAPABILITIES),
        ("an agent's name", lambda name: Agent(name).name, ["Support desk_2.0-x"], [None, " a", "a" * 101, "a:b"]),
        ("a policy's id", lambda name: policy(id=name)(approve).id, ["team.billing:v-2_x"], ["a b", "<b>", "a" * 101]),
        ("a policy's id", lambda name: Policy(name, approve).id, ["team.billing:v-2_x"], [None, "a b", "a" * 101]),
    ],
)
def test_a_name_fits_its_grammar(
    label: str, make: Callable[[Any], str], fitting: list[str], wrong: list[str | None]
) -> None:
    for name in fitting:
        assert make(name) == name
    for name in [*NEVER, *wrong]:
        with pytest.raises(DefinitionError, match=f"{label} must match"):
            make(name)


@pytest.mark.spec("G8")
@pytest.mark.parametrize(
    "wrong",
    [
        *("notes", "notes:", ":read", "Notes:read", "notes:read:all", "notes:*", "*", "notes:read\n", "", "n:R"),
        *(None, 5, ("a", "b")),
    ],
)
def test_a_permission_is_one_resource_and_one_verb(wrong: Any) -> None:
    assert PERMISSION.fullmatch("session_files:read")
    with pytest.raises(DefinitionError, match=re.escape(f"got {wrong!r}")):
        Principal("p", permissions=["a:b", wrong])
    with pytest.raises(DefinitionError, match="tool 'work'"):
        tool(permissions=[wrong])(work)


@pytest.mark.spec("G8")
def test_a_string_of_permissions_is_not_taken_letter_by_letter() -> None:
    with pytest.raises(DefinitionError, match="not the string 'a:b'"):
        checked_permissions("owner", "a:b")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ()),
        ("", ()),
        (" one \n", ("one",)),
        (["  a", "", "\t", "b\n\nc "], ("a", "b\n\nc")),
        (iter(["a", "a"]), ("a", "a")),
    ],
)
def test_texts_are_trimmed_and_empty_ones_dropped(texts: list[str], expected: tuple[str, ...]) -> None:
    assert checked_texts("texts", texts) == expected


@pytest.mark.parametrize(
    ("wrong", "problem"), [(5, "must be text; got int"), ("ab\ud800", "lone surrogate at position 2")]
)
def test_texts_that_have_no_utf8_are_refused(wrong: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        checked_texts("texts", ["fine", wrong])

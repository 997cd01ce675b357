from __future__ import annotations

import re

import pytest

from capset import Agent, Capability, DefinitionError, Policy, Principal, Tool, tool
from capset.definitions.names import PERMISSION, checked, checked_permissions, checked_texts


def yes(request: object) -> bool:
    return True


def named(name: object) -> Tool[[], int]:
    @tool(name=name)  # pyright: ignore[reportArgumentType]
    def handler() -> int:
        """Do."""
        return 1

    return handler


NEVER = ["", "a b", "a\n", "\na", "a\0", "\u00e9", "a/b", "a\u200b", None, 5, b"a", ["a"]]


@pytest.mark.spec("K1")
@pytest.mark.parametrize("name", ["a", "A", "9", "_", "-", "read_file", "Tool-1", "a" * 64])
def test_a_tools_name_is_what_model_providers_accept(name: str) -> None:
    assert named(name).name == name


@pytest.mark.spec("K1")
@pytest.mark.parametrize("name", [wrong for wrong in NEVER if wrong is not None] + ["a" * 65, "a.b", "a:b"])
def test_any_other_name_of_a_tool_is_refused(name: object) -> None:
    with pytest.raises(DefinitionError, match="a tool's name must match"):
        named(name)


@pytest.mark.spec("C1")
@pytest.mark.parametrize("name", ["a", "notes", "storage:session", "a-b_c9", "a" * 50])
def test_a_capabilitys_name(name: str) -> None:
    assert Capability(name).name == name


@pytest.mark.spec("C1")
@pytest.mark.parametrize("name", [*NEVER, "A", "9a", "_a", ":a", "a.b", "a" * 51])
def test_any_other_name_of_a_capability_is_refused(name: object) -> None:
    with pytest.raises(DefinitionError, match="a capability's name must match"):
        Capability(name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["", " a", "a\n", "\u00e9", None, 5, "a" * 101, "a/b", "a:b"])
def test_a_wrong_name_of_an_agent_is_refused(name: object) -> None:
    assert Agent("Support desk_2.0-x").name == "Support desk_2.0-x"
    with pytest.raises(DefinitionError, match="an agent's name must match"):
        Agent(name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("id", [wrong for wrong in NEVER if wrong != ""] + ["", "a" * 101])
def test_a_wrong_id_of_a_policy_is_refused(id: object) -> None:
    assert Policy("team.billing:v-2_x", yes).id == "team.billing:v-2_x"
    with pytest.raises(DefinitionError, match="a policy's id must match"):
        Policy(id, yes)  # pyright: ignore[reportArgumentType]


WRONG_PERMISSIONS = [
    "notes",
    "notes:",
    ":read",
    "Notes:read",
    "notes:read:all",
    "notes:*",
    "*",
    "notes:read\n",
    "",
    "n:R",
]


@pytest.mark.spec("G8")
@pytest.mark.parametrize("permission", [*WRONG_PERMISSIONS, None, 5, ("a", "b")])
def test_a_permission_is_one_resource_and_one_verb(permission: object) -> None:
    assert PERMISSION.fullmatch("session_files:read")
    with pytest.raises(DefinitionError, match=re.escape(f"got {permission!r}")):
        Principal("p", permissions=["a:b", permission])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DefinitionError, match="tool 'do'"):

        @tool(permissions=[permission])  # pyright: ignore[reportArgumentType]
        def do() -> int:
            """Do."""
            return 1


@pytest.mark.spec("G8")
def test_a_string_of_permissions_is_not_taken_letter_by_letter() -> None:
    with pytest.raises(DefinitionError, match="not the string 'a:b'"):
        checked_permissions("it", "a:b")


def test_a_name_is_said_in_the_refusal() -> None:
    with pytest.raises(DefinitionError) as refused:
        checked("a thing", "No!", re.compile("[a-z]+"))
    assert str(refused.value) == "a thing must match [a-z]+; got 'No!'"


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

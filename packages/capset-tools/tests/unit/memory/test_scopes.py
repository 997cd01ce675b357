from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Kernel, Principal, compose
from capset.errors import CapsetError, StateError, ToolNameConflict
from capset_testing import session_for
from capset_tools.memory import memory, memory_for, memory_user
from tests.helpers.tools.memory.support import BOTH, MemoryCapability, recall, remember, tool_of


def principal(id: str, org: str | None = None, kind: Any = "user") -> Principal:
    return Principal(id, permissions=BOTH, org=org, kind=kind)


ADA, BOB, ADA_ELSEWHERE = principal("ada", "acme"), principal("bob", "acme"), principal("ada", "other")


@pytest.mark.spec("C32")
def test_each_scope_has_a_capability_of_its_own() -> None:
    assert memory_for("session") is memory
    assert memory_for("user") is memory_user
    assert [capability.name for capability in (memory, memory_user, memory_for("org"))] == [
        "memory",
        "memory:user",
        "memory:org",
    ]
    assert compose(Agent("a", uses=[memory])).static_hash != compose(Agent("a", uses=[memory_user])).static_hash


@pytest.mark.parametrize("scope", ["request", "world", ""])
def test_other_scopes_are_refused(scope: Any) -> None:
    with pytest.raises(DefinitionError, match=r"scope|live in a session"):
        memory_for(scope)


@pytest.mark.spec("C33")
@pytest.mark.parametrize(
    ("scope", "shared_with"),
    [("session", []), ("user", ["ada again"]), ("org", ["ada again", "bob"])],
)
async def test_memories_are_seen_in_their_scope_and_nowhere_else(scope: Any, shared_with: list[str]) -> None:
    capability = memory_for(scope)
    agent = Agent("scribe", uses=[capability])
    others = {"ada again": ADA, "bob": BOB, "ada in another org": ADA_ELSEWHERE, "ada in no org": principal("ada")}
    async with Kernel("memory://") as kernel, kernel.open(agent, principal=ADA) as session:
        ((stored),) = await remember(session, capability, "The door code is on the note.")
        for name, caller in others.items():
            async with kernel.open(agent, principal=caller) as other:
                if scope == "org" and caller.org is None:
                    with pytest.raises(StateError, match="belongs to no org"):
                        await recall(other, capability, "door")
                    continue
                recalled = await recall(other, capability, "door")
                assert bool(recalled) is (name in shared_with), name
                assert ("door code" in await other.system_text()) is (name in shared_with), name
                if name not in shared_with:
                    gone = await other.call(tool_of(capability, "forget"), id=stored["id"])
                    assert not gone["forgotten"]
        assert await recall(session, capability, "door") == ["The door code is on the note."]


@pytest.mark.spec("C33")
async def test_who_is_no_user_is_told_that_there_is_no_memory_of_theirs() -> None:
    async with session_for(memory_user, principal=principal("bot", kind="agent")) as desk:
        for name, arguments in (("remember", {"text": "x"}), ("recall", {"query": "x"}), ("forget", {"id": "x"})):
            with pytest.raises(StateError, match="no user scope here: 'bot' is a principal of the kind agent"):
                await desk.session.call(tool_of(memory_user, name), **arguments)
        assert "<user-memories>" not in await desk.session.system_text()


def prefixed(first: MemoryCapability, second: MemoryCapability) -> Agent:
    return Agent("scribe", uses=[first, second.with_names(prefix="user_")])


async def test_two_scopes_in_one_agent_need_two_names_for_their_tools() -> None:
    with pytest.raises(ToolNameConflict, match="two different tools named 'remember'"):
        compose(Agent("scribe", uses=[memory, memory_user]))
    async with session_for(prefixed(memory, memory_user), principal=ADA) as desk:
        await remember(desk.session, memory, "of this session")
        await remember(desk.session, memory_user, "of the user")
        assert await recall(desk.session, memory, "of") == ["of this session"]
        assert await recall(desk.session, memory_user, "of") == ["of the user"]
        text = await desk.session.system_text()
    assert "<memories>\n  - 2026-01-01: of this session\n</memories>" in text
    assert "<user-memories>\n  - 2026-01-01: of the user\n</user-memories>" in text


async def test_another_session_of_the_same_user_cannot_open_a_deleted_ones_memory() -> None:
    agent = Agent("scribe", uses=[memory])
    async with Kernel("memory://") as kernel:
        async with kernel.open(agent, principal=ADA) as session:
            await remember(session, memory, "gone with the session")
        await kernel.store.sessions.delete(session.id)
        with pytest.raises(CapsetError):
            await remember(session, memory, "too late")
        async with kernel.open(agent, principal=ADA) as other:
            assert await recall(other, memory, "gone") == []


async def test_a_session_remembers_after_a_restart(tmp_path: Any) -> None:
    agent: Agent = prefixed(memory, memory_user)
    url = f"sqlite:///{tmp_path}/capset.db"
    async with Kernel(url) as kernel, kernel.open(agent, principal=ADA) as session:
        await remember(session, memory, "before the restart")
        await remember(session, memory_user, "about Ada")
    async with Kernel(url) as kernel:
        async with kernel.open(agent, principal=ADA, session_id=session.id) as reopened:
            assert await recall(reopened, memory, "restart") == ["before the restart"]
            assert "before the restart" in await reopened.system_text()
        async with kernel.open(agent, principal=ADA) as new:
            assert await recall(new, memory, "restart") == []
            assert await recall(new, memory_user, "ada") == ["about Ada"]


def test_a_memory_is_a_capability_like_any_other() -> None:
    assert isinstance(memory, Capability)

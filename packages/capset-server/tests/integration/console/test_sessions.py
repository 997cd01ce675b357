"""The pages of sessions, without a browser: what they show, whom they show it, and their streams."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from capset.stores.base import NewEvent, TurnRow
from capset_agents.playback.scripts import Call, ScriptStep, ToolCall
from capset_server.auth.keys import revoke_key
from capset_server.console.pages import conversations, session_files, sessions, tool_calls
from capset_server.console.pages.conversations import WINDOW
from tests.helpers.server.console.talking import HOSTILE, Visitor, session_of, shop, until_state, visitor
from tests.helpers.server.support import Site

SECRET = "the-treasure-is-under-the-oak"
MOVES = (
    ScriptStep(reasoning="I think.", text=SECRET, calls=[ToolCall(tool="shout", arguments={"text": SECRET})]),
    "The end.",
    "More.",
)


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncGenerator[tuple[Site, str]]:
    """Give a server, and a session of ``boss`` with one turn and one file, both with a secret."""
    async with shop(*MOVES, store=f"sqlite:///{tmp_path}/x.db") as server:
        session = await session_of(server)
        async with server.client("boss") as client:
            await client.post(f"/v1/sessions/{session}/messages", json={"content": "tell me"})
            await client.put(f"/v1/sessions/{session}/files/secret.txt", content=SECRET.encode())
        await until_state(server, session, "turn.ended")
        yield server, session


async def turn_of(page: Visitor, session: str) -> str:
    match = re.search(r'id="turn-([0-9a-f-]+)"', (await page.get(f"/sessions/{session}")).text)
    assert match is not None
    return match[1]


@pytest.mark.spec("N12")
async def test_a_conversation_is_shown_whole(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as page:
        rendered = (await page.get(f"/sessions/{session}")).text
        for text in ("tell me", "I think.", SECRET, "shout", "The end.", "tokens in", "Timeline"):
            assert text in rendered, text
        listing = (await page.get("/sessions")).text
        assert f"/sessions/{session}" in listing
        assert "Next page" not in listing
        line = (await page.get(f"/sessions/{session}/turns/{await turn_of(page, session)}")).text
        assert "<svg" in line
        assert "model, step 2" in line
        missing = await page.get(f"/sessions/{session}/turns/nothing")
        assert missing.status_code == 404


@pytest.mark.spec("N3", "N12")
async def test_another_organisation_gets_nothing_from_any_path(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as mine:
        turn = await turn_of(mine, session)
    routes = [
        page_route for module in (sessions, conversations, session_files, tool_calls) for page_route in module.ROUTES
    ]
    before = await server.kernel.store.events.latest([session])
    async with visitor(server, "spy") as spy:
        tried = 0
        for route in routes:
            if "{id}" not in route.path:
                continue
            path = route.path.replace("{path:file}", "secret.txt").format(id=session, turn=turn, seq=3, approval="x")
            tried += 1
            if route.method == "GET":
                answers = [await spy.get(path), await spy.get(path, fragment=True)]
                answers += [await spy.get(path, params={"download": "1", "image": "1", "tool": "shout"})]
            elif route.method == "PUT":
                answers = [await spy.put(path, b"mine")]
            else:
                form = {"content": "x", "tool": "shout", "action": "delete", "answer": "approve", "version": "1"}
                answers = [await spy.post(path, form)]
            for answer in answers:
                assert answer.status_code == 404, (route, answer.status_code, answer.text)
                assert SECRET not in answer.text, route
        assert tried > 15
        assert session not in (await spy.get("/sessions")).text
        refused = await spy.post("/sessions", agent_id=server.keys["boss"][:20])
        assert refused.status_code == 404
    assert await server.kernel.store.events.latest([session]) == before
    async with visitor(server) as mine:
        assert SECRET in (await mine.get(f"/sessions/{session}/files/secret.txt")).text


@pytest.mark.spec("N2", "N14")
async def test_nothing_is_changed_without_the_token_of_the_page(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as page:
        page.token = "0" * 64
        path = f"/sessions/{session}/files/secret.txt"
        assert (await page.put(path, b"forged")).status_code == 403
        assert (await page.post(path, action="delete")).status_code == 403
        assert (await page.post(f"/sessions/{session}/messages", content="forged")).status_code == 403
        assert (await page.post(f"/sessions/{session}/delete")).status_code == 403
        assert SECRET in (await page.get(path)).text


async def read_stream(page: Visitor, path: str, *, until: str, last: str | None = None) -> tuple[str, str]:
    """Return what a stream says until some text has come, and the id of its last event."""
    headers = {"hx-request": "true"} | ({} if last is None else {"last-event-id": last})
    received, last = "", last or ""
    async with asyncio.timeout(60), page.client.stream("GET", path, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            last = line.removeprefix("id: ") if line.startswith("id: ") else last
            received += line + "\n"
            if until in received and not line:
                break
    return received, last


@pytest.mark.spec("N12")
async def test_a_stream_goes_on_where_it_was_left(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as page:
        path = f"/sessions/{session}/events"
        first, last = await read_stream(page, f"{path}?start=0&after=0", until="I think.")
        assert first.count("I think.") == 1
        rest, _ = await read_stream(page, f"{path}?start=0&after=0", until="The end.", last=last)
        assert "The end." in rest
        assert 'hx-swap="beforeend"><article' not in rest, "the turn is there already"
        end = (await server.kernel.store.events.latest([session]))[session]
        await page.post(f"/sessions/{session}/messages", fragment=True, content="go on", once="a")
        more, _ = await read_stream(page, f"{path}?start=0&after={end}", until="More.")
        assert "The end." not in more


@pytest.mark.spec("N12")
async def test_a_stream_ends_with_its_sign_in(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as page:
        path = f"/sessions/{session}/events?start=0&after=0"
        async with asyncio.timeout(60), page.client.stream("GET", path, headers={"hx-request": "true"}) as answer:
            async for line in answer.aiter_lines():
                if "The end." in line:
                    (row,) = [key for key in await server.kernel.store.keys.list() if key.name == "boss"]
                    await revoke_key(server.kernel, row.id)
        reconnected = await page.get(path, fragment=True)
        assert reconnected.status_code == 401
        assert SECRET not in reconnected.text


@pytest.mark.realtime
@pytest.mark.spec("N12", "T46")
async def test_a_stream_tells_nothing_after_a_sign_out(talk: tuple[Site, str]) -> None:
    server, session = talk
    received, is_signed_in = "", True
    async with visitor(server) as page, server.client("boss") as client:
        path = f"/sessions/{session}/events?start=0&after=0"
        async with asyncio.timeout(60), page.client.stream("GET", path, headers={"hx-request": "true"}) as answer:
            async for line in answer.aiter_lines():
                received += line
                if "The end." in line and is_signed_in:
                    is_signed_in = False
                    assert (await page.client.post("/logout")).url.path == "/login"
                    await asyncio.sleep(1.1)
                    await client.post(f"/v1/sessions/{session}/messages", json={"content": "go on"})
        await until_state(server, session, "turn.ended")
    assert "The end." in received
    assert "More." not in received


@pytest.mark.spec("N12")
async def test_a_form_that_is_sent_twice_begins_one_turn(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as page:
        for _ in range(2):
            sent = await page.post(f"/sessions/{session}/messages", fragment=True, content="go on", once="same")
            assert sent.status_code == 200
        types = await until_state(server, session, "turn.ended")
        assert types.count("turn.started") == 2, "the first, and one more"
        forged = await page.post(f"/sessions/{session}/messages", fragment=True, content="go on", once="two €")
        assert forged.status_code == 422, "no page of ours has such a form"
        plain = await page.post(f"/sessions/{session}/messages", content="  ")
        assert plain.url.path == f"/sessions/{session}", "an empty message begins nothing"


@pytest.mark.spec("N12")
async def test_a_turn_that_failed_for_the_moment_is_tried_again(tmp_path: Path) -> None:
    moves = (ScriptStep(fail="unavailable", repeat=1),)
    async with shop(*moves, store=f"sqlite:///{tmp_path}/x.db") as server:
        session = await session_of(server)
        async with visitor(server) as page:
            await page.post(f"/sessions/{session}/messages", content="hello", once="a")
            await until_state(server, session, "turn.failed")
            rendered = (await page.get(f"/sessions/{session}")).text
            assert "Try again" in rendered
            assert 'role="alert"' in rendered
            turn = await turn_of(page, session)
            assert (await page.post(f"/sessions/{session}/turns/{turn}/resume", fragment=True)).status_code == 204
            types = await until_state(server, session, "turn.failed")
            assert "turn.retried" in types


@pytest.mark.spec("N12")
async def test_without_a_model_a_page_says_what_to_start_the_server_with() -> None:
    async with shop() as server:
        session = await session_of(server)
        async with visitor(server) as page:
            rendered = (await page.get(f"/sessions/{session}")).text
            assert "--model script:FILE" in rendered
            assert f"/sessions/{session}/call" in rendered
            assert 'id="composer"' not in rendered
            refused = await page.post(f"/sessions/{session}/messages", content="hello")
            assert refused.status_code == 501


@pytest.mark.spec("N12")
async def test_a_long_result_and_hostile_text_break_no_page(tmp_path: Path) -> None:
    moves = (Call("shout", times=150_000), HOSTILE)
    async with shop(*moves, store=f"sqlite:///{tmp_path}/x.db") as server:
        session = await session_of(server)
        async with visitor(server) as page:
            await page.post(f"/sessions/{session}/messages", content=HOSTILE, once="a")
            await until_state(server, session, "turn.ended", "turn.failed")
            rendered = (await page.get(f"/sessions/{session}")).text
            assert len(rendered) < 100_000
            assert "<script>alert" not in rendered
            assert "<img src=x" not in rendered
            assert "{{7*7}}" in rendered
            assert "\u202e" not in rendered
            (seq,) = set(re.findall(rf"/sessions/{session}/events/(\d+)", rendered))
            full_text = (await page.get(f"/sessions/{session}/events/{seq}")).text
            assert len(rendered) < len(full_text) < 8_000_000
            assert "<script>alert" not in full_text


@pytest.mark.spec("N12")
async def test_a_long_turn_is_shown_from_its_beginning(talk: tuple[Site, str]) -> None:
    server, session = talk
    events, now = server.kernel.store.events, server.kernel.now()
    turn = TurnRow(session, "long", "here", "2099-01-01T00:00:00.000000Z", None)
    failed = NewEvent("turn.failed", "{}")
    await events.begin(turn, NewEvent("turn.started", '{"agent":"a","agent_version":1}'), now=now, interrupted=failed)
    deltas = [NewEvent("text.delta", f'{{"step":1,"part":0,"text":"word {number} "}}') for number in range(3 * WINDOW)]
    await events.append(turn, deltas, now=now, then=turn)
    async with visitor(server) as page:
        rendered = (await page.get(f"/sessions/{session}")).text
        assert "word 0 word 1 " in rendered
        assert f"word {3 * WINDOW - 1} " in rendered
        assert "The agent is working." in rendered
        line = (await page.get(f"/sessions/{session}/turns/long", params={"after": "0"})).text
        assert "model, step 1" in line


@pytest.mark.spec("N12")
async def test_a_session_is_moved_to_another_version_and_deleted(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with server.client("boss") as client:
        agent = (await client.get(f"/v1/sessions/{session}")).json()["agent_id"]
        await client.patch(f"/v1/agents/{agent}", json={"description": "newer"}, headers=_MERGE)
    async with visitor(server) as page:
        assert "Move to another version" in (await page.get(f"/sessions/{session}/about")).text
        stale = await page.post(f"/sessions/{session}/move", version="2", seen="7")
        assert stale.status_code == 412
        moved = await page.post(f"/sessions/{session}/move", version="2", seen="1")
        assert "now uses version 2" in moved.text
        begun = await page.post("/sessions", agent_id=agent)
        assert begun.url.path != f"/sessions/{session}"
        only = (await page.get("/sessions", params={"agent_id": agent})).text
        assert only.count("<tr><td>") == 2
        assert "helper" in (await page.get("/sessions/new", params={"agent_id": agent})).text
        gone = await page.post(f"/sessions/{session}/delete")
        assert "The session was deleted" in gone.text
        assert (await page.get(f"/sessions/{session}")).status_code == 404


_MERGE = {"content-type": "application/merge-patch+json"}


@pytest.mark.spec("N12")
async def test_the_context_says_why_each_tool_is_not_in_play(talk: tuple[Site, str]) -> None:
    server, session = talk
    async with visitor(server) as page:
        rendered = (await page.get(f"/sessions/{session}/context")).text
        assert "unlock" in rendered
        assert "vault:open" in rendered
        assert "write_todos" in rendered
        assert "Nothing to show" in (await page.get(f"/sessions/{session}/state")).text

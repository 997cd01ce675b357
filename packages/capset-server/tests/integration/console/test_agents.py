"""The pages of agents without a browser: what they answer, and what nobody may find in them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml

from capset import Capability, tool
from capset_connect.agents.definitions import build_agent
from tests.helpers.server.console.visitors import Visitor, form_in, token_of
from tests.helpers.server.support import Site, make_agent, site

pytestmark = pytest.mark.spec("N10")
HOSTILE = "</textarea><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{1234567*7}}\u202eabc"


@tool(effect="read", name="echo")
async def shout(text: str) -> str:
    """Shout."""
    return text.upper()


loud = Capability("loud", title="Loud", description="Shouts.", tools=[shout])
vault = Capability("vault", risk="high", instructions="Careful.")
evil = Capability("evil", title=HOSTILE, description=HOSTILE, instructions=HOSTILE)


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Site]:
    """Give a server; ``boss`` of ``acme`` may do everything, ``ada`` all but administer, ``reader`` only read."""
    async with site(loud, vault, evil) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("reader", scopes=["capset:read"])
        yield server


@asynccontextmanager
async def visiting(server: Site, user: str) -> AsyncGenerator[Visitor]:
    async with server.client(None, follow_redirects=True) as client:
        visitor = Visitor(client)
        await visitor.sign_in(server.keys[user])
        yield visitor


@pytest.fixture
async def administrator(shop: Site) -> AsyncGenerator[Visitor]:
    async with visiting(shop, "boss") as visitor:
        yield visitor


@pytest.fixture
async def author(shop: Site) -> AsyncGenerator[Visitor]:
    async with visiting(shop, "ada") as visitor:
        yield visitor


async def stored(shop: Site, id: str) -> dict[str, Any]:
    async with shop.client("ada") as client:
        return (await client.get(f"/v1/agents/{id}")).json()


async def made(shop: Site, *capabilities: str, user: str = "ada", **more: Any) -> dict[str, Any]:
    async with shop.client(user) as client:
        return await make_agent(client, *capabilities, **more)


async def changed(shop: Site, agent: dict[str, Any], user: str = "boss", **fields: Any) -> None:
    async with shop.client(user) as client:
        assert (await client.patch(f"/v1/agents/{agent['id']}", json=fields)).is_success


async def test_an_agent_is_made_without_script(shop: Site, author: Visitor) -> None:
    typed = {"agent/name": "clerk", "agent/system_prompt": "Be kind.", "agent/tags": "a\r\nb", "add": "loud"}
    page = await author.get("/agents/new")
    page = await author.send("/agents/new", {**form_in(page), **typed, "do": "add"})
    assert (page.status_code, "loud is added." in page.text) == (200, True)
    page = await author.send("/agents/new", {**form_in(page), "do": "add:kit"})
    for part in ("two different tools named &#39;echo&#39;", "not yet valid", "Be kind."):
        assert part in page.text
    assert form_in(page)["capability"] == ["c0", "c1"]
    page = await author.send("/agents/new", {**form_in(page), "do": "up:c1"})
    form = {**form_in(page), "c0-prefix": "loud_"}
    assert form["capability"] == ["c1", "c0"]
    page = await author.send("/agents/new", {**form, "do": "preview"})
    assert ("not yet valid" in page.text, "loud_echo" in page.text) == (False, True)
    page = await author.send("/agents/new", {**form_in(page), "do": "save"})
    assert "Saved as version 1." in page.text
    agent = await stored(shop, page.url.path.rpartition("/")[2])
    assert (agent["name"], agent["system_prompt"], agent["tags"]) == ("clerk", "Be kind.", ["a", "b"])
    kit, second = agent["capabilities"]
    assert (kit, second["id"], second["prefix"]) == ("kit", "loud", "loud_")


async def test_an_editor_that_is_saved_untouched_changes_nothing(shop: Site, administrator: Visitor) -> None:
    fields: dict[str, Any] = {
        "description": " ",
        "system_prompt": f"\n{HOSTILE}\r\nx\ry",
        "instructions": ["one\r\ntwo", HOSTILE],
        "static_context": {"a": {"b": [1, True, "x"]}},
        "allowance": {"limits": ["3/1m"], "run": {"calls": 1}},
        "tags": [HOSTILE[:60], "x,y"],
    }
    agent = await made(shop, "evil", "kit", user="boss", **fields)
    path = f"/agents/{agent['id']}/edit"
    page = await administrator.send(path, {**form_in(await administrator.get(path)), "do": "save"})
    assert "Saved as version 1." in page.text, "nothing was written, so it has the same version"
    assert await stored(shop, agent["id"]) == agent


@pytest.mark.parametrize("as_fragment", [False, True])
async def test_what_is_refused_is_shown_at_its_field_with_all_that_was_typed(
    author: Visitor, as_fragment: bool
) -> None:
    typed = {
        "agent/name": "-",
        "agent/system_prompt": HOSTILE,
        "instruction": [HOSTILE, "two"],
        "agent/static_context": "{broken",
        "capability": ["c0", "c1"],
        "c0-id": "vault",
        "c1-id": "kit",
        "c1-rename": "nonsense",
        "do": "save",
    }
    headers = {"HX-Request": "true"} if as_fragment else {}
    before = (await author.get("/agents")).text
    page = await author.send("/agents/new", typed, headers=headers)
    assert (page.status_code, "<html" in page.text) == (200 if as_fragment else 422, not as_fragment)
    form = form_in(page)
    for name in set(typed) - {"do", "instruction"}:
        assert form[name] == (typed[name] if isinstance(typed[name], list) else [typed[name]]), name
    assert form["instruction"] == [HOSTILE, "two", ""]
    assert "Not saved." in page.text
    mended = {**typed, "agent/name": "fine", "agent/static_context": "", "c1-rename": ""}
    page = await author.send("/agents/new", mended, headers=headers)
    assert page.status_code == (200 if as_fragment else 403)
    cards = [page.text.split(f'id="{key}"', 1)[1].split("</li>", 1)[0] for key in ("c0", "c1")]
    assert ["only an administrator" in card for card in cards] == [True, False], "at the capability that it is about"
    assert form_in(page)["agent/system_prompt"] == [HOSTILE]
    assert (await author.get("/agents")).text.count("agent-card") == before.count("agent-card"), "nothing is kept"


@pytest.mark.spec("N11")
async def test_another_who_saves_first_is_named_and_one_decides(shop: Site, author: Visitor) -> None:
    agent = await made(shop, "kit", system_prompt="Old.", description="Old.")
    path = f"/agents/{agent['id']}/edit"
    form = {**form_in(await author.get(path)), "agent/system_prompt": "Mine."}
    await changed(shop, agent, description="Theirs.", model="their:model")
    page = await author.send(path, {**form, "do": "save"})
    assert page.status_code == 412
    for part in ("Version 2 was saved by somebody else", "user:boss", "Theirs.", "their:model"):
        assert part in page.text
    mine = form_in(page)
    keys = ("agent/system_prompt", "agent/description", "version")
    assert [mine[key] for key in keys] == [["Mine."], ["Old."], ["1"]]
    assert (await stored(shop, agent["id"]))["version"] == 2
    # Theirs where I changed nothing.
    merged = await author.send(path, {**mine, "do": "merge:2"})
    assert "Taken from version 2: description, model." in merged.text
    assert [form_in(merged)[key] for key in keys] == [["Mine."], ["Theirs."], ["2"]]
    # Mine, over theirs; over what one has seen, and nothing newer.
    for told in ("Saved as version 3.", "Version 3 was saved by somebody else"):
        assert told in (await author.send(path, {**mine, "do": "overwrite:2"})).text
    now = await stored(shop, agent["id"])
    assert (now["version"], now["system_prompt"], now["description"], now["model"]) == (3, "Mine.", "Old.", None)


@pytest.mark.spec("N11")
async def test_what_cannot_be_read_is_not_lost_by_a_merge(shop: Site, author: Visitor) -> None:
    agent = await made(shop, "kit")
    path = f"/agents/{agent['id']}/edit"
    form = {**form_in(await author.get(path)), "agent/static_context": "{broken"}
    await changed(shop, agent, description="Theirs.")
    page = await author.send(path, {**form, "do": "merge:2"})
    assert "first correct the fields that cannot be read" in page.text
    assert form_in(page)["agent/static_context"] == ["{broken"]


@pytest.mark.spec("N11")
async def test_versions_are_compared_and_rolled_back(shop: Site, author: Visitor) -> None:
    agent = await made(shop, "kit", system_prompt="One.\nSame.")
    await changed(shop, agent, "ada", system_prompt="Two.\nSame.", capabilities=["loud"])
    page = await author.get(f"/agents/{agent['id']}/versions?before=1&after=2")
    for part in ("removed: </span>One.", "added: </span>Two.", "<code>crash</code>", "system_prompt"):
        assert part in page.text
    path, token = f"/agents/{agent['id']}/rollback", token_of(page)
    refused = await author.send(path, {"to": "1", "version": "1"}, token=token)
    assert (refused.status_code, (await stored(shop, agent["id"]))["version"]) == (412, 2)
    page = await author.send(path, {"to": "1", "version": "2"}, token=token)
    assert "Version 3 has the contents of version 1." in page.text
    now = await stored(shop, agent["id"])
    assert (now["version"], now["system_prompt"], now["capabilities"]) == (3, "One.\nSame.", ["kit"])


async def test_an_agent_is_archived_and_made_active_again(shop: Site, author: Visitor) -> None:
    agent = await made(shop, "kit", name="leaver")
    page = await author.send(f"/agents/{agent['id']}/archive", {"version": "1"})
    assert ("Archived: it accepts no new sessions." in page.text, "Run agent" in page.text) == (True, False)
    listings = [(await author.get(path)).text for path in ("/agents", "/agents?status=archived")]
    assert ["leaver" in listing for listing in listings] == [False, True]
    assert (await author.send(f"/agents/{agent['id']}/restore", {"version": "1"})).status_code == 412
    page = await author.send(f"/agents/{agent['id']}/restore", {"version": "2"})
    assert (await stored(shop, agent["id"]))["status"] == "active"
    assert "Run agent" in page.text


async def test_an_exported_file_makes_the_same_agent(shop: Site, author: Visitor) -> None:
    context = {"a": "no", "b": 1.5}
    prompt = HOSTILE + "\x85\u2028: - #"
    agent = await made(shop, "kit", system_prompt=prompt, static_context=context, tags=["t"])
    for ending, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        answer = await author.get(f"/agents/{agent['id']}/file/{ending}")
        assert answer.headers["content-disposition"] == f'attachment; filename="helper.{ending}"'
        exported = read(answer.text)
        assert "tags" not in exported, "configuration files do not have them"
        composed = shop.kernel.compose(build_agent(exported, shop.registry, "file"))
        assert (composed.static_hash, exported["static_context"]) == (agent["static_hash"], context)
    for path in ("/agents/foreman/file/yaml", f"/agents/{agent['id']}/file/exe"):
        assert (await author.get(path)).status_code == 404


async def test_hostile_text_is_text_everywhere(shop: Site, administrator: Visitor) -> None:
    fields: dict[str, Any] = dict.fromkeys(("system_prompt", "description", "model"), HOSTILE)
    agent = await made(shop, "evil", user="boss", instructions=[HOSTILE], tags=[HOSTILE], **fields)
    await changed(shop, agent, system_prompt=HOSTILE * 2, model=None)
    base = f"/agents/{agent['id']}"
    for path in (
        *("/agents", "/agents/new", "/agents?text=%3Cscript%3E"),
        *(base, f"{base}/edit", f"{base}/versions?before=1"),
    ):
        page = await administrator.get(path)
        assert page.status_code == 200
        for part in ("<script>alert", "<img", "8641969", "</textarea><script"):
            assert part not in page.text, (path, part)
    rendered = (await administrator.get(base)).text
    assert ("\u202e" in rendered, "\\u{202e}" in rendered) == (False, True), "what turns text around is spelled out"


async def test_those_who_only_read_change_nothing(shop: Site) -> None:
    agent = await made(shop, "kit")
    async with visiting(shop, "reader") as reader:
        page = await reader.get(f"/agents/{agent['id']}")
        for part in ("/edit", "Archive", "Run agent"):
            assert part not in page.text
        assert "New agent" not in (await reader.get("/agents")).text
        page = await reader.send("/agents/new", {"agent/name": "mine", "do": "save"})
        assert (page.status_code, form_in(page)["agent/name"]) == (403, ["mine"])
        assert (await reader.send(f"/agents/{agent['id']}/archive", {"version": "1"})).status_code == 403


async def test_an_agent_in_code_is_shown_and_not_edited(author: Visitor) -> None:
    page = await author.get("/agents/foreman")
    assert ("You run the workshop." in page.text, "/edit" in page.text) == (True, False)
    page = await author.get("/agents/foreman/edit")
    assert (page.url.path, "Defined in code: change it there" in page.text) == ("/agents/foreman", True)
    assert "foreman" in (await author.get("/agents?text=OREMA")).text


async def test_only_administrators_see_servers_to_write_and_nobody_loses_them(
    shop: Site, author: Visitor, administrator: Visitor
) -> None:
    agent = await made(shop, "kit", user="boss", mcp_servers={"shop": {"url": "https://shop.example.com/mcp"}})
    path = f"/agents/{agent['id']}/edit"
    assert "agent/mcp_servers" in form_in(await administrator.get(path))
    form = form_in(await author.get(path))
    assert "agent/mcp_servers" not in form
    page = await author.send(path, {**form, "agent/description": "New.", "do": "save"})
    assert "Saved as version 2." in page.text
    now = await stored(shop, agent["id"])
    assert (now["description"], now["mcp_servers"]) == ("New.", agent["mcp_servers"])


async def test_a_first_agent_is_led_to() -> None:
    async with site(agents=()) as empty, visiting(empty, "ada") as visitor:
        assert 'href="/agents/new">Create the first agent' in (await visitor.get("/agents")).text


async def test_a_sign_in_that_has_ended_leads_nobody_away_from_what_is_typed(shop: Site) -> None:
    async with shop.client(None) as client:
        lost = await client.post("/agents/new", data={"agent/name": "x"}, headers={"HX-Request": "true"})
    assert (lost.status_code, "hx-redirect" in lost.headers) == (401, False)
    assert "Sign in in another window" in lost.text


async def test_a_long_prompt_beyond_ascii_is_taken(shop: Site, author: Visitor) -> None:
    prompt = "漢" * 190_000
    page = await author.send("/agents/new", {"agent/name": "long", "agent/system_prompt": prompt, "do": "save"})
    assert (await stored(shop, page.url.path.rpartition("/")[2]))["system_prompt"] == prompt

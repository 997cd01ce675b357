"""The pages of agents without a browser: what they answer, and what nobody may find in them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import yaml

from capset import Capability, tool
from capset_connect.agent_files.files import build_agent
from tests.helpers.server.console.visitors import Visitor, form_in, token_of
from tests.helpers.server.support import Site, make_agent, site

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
    """Give a server; ``boss`` of ``acme`` may do everything, ``reader`` only read, and ``spy`` is of another org."""
    async with site(loud, vault, evil) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("reader", scopes=["capset:read"])
        await server.key("spy", org="other", scopes=["capset:admin"])
        yield server


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[Visitor]:
    async with shop.client(None, follow_redirects=True) as client:
        visitor = Visitor(client)
        await visitor.sign_in(shop.keys["boss"])
        yield visitor


@pytest.fixture
async def ada(shop: Site) -> AsyncGenerator[Visitor]:
    async with shop.client(None, follow_redirects=True) as client:
        visitor = Visitor(client)
        await visitor.sign_in(shop.keys["ada"])
        yield visitor


async def stored(shop: Site, id: str) -> dict[str, Any]:
    async with shop.client("ada") as client:
        return (await client.get(f"/v1/agents/{id}")).json()


async def made(shop: Site, *capabilities: str, **more: Any) -> dict[str, Any]:
    async with shop.client("ada") as client:
        return await make_agent(client, *capabilities, **more)


@pytest.mark.spec("N10")
async def test_an_agent_is_made_without_script(shop: Site, ada: Visitor) -> None:
    page = await ada.get("/agents/new")
    form = {
        **form_in(page),
        "agent/name": "clerk",
        "agent/system_prompt": "Be kind.",
        "agent/tags": "a\r\nb",
        "add": "loud",
    }
    page = await ada.send("/agents/new", {**form, "do": "add"})
    assert (page.status_code, "loud is added." in page.text) == (200, True)
    page = await ada.send("/agents/new", {**form_in(page), "do": "add:kit"})
    for part in ("two different tools named &#39;echo&#39;", "not yet valid", "Be kind."):
        assert part in page.text
    form = form_in(page)
    assert form["capability"] == ["c0", "c1"]
    page = await ada.send("/agents/new", {**form, "do": "up:c1"})
    form = {**form_in(page), "c0-prefix": "loud_"}
    assert form["capability"] == ["c1", "c0"]
    page = await ada.send("/agents/new", {**form, "do": "preview"})
    assert "not yet valid" not in page.text
    assert "loud_echo" in page.text
    page = await ada.send("/agents/new", {**form_in(page), "do": "save"})
    assert "Saved as version 1." in page.text
    agent = await stored(shop, page.url.path.rpartition("/")[2])
    assert (agent["name"], agent["system_prompt"], agent["tags"]) == ("clerk", "Be kind.", ["a", "b"])
    kit, second = agent["capabilities"]
    assert (kit, second["id"], second["prefix"]) == ("kit", "loud", "loud_")


@pytest.mark.spec("N10")
async def test_an_editor_that_is_saved_untouched_changes_nothing(shop: Site, boss: Visitor) -> None:
    fields: dict[str, Any] = {
        "description": " ",
        "system_prompt": f"\n{HOSTILE}\r\nx\ry",
        "instructions": ["one\r\ntwo", HOSTILE],
        "static_context": {"a": {"b": [1, True, "x"]}},
        "allowance": {"limits": ["3/1m"], "run": {"calls": 1}},
        "tags": [HOSTILE[:60], "x,y"],
    }
    async with shop.client("boss") as client:
        agent = await make_agent(client, "evil", "kit", **fields)
    page = await boss.get(f"/agents/{agent['id']}/edit")
    page = await boss.send(f"/agents/{agent['id']}/edit", {**form_in(page), "do": "save"})
    assert "Saved as version 1." in page.text, "nothing was written, so it has the same version"
    assert await stored(shop, agent["id"]) == agent


@pytest.mark.spec("N10")
@pytest.mark.parametrize("as_fragment", [False, True])
async def test_what_is_refused_is_shown_at_its_field_with_all_that_was_typed(
    shop: Site, ada: Visitor, as_fragment: bool
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
    before = (await ada.client.get("/agents")).text
    page = await ada.send("/agents/new", typed, headers=headers)
    assert page.status_code == (200 if as_fragment else 422)
    assert ("<html" in page.text) is not as_fragment
    form = form_in(page)
    for name in set(typed) - {"do", "instruction"}:
        assert form[name] == (typed[name] if isinstance(typed[name], list) else [typed[name]]), name
    assert form["instruction"] == [HOSTILE, "two", ""]
    assert "Not saved." in page.text
    mended = {**typed, "agent/name": "fine", "agent/static_context": "", "c1-rename": ""}
    page = await ada.send("/agents/new", mended, headers=headers)
    assert page.status_code == (200 if as_fragment else 403)
    card = page.text.split('id="c0"', 1)[1].split("</li>", 1)[0]
    assert "only an administrator" in card, "at the capability that it is about"
    assert "only an administrator gives" not in page.text.split('id="c1"', 1)[1].split("</li>", 1)[0]
    assert form_in(page)["agent/system_prompt"] == [HOSTILE]
    assert (await ada.client.get("/agents")).text.count("agent-card") == before.count("agent-card"), "nothing is kept"


@pytest.mark.spec("N11")
async def test_another_who_saves_first_is_named_and_one_decides(shop: Site, ada: Visitor) -> None:
    agent = await made(shop, "kit", system_prompt="Old.", description="Old.")
    path = f"/agents/{agent['id']}/edit"
    form = {**form_in(await ada.get(path)), "agent/system_prompt": "Mine."}
    async with shop.client("boss") as client:
        await client.patch(f"/v1/agents/{agent['id']}", json={"description": "Theirs.", "model": "their:model"})
    page = await ada.send(path, {**form, "do": "save"})
    assert page.status_code == 412
    for part in ("Somebody else has saved version 2", "user:boss", "Theirs.", "their:model"):
        assert part in page.text
    returned_form = form_in(page)
    assert (returned_form["agent/system_prompt"], returned_form["agent/description"], returned_form["version"]) == (
        ["Mine."],
        ["Old."],
        ["1"],
    )
    assert (await stored(shop, agent["id"]))["version"] == 2
    # Theirs where I changed nothing.
    merged = await ada.send(path, {**returned_form, "do": "merge:2"})
    form = form_in(merged)
    assert "Taken from version 2: description, model." in merged.text
    assert (form["agent/system_prompt"], form["agent/description"], form["version"]) == (["Mine."], ["Theirs."], ["2"])
    # Mine, over theirs.
    page = await ada.send(path, {**returned_form, "do": "overwrite:2"})
    assert "Saved as version 3." in page.text
    now = await stored(shop, agent["id"])
    assert (now["system_prompt"], now["description"], now["model"]) == ("Mine.", "Old.", None)
    # Over what one has seen, and nothing newer.
    repeated = await ada.send(path, {**returned_form, "do": "overwrite:2"})
    assert "Somebody else has saved version 3" in repeated.text
    assert (await stored(shop, agent["id"]))["version"] == 3


@pytest.mark.spec("N11")
async def test_what_cannot_be_read_is_not_lost_by_a_merge(shop: Site, ada: Visitor) -> None:
    agent = await made(shop, "kit")
    path = f"/agents/{agent['id']}/edit"
    form = {**form_in(await ada.get(path)), "agent/static_context": "{broken"}
    async with shop.client("boss") as client:
        await client.patch(f"/v1/agents/{agent['id']}", json={"description": "Theirs."})
    page = await ada.send(path, {**form, "do": "merge:2"})
    assert "first mend what cannot be read" in page.text
    assert form_in(page)["agent/static_context"] == ["{broken"]


@pytest.mark.spec("N11")
async def test_versions_are_compared_and_rolled_back(shop: Site, ada: Visitor) -> None:
    agent = await made(shop, "kit", system_prompt="One.\nSame.")
    async with shop.client("ada") as client:
        await client.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": "Two.\nSame.", "capabilities": ["loud"]})
    page = await ada.get(f"/agents/{agent['id']}/versions?before=1&after=2")
    for part in ("removed: </span>One.", "added: </span>Two.", "<code>crash</code>", "system_prompt"):
        assert part in page.text
    path, token = f"/agents/{agent['id']}/rollback", token_of(page)
    refused = await ada.send(path, {"to": "1", "version": "1"}, token=token)
    assert (refused.status_code, (await stored(shop, agent["id"]))["version"]) == (412, 2)
    page = await ada.send(path, {"to": "1", "version": "2"}, token=token)
    assert "Version 3 says what version 1 said." in page.text
    now = await stored(shop, agent["id"])
    assert (now["version"], now["system_prompt"], now["capabilities"]) == (3, "One.\nSame.", ["kit"])


@pytest.mark.spec("N10")
async def test_an_agent_is_archived_and_made_active_again(shop: Site, ada: Visitor) -> None:
    agent = await made(shop, "kit", name="leaver")
    page = await ada.send(f"/agents/{agent['id']}/archive", {"version": "1"})
    assert "Archived." in page.text
    assert "Run it" not in page.text
    assert "leaver" not in (await ada.get("/agents")).text
    assert "leaver" in (await ada.get("/agents?status=archived")).text
    page = await ada.send(f"/agents/{agent['id']}/restore", {"version": "1"})
    assert page.status_code == 412
    page = await ada.send(f"/agents/{agent['id']}/restore", {"version": "2"})
    assert (await stored(shop, agent["id"]))["status"] == "active"
    assert "Run it" in page.text


@pytest.mark.spec("N10")
async def test_an_exported_file_makes_the_same_agent(shop: Site, ada: Visitor, tmp_path: Path) -> None:
    agent = await made(
        shop, "kit", system_prompt=HOSTILE + "\x85\u2028: - #", static_context={"a": "no", "b": 1.5}, tags=["t"]
    )
    for ending, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        answer = await ada.get(f"/agents/{agent['id']}/file/{ending}")
        assert answer.headers["content-disposition"] == f'attachment; filename="helper.{ending}"'
        exported = read(answer.text)
        assert "tags" not in exported, "agent files do not have them"
        composed = shop.kernel.compose(build_agent(exported, shop.registry, "file"))
        assert composed.static_hash == agent["static_hash"]
        assert exported["static_context"] == {"a": "no", "b": 1.5}
    assert (await ada.get("/agents/foreman/file/yaml")).status_code == 404
    assert (await ada.get(f"/agents/{agent['id']}/file/exe")).status_code == 404


@pytest.mark.spec("N10")
async def test_hostile_text_is_text_everywhere(shop: Site, boss: Visitor) -> None:
    async with shop.client("boss") as client:
        agent = await make_agent(
            client,
            "evil",
            system_prompt=HOSTILE,
            description=HOSTILE,
            instructions=[HOSTILE],
            tags=[HOSTILE],
            model=HOSTILE,
        )
        await client.patch(f"/v1/agents/{agent['id']}", json={"system_prompt": HOSTILE * 2, "model": None})
    base = f"/agents/{agent['id']}"
    for path in (
        "/agents",
        base,
        f"{base}/edit",
        f"{base}/versions?before=1",
        "/agents/new",
        "/agents?name=%3Cscript%3E",
    ):
        page = await boss.get(path)
        assert page.status_code == 200
        for part in ("<script>alert", "<img", "8641969", "</textarea><script"):
            assert part not in page.text, (path, part)
    rendered = (await boss.get(base)).text
    assert "\u202e" not in rendered, "what turns text around is spelled out"
    assert "\\u{202e}" in rendered


@pytest.mark.spec("N3")
async def test_another_organisation_finds_no_agent(shop: Site) -> None:
    agent = await made(shop, "kit", name="secret one", system_prompt="Secret.")
    async with shop.client(None, follow_redirects=True) as client:
        spy = Visitor(client)
        await spy.sign_in(shop.keys["spy"])
        listing = await spy.get("/agents?status=all")
        assert "secret one" not in listing.text
        base, token = f"/agents/{agent['id']}", token_of(listing)
        for path in (base, f"{base}/edit", f"{base}/versions", f"{base}/versions?before=1", f"{base}/file/yaml"):
            page = await spy.get(path)
            assert (page.status_code, "Secret." in page.text) == (404, False), path
        for path, form in (
            ("edit", {"agent/name": "mine", "do": "save"}),
            ("edit", {"do": "preview"}),
            ("archive", {"version": "1"}),
            ("restore", {"version": "1"}),
            ("rollback", {"to": "1", "version": "1"}),
        ):
            page = await spy.send(f"{base}/{path}", form, token=token)
            assert (page.status_code, "Secret." in page.text) == (404, False), path
    assert (await stored(shop, agent["id"]))["version"] == 1


@pytest.mark.spec("N10")
async def test_those_who_only_read_change_nothing(shop: Site) -> None:
    agent = await made(shop, "kit")
    async with shop.client(None, follow_redirects=True) as client:
        reader = Visitor(client)
        await reader.sign_in(shop.keys["reader"])
        page = await reader.get(f"/agents/{agent['id']}")
        for part in ("/edit", "Archive", "Run it"):
            assert part not in page.text
        assert "New agent" not in (await reader.get("/agents")).text
        page = await reader.send("/agents/new", {"agent/name": "mine", "do": "save"})
        assert page.status_code == 403
        assert form_in(page)["agent/name"] == ["mine"]
        assert (await reader.send(f"/agents/{agent['id']}/archive", {"version": "1"})).status_code == 403


@pytest.mark.spec("N10")
async def test_an_agent_in_code_is_shown_and_not_edited(shop: Site, ada: Visitor) -> None:
    page = await ada.get("/agents/foreman")
    assert "You run the workshop." in page.text
    assert "/edit" not in page.text
    page = await ada.get("/agents/foreman/edit")
    assert (page.url.path, "It is defined in code" in page.text) == ("/agents/foreman", True)
    assert "foreman" in (await ada.get("/agents?name=foreman")).text


@pytest.mark.spec("N10")
async def test_only_administrators_see_servers_to_write_and_nobody_loses_them(
    shop: Site, ada: Visitor, boss: Visitor
) -> None:
    servers = {"shop": {"url": "https://shop.example.com/mcp"}}
    async with shop.client("boss") as client:
        agent = await make_agent(client, "kit", mcp_servers=servers)
    path = f"/agents/{agent['id']}/edit"
    assert "agent/mcp_servers" in form_in(await boss.get(path))
    page = await ada.get(path)
    assert "agent/mcp_servers" not in form_in(page)
    page = await ada.send(path, {**form_in(page), "agent/description": "New.", "do": "save"})
    assert "Saved as version 2." in page.text
    now = await stored(shop, agent["id"])
    assert (now["description"], now["mcp_servers"]) == ("New.", agent["mcp_servers"])


@pytest.mark.spec("N10")
async def test_a_first_agent_is_led_to() -> None:
    async with site(agents=()) as empty, empty.client(None, follow_redirects=True) as client:
        visitor = Visitor(client)
        await visitor.sign_in(empty.keys["ada"])
        page = await visitor.get("/agents")
        assert "There is no agent yet" in page.text
        assert 'href="/agents/new">Make the first one' in page.text


@pytest.mark.spec("N10")
async def test_a_sign_in_that_has_ended_leads_nobody_away_from_what_is_typed(shop: Site) -> None:
    async with shop.client(None) as client:
        lost = await client.post("/agents/new", data={"agent/name": "x"}, headers={"HX-Request": "true"})
    assert (lost.status_code, "hx-redirect" in lost.headers) == (401, False)
    assert "Sign in in another window" in lost.text


@pytest.mark.spec("N10")
async def test_a_long_prompt_beyond_ascii_is_taken(shop: Site, ada: Visitor) -> None:
    prompt = "漢" * 190_000
    page = await ada.send("/agents/new", {"agent/name": "long", "agent/system_prompt": prompt, "do": "save"})
    agent = await stored(shop, page.url.path.rpartition("/")[2])
    assert agent["system_prompt"] == prompt

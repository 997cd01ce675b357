"""``capset agents --url``: the same objects as from a database here (spec 5, P7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli.support import Command, clean_environment
from tests.helpers.server.running import running

SCOPES = ("capset:read", "capset:write")


@pytest.mark.nightly
@pytest.mark.spec("P3", "P5", "P7")
def test_all_of_it_on_a_server(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "there").mkdir()
    with running(tmp_path / "there") as server:
        environ = clean_environment(
            tmp_path / "elsewhere", CAPSET_URL=server.url, CAPSET_KEY=server.key("ada", scopes=SCOPES)
        )
        agents = Command(tmp_path / "elsewhere", environ)
        (tmp_path / "elsewhere" / "a.json").write_text(
            '{"name": "adder", "capabilities": ["test_math"], "tags": ["x"]}'
        )
        created = agents("agents", "create", "a.json", "--json").json
        assert (created["version"], created["author"]) == (1, "user:ada")
        changed = agents("agents", "change", created["id"], '{"capabilities": []}', "--if-version", "1", "--json").json
        assert changed["version"] == 2
        assert agents("agents", "show", created["id"], "--version", "1", "--json").json == created
        listing = agents("agents", "list", "--json").json
        assert [agent["id"] for agent in listing["items"]] == [created["id"]]
        page = agents("agents", "versions", created["id"], "--json").json
        assert [version["version"] for version in page["items"]] == [2, 1]
        diff = agents("agents", "diff", created["id"], "1", "--exit-code", "--json")
        assert (diff.code, [field["path"] for field in diff.json["fields"]]) == (3, ["capabilities[test_math]"])
        assert agents("agents", "preview", "a.json", "--json").json["valid"]
        preview = agents("agents", "preview", created["id"], '{"capabilities": ["database"]}', "--json").json
        assert preview["needs_admin"] == ["database"]
        refused = agents("agents", "change", created["id"], '{"capabilities": ["database"]}', "--json")
        assert (refused.code, refused.json["error"]["code"]) == (3, "permission_denied")
        assert agents("agents", "rollback", created["id"], "1", "--json").json["static_hash"] == created["static_hash"]
        assert agents("agents", "archive", created["id"], "--json").json["status"] == "archived"
        both = agents("agents", "list", "--db", "a.db")
        assert (both.code, "for work on this machine" in both.said) == (2, True)
        assert {path.name for path in (tmp_path / "elsewhere").iterdir()} == {"a.json"}, "nothing is made here"

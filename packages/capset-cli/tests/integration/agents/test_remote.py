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
        made = agents("agents", "create", "a.json", "--json").json
        assert (made["version"], made["author"]) == (1, "user:ada")
        changed = agents("agents", "change", made["id"], '{"capabilities": []}', "--if-version", "1", "--json").json
        assert changed["version"] == 2
        assert agents("agents", "show", made["id"], "--version", "1", "--json").json == made
        listed = agents("agents", "list", "--json").json
        assert [one["id"] for one in listed["items"]] == [made["id"]]
        page = agents("agents", "versions", made["id"], "--json").json
        assert [one["version"] for one in page["items"]] == [2, 1]
        diff = agents("agents", "diff", made["id"], "1", "--exit-code", "--json")
        assert (diff.code, [one["path"] for one in diff.json["fields"]]) == (3, ["capabilities[test_math]"])
        assert agents("agents", "preview", "a.json", "--json").json["valid"]
        shown = agents("agents", "preview", made["id"], '{"capabilities": ["database"]}', "--json").json
        assert shown["needs_admin"] == ["database"]
        refused = agents("agents", "change", made["id"], '{"capabilities": ["database"]}', "--json")
        assert (refused.code, refused.json["error"]["code"]) == (3, "permission_denied")
        assert agents("agents", "rollback", made["id"], "1", "--json").json["static_hash"] == made["static_hash"]
        assert agents("agents", "archive", made["id"], "--json").json["status"] == "archived"
        both = agents("agents", "list", "--db", "a.db")
        assert (both.code, "for work on this machine" in both.said) == (2, True)
        assert {one.name for one in (tmp_path / "elsewhere").iterdir()} == {"a.json"}, "nothing is made here"

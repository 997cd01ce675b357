from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from capset.extras import install_command
from capset_testing import session_for
from capset_tools.database import DatabaseConfig, DatabaseConnection, database, database_for
from tests.helpers.tools.database.support import Known, ask, asking, made, refused


@pytest.mark.parametrize(
    "url",
    [
        *("", "people.db", "mysql://host/a", "sqlite://", "sqlite:///", "sqlite:///:memory:", "file:///a.db"),
        *("sqlite:///a.db?mode=rwc", "sqlite:a.db", "postgresql:a"),
        *("postgresql://ada:hunter2@host/a", "postgresql://ada@host/a?password=hunter2"),
    ],
)
def test_a_url_that_is_none_or_that_shows_a_password_is_refused(url: str) -> None:
    with pytest.raises(ValidationError) as raised:
        DatabaseConnection(url=url)
    assert "hunter2" not in str(raised.value)


def test_a_connection_has_a_url_or_a_secret() -> None:
    for fields in ({}, {"url": "sqlite:///a.db", "secret": "DATABASE_URL"}):
        with pytest.raises(ValidationError, match="either url or secret"):
            DatabaseConnection(**fields)
    assert DatabaseConnection(url="postgres://reader@host/shop").url


@pytest.mark.spec("G30")
async def test_a_connection_is_chosen_by_its_name(tmp_path: Path) -> None:
    first_url = made(tmp_path / "one.db", "CREATE TABLE t AS SELECT 'one' AS name")
    two = made(tmp_path / "a b?#%.db", "CREATE TABLE t AS SELECT 'two' AS name")
    connections = {"one": DatabaseConnection(url=first_url), "two": DatabaseConnection(secret="DATABASE_URL")}
    config = DatabaseConfig(connections=connections)
    secrets = Known(DATABASE_URL=two)
    async with session_for(database, config=config, permissions=["database:read"], secrets=secrets) as desk:
        assert (await ask(desk, "SELECT name FROM t", connection="one"))["rows"] == [["one"]]
        assert (await refused(desk, "SELECT 1")).message == "say which connection is meant; available: one, two"
        assert (await refused(desk, "SELECT 1", connection="thre")).status == 404
    # A ? would begin options, so that a file of such a name cannot be had by its URL.
    assert "?" in two


async def test_the_only_connection_needs_no_name(tmp_path: Path) -> None:
    async with asking(made(tmp_path / "a.db", "CREATE TABLE t (a)")) as desk:
        assert (await ask(desk, "SELECT 1 AS one"))["columns"] == ["one"]
        assert (await ask(desk, "SELECT 1 AS one", connection="main"))["rows"] == [[1]]


async def test_without_any_connection_it_says_so() -> None:
    async with session_for(database, permissions=["database:read"]) as desk:
        assert (await refused(desk, "SELECT 1")).code == "no_database"
        assert "<databases>" not in await desk.session.system_text()


@pytest.mark.spec("G30", "G24")
async def test_a_secret_is_the_url_and_is_not_told(tmp_path: Path) -> None:
    url = made(tmp_path / "a.db", "CREATE TABLE t AS SELECT 'shop' AS name")
    config = DatabaseConfig(connections={"shop": DatabaseConnection(secret="SHOP_URL", description="What is sold.")})
    shop = database_for("SHOP_URL", "OTHER_URL")
    assert shop is database_for("SHOP_URL", "OTHER_URL")
    assert shop is not database
    permissions = ["database:read"]
    async with session_for(shop, config=config, permissions=permissions, secrets=Known(SHOP_URL=url)) as desk:
        assert (await ask(desk, "SELECT name FROM t"))["rows"] == [["shop"]]
        assert "- shop: What is sold." in await desk.session.system_text()
    for value in ("mysql://ada:hunter2@host/a", "hunter2"):
        async with session_for(shop, config=config, permissions=permissions, secrets=Known(SHOP_URL=value)) as desk:
            error = await refused(desk, "SELECT 1")
            assert error.status == 503
            assert "hunter2" not in f"{error.message} {error.hint}"
    async with session_for(shop, config=config, permissions=permissions, secrets=Known()) as desk:
        assert (await refused(desk, "SELECT 1")).message == "the secret 'SHOP_URL' is not set here"
    async with session_for(database, config=config, permissions=permissions, secrets=Known(SHOP_URL=url)) as desk:
        assert "unknown secret 'SHOP_URL'" in (await refused(desk, "SELECT 1")).message


async def test_which_databases_there_are_is_shown_to_those_who_may_ask(tmp_path: Path) -> None:
    config = DatabaseConfig(connections={"main": DatabaseConnection(url=f"sqlite:///{tmp_path}/a.db")})
    async with session_for(database, config=config) as desk:
        assert "<databases>" not in await desk.session.system_text()


@pytest.mark.spec("G8", "G10")
async def test_it_needs_the_permission(tmp_path: Path) -> None:
    config = DatabaseConfig(connections={"main": DatabaseConnection(url=f"sqlite:///{tmp_path}/a.db")})
    async with session_for(database, config=config) as desk:
        assert (await refused(desk, "SELECT 1")).status == 403
    assert database.risk == "high"


@pytest.mark.realtime
def test_no_driver_is_loaded_before_it_is_needed() -> None:
    code = "import sys, capset_tools.database; assert not {'psycopg', 'sqlite3'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "capset_tools.database.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    async with asking("postgresql://reader@host/shop") as desk:
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.hint) == ("driver_missing", install_command("postgres"))
    assert "psycopg" in error.message

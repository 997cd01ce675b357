"""Every list and every detail of a large database is read by an index, in its order (spec 5, P15, P30).

The statements are those that the ports say, listened to; the plans are the engine's own, as it is set in production.
`make test` asks a smaller database the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest
from sqlalchemy import event

from tests.databases import Server
from tests.helpers.stores.scale.filling import LARGE, SMALL, connected_to, fill, sizes
from tests.helpers.stores.scale.plans import of_file, of_server
from tests.helpers.stores.sql.everything import Names, read_everything
from tests.helpers.stores.sql.support import opened_at, path_of

Asked = list[tuple[str, Any]]
"""Statements and their parameters."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """Give the URL of a database with much in it."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("scale") / "a.db"
        url = f"sqlite:///{path}"
        asyncio.run(_make(url))
        fill(url, sizes())
        yield url
        path.unlink()
    else:
        server: Server = request.getfixturevalue("postgres")
        name = "scale"
        url = server.empty(name)
        asyncio.run(_make(url))
        fill(url, sizes())
        yield url
        server.run("DROP DATABASE scale WITH (FORCE)")


async def _make(url: str) -> None:
    async with opened_at(url):
        pass


async def asked_of(url: str, names: Names) -> Asked:
    """Return every different statement that the ports say when they are asked everything."""
    statements: dict[str, tuple[str, Any]] = {}

    def keep(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.startswith("SELECT"):
            statements.setdefault(f"{statement} {parameters}", (statement, parameters))

    async with opened_at(url) as store:
        assert store._engines is not None
        assert store._maintenance is not None
        store._maintenance.cancel()  # it reads whole tables, which hold only what is running or being written
        event.listen(store._engines[1], "before_cursor_execute", keep)
        await read_everything(store, names, before="z")
        await store._parts.sweep()
    return list(statements.values())


def names_in(org: str) -> Names:
    """Return what there is in an organisation."""
    middle = sizes().records // 2
    time = f"2026-01-{1 + middle // 86400:02}T{middle // 3600 % 24:02}:{middle // 60 % 60:02}:00.000000Z"
    return Names(org, "agent-00000007", "agent 7", "session-00000050", "user-7", "tool_7", time, "link-00000007")


@pytest.mark.nightly
@pytest.mark.spec("P15", "P30")
@pytest.mark.parametrize("org", [LARGE, SMALL])
def test_every_list_and_detail_uses_an_index(url: str, org: str) -> None:
    statements = asyncio.run(asked_of(url, names_in(org)))
    assert len(statements) > 60
    with connected_to(url) as connection:
        look = of_file if path_of(url) else of_server
        wrong = [
            (problem, statement, parameters)
            for statement, parameters in statements
            for problem in look(connection, statement, parameters)
        ]
    assert [f"{problem}: {statement} {parameters}" for problem, statement, parameters in wrong] == []

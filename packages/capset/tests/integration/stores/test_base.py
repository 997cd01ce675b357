"""The ports: which URL leads to which store, and what a query may ask."""

from __future__ import annotations

import subprocess
import sys

import pytest

from capset.errors import DefinitionError
from capset.stores.base import AuditQuery, make_store
from capset.stores.memory import MemoryStore


def test_a_scheme_leads_to_its_store() -> None:
    assert isinstance(make_store("memory://"), MemoryStore)
    assert type(make_store("sqlite:///a.db")).__name__ == "SqliteStore"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlit:///a.db", "unknown store 'sqlit'; did you mean 'sqlite'?"),
        ("a.db", "a store is named by a URL; got 'a.db'"),
        ("memory", "a store is named by a URL; got 'memory'"),
        ("memory://x", "the store 'memory://x' has a name or options"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(url: str, message: str) -> None:
    with pytest.raises(DefinitionError) as failure:
        make_store(url)
    assert failure.value.message.startswith(message)
    assert failure.value.hint


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_query_beyond_its_limits_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="1–1,000"):
        AuditQuery(limit=limit)


@pytest.mark.parametrize("name", ["id", "tool", "principal", "session", "correlation"])
def test_a_query_for_what_no_database_can_hold_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"{name} holds a lone surrogate"):
        AuditQuery(**{name: "\ud800"})  # pyright: ignore[reportArgumentType]


@pytest.mark.realtime
def test_a_store_in_memory_loads_no_database() -> None:
    code = "from capset.stores.base import make_store; make_store('memory://')"
    script = f"import sys; {code}; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

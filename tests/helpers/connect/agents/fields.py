"""Stored agents with a value in each of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

_WORD = st.text("abc é", min_size=1, max_size=5)
_DATA = st.dictionaries(_WORD, st.integers(-9, 9) | _WORD | st.lists(st.booleans(), max_size=2), min_size=1, max_size=2)
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "name": st.from_regex(r"[a-z]{1,9}", fullmatch=True),
    "description": _WORD,
    "system_prompt": _WORD,
    "instructions": st.lists(_WORD, min_size=1, max_size=3),
    "capabilities": st.lists(
        st.from_regex(r"[a-z]{1,4}", fullmatch=True)
        | st.fixed_dictionaries({"id": st.just("kit"), "presets": st.just({"on": True}), "config": _DATA}),
        min_size=1,
        max_size=3,
        unique_by=lambda entry: entry if isinstance(entry, str) else entry["id"],
    ),
    "tags": st.lists(_WORD, min_size=1, max_size=3, unique=True),
    "status": st.sampled_from(["active", "archived"]),
    "model": _WORD,
    "static_context": _DATA,
    "allowance": st.sampled_from([{"limits": ["3/1m"]}, {"session": {"calls": 2}}, {"run": {"calls": 1, "cost": 2.5}}]),
    "mcp_servers": st.sampled_from(
        [
            {"shop": {"url": "https://a.example.com/mcp"}},
            {
                "shop": {
                    "url": "https://b.example.com",
                    "tools": ["one"],
                    "rules": {"*": {"approval": "ask"}},
                    "timeout": 2.5,
                }
            },
        ]
    ),
}
"""What each field may hold; a new field needs a line here."""
AGENTS = st.fixed_dictionaries(dict(VALUES))

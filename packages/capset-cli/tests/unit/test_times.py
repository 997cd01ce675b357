"""Times of ``--since`` and ``--until``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from capset.clock import iso_of
from capset.errors import DefinitionError
from capset_cli.common.options import parse_time


@pytest.mark.parametrize(("text", "ago"), [("90m", timedelta(minutes=90)), ("2d", timedelta(days=2))])
def test_a_time_ago(text: str, ago: timedelta) -> None:
    before = iso_of(datetime.now(UTC) - ago)
    time = parse_time("--since", text)
    assert time is not None
    assert before <= time <= iso_of(datetime.now(UTC) - ago)


def test_days_begin_at_midnight_in_utc() -> None:
    today, yesterday = parse_time("--since", "today"), parse_time("--since", "yesterday")
    assert today is not None
    assert yesterday is not None
    assert yesterday < today <= iso_of(datetime.now(UTC))
    assert today[10:] == yesterday[10:] == "T00:00:00.000000Z"


@pytest.mark.parametrize("text", ["1y", "0h", "soon", "999999999999d", "2026-13-01"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"yesterday|window"):
        parse_time("--since", text)

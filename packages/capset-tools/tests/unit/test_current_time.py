from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Context, Kernel, Principal, tool
from capset.errors import InvalidArguments, ToolError
from capset_testing import FakeClock
from capset_tools.current_time import current_time, formatted, get_current_time, suggestions, zones
from tests.helpers.tools.support import send, session_of

SUMMER = datetime(2024, 7, 6, 9, 5, 3, 999_999, tzinfo=UTC)
SUMMER_NS = 1_720_256_703_999_999_000


@pytest.mark.spec("P19")
async def test_by_default_it_is_iso8601_in_utc() -> None:
    async with session_of(current_time) as session:
        before = datetime.now(UTC)
        result = await session.call(get_current_time)
    assert set(result) == {"time", "timezone", "format"}
    assert (result["timezone"], result["format"]) == ("UTC", "iso8601")
    assert isinstance(result["time"], str)
    timestamp = datetime.fromisoformat(result["time"])
    assert timestamp.utcoffset() == timedelta()
    assert before - timedelta(seconds=1) < timestamp <= datetime.now(UTC)


@pytest.mark.spec("P19")
async def test_unix_is_an_integer() -> None:
    async with session_of(current_time) as session:
        before = time.time()
        message = await send(session, "get_current_time", {"format": "unix", "timezone": "Asia/Tokyo"})
    assert message.kind == "reply"
    assert type(message.data["time"]) is int
    assert before - 1 < message.data["time"] <= time.time()
    assert message.data["timezone"] == "Asia/Tokyo"


@pytest.mark.spec("P19")
@pytest.mark.parametrize(
    ("zone", "iso8601", "human"),
    [
        ("UTC", "2024-07-06T09:05:03+00:00", "Saturday, 6 July 2024, 09:05:03 UTC"),
        (
            "America/New_York",
            "2024-07-06T05:05:03-04:00",
            "Saturday, 6 July 2024, 05:05:03 EDT (UTC-04:00)",
        ),
        ("Asia/Kolkata", "2024-07-06T14:35:03+05:30", "Saturday, 6 July 2024, 14:35:03 IST (UTC+05:30)"),
        (
            "Pacific/Auckland",
            "2024-07-06T21:05:03+12:00",
            "Saturday, 6 July 2024, 21:05:03 NZST (UTC+12:00)",
        ),
    ],
)
def test_zones_are_honoured_in_every_format(zone: str, iso8601: str, human: str) -> None:
    moment = SUMMER.astimezone(ZoneInfo(zone))
    assert formatted(moment, "iso8601") == iso8601
    assert formatted(moment, "human") == human
    assert formatted(moment, "unix") == 1720256703


@pytest.mark.parametrize("month", range(1, 13), ids=lambda month: datetime(2024, month, 1, tzinfo=UTC).strftime("%B"))
def test_days_and_months_have_their_english_names(month: int) -> None:
    for day in range(1, 8):
        moment = datetime(2024, month, day, tzinfo=UTC)
        assert str(formatted(moment, "human")).startswith(f"{moment:%A}, {day} {moment:%B} 2024, ")


@given(st.integers(0, 2**35), st.integers(0, 999_999), st.sampled_from(["UTC", "Europe/Paris", "Asia/Kathmandu"]))
def test_iso8601_and_unix_tell_the_same_second(second: int, microsecond: int, zone: str) -> None:
    moment = datetime.fromtimestamp(second, ZoneInfo(zone)).replace(microsecond=microsecond)
    # By timestamp: in an hour that comes twice, Python takes no two times of different zones for equal.
    assert datetime.fromisoformat(str(formatted(moment, "iso8601"))).timestamp() == second
    assert formatted(moment, "unix") == second


@pytest.mark.spec("P19")
def test_every_iana_zone_can_be_loaded() -> None:
    assert len(zones()) > 500
    for name in zones():
        ZoneInfo(name)


@pytest.mark.spec("P19")
@pytest.mark.parametrize(
    ("given_name", "meant"),
    [
        ("Europe/Pariss", "Europe/Paris"),
        ("utc", "UTC"),
        ("america/new_york", "America/New_York"),
        ("New York", "America/New_York"),
        ("tokyo", "Asia/Tokyo"),
        ("US/Easten", "US/Eastern"),
    ],
)
async def test_an_unknown_zone_is_refused_with_suggestions(given_name: str, meant: str) -> None:
    assert suggestions(given_name)[0] == meant
    async with session_of(current_time) as session:
        with pytest.raises(ToolError, match=re.escape(f"{given_name!r}; did you mean {meant}")) as refused:
            await session.call(get_current_time, timezone=given_name)
    assert refused.value.code == "unknown_timezone"


def test_there_are_five_suggestions_at_most() -> None:
    assert suggestions("Etc/GMT+") == [f"Etc/GMT+{hours}" for hours in (9, 8, 7, 6, 5)]


@pytest.mark.parametrize("name", ["", "zzzz", "../../etc/passwd", "/etc/localtime", "localtime", "A\0B", "😀"])
async def test_what_is_like_no_zone_is_refused_with_an_example(name: str) -> None:
    async with session_of(current_time) as session:
        result = await session.try_call(get_current_time, timezone=name)
    assert not result.success
    assert isinstance(result.error, ToolError)
    assert "use an IANA name, such as Europe/Paris" in result.error.message


@pytest.mark.parametrize("arguments", [{"format": "rfc822"}, {"format": None}, {"timezone": 1}, {"zone": "UTC"}])
async def test_other_arguments_are_refused(arguments: dict[str, Any]) -> None:
    async with session_of(current_time) as session:
        message = await send(session, "get_current_time", arguments)
        with pytest.raises(InvalidArguments) as refused:
            await session.call(get_current_time, **arguments)
    assert message.kind == "error"
    assert [field.path for field in refused.value.fields] == list(arguments)


@pytest.mark.spec("P19")
async def test_the_time_is_that_of_the_kernel_s_clock_to_the_microsecond() -> None:
    @tool(effect="read")
    async def exactly(ctx: Context) -> datetime:
        """Return the time as a handler sees it."""
        return ctx.now

    clock = FakeClock(SUMMER_NS)
    agent = Agent("tester", uses=[current_time], tools=[exactly])
    async with Kernel("memory://", clock=clock) as kernel, kernel.open(agent, principal=Principal("ada")) as session:
        assert (await session.call(get_current_time, timezone="Asia/Kolkata"))["time"] == "2024-07-06T14:35:03+05:30"
        assert await session.call(exactly) == SUMMER
        clock.advance(0.000001)
        assert await session.call(exactly) == SUMMER + timedelta(microseconds=1)


@pytest.mark.spec("P19")
async def test_an_overlong_zone_is_refused_at_once_and_in_a_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def get_close_matches(word: str, *_: object, **__: object) -> list[str]:
        compared.append(len(word))
        return []

    monkeypatch.setattr(sys.modules[suggestions.__module__], "get_close_matches", get_close_matches)
    assert suggestions("Europe/Pariss" * 500_000) == []
    async with session_of(current_time) as session:
        with pytest.raises(ToolError, match="unknown time zone") as raised:
            await session.call(get_current_time, timezone="x" * 500_000)
    assert len(raised.value.message) < 200
    assert compared == [], "it is not even compared with the names that there are"

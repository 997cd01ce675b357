from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Kernel, Principal, Session
from capset.errors import ToolError
from capset_testing import FakeClock
from capset_tools.test_weather import get_forecast, get_weather, weather_of
from capset_tools.test_weather import test_weather as capability
from tests.helpers.tools.support import send

cities = st.text(min_size=1, max_size=30).filter(lambda name: any(letter.isalnum() for letter in name))
days = st.dates()
FIRST = {"condition": "sunny", "humidity_percent": 51, "wind_kmh": 33, "precipitation_mm": 0.0}
SECOND = {"condition": "partly cloudy", "humidity_percent": 38, "wind_kmh": 30, "precipitation_mm": 0.0}


@pytest.fixture(params=["EAST-14", "WEST+11"])
def elsewhere(request: pytest.FixtureRequest) -> Generator[str]:
    """Move this process to where it is another day than in UTC at the end of one, or at its beginning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@asynccontextmanager
async def on(day: str, later: int = 0) -> AsyncGenerator[Session]:
    """Open a session at the last nanosecond of a day, UTC, or so many seconds later."""
    end = ((date.fromisoformat(day) - date(1970, 1, 1)).days + 1) * 86_400
    clock = FakeClock((end + later) * 1_000_000_000 - 1)
    async with (
        Kernel("memory://", clock=clock) as kernel,
        kernel.open(Agent("tester", uses=[capability]), principal=Principal("ada")) as session,
    ):
        yield session


@pytest.mark.spec("P21")
async def test_the_weather_of_a_city_on_a_day_is_always_this() -> None:
    async with on("2026-03-29") as session:
        weather = await session.call(get_weather, city="Paris")
        forecast = await session.call(get_forecast, city="Paris", days=2)
    assert weather == {"city": "Paris", "date": "2026-03-29", "temperature": 11.6, "unit": "celsius", **FIRST}
    assert forecast == {
        "city": "Paris",
        "unit": "celsius",
        "days": [
            {"date": "2026-03-29", "low": 7.0, "high": 15.3, **FIRST},
            {"date": "2026-03-30", "low": 6.6, "high": 13.2, **SECOND},
        ],
    }


@pytest.mark.spec("P21")
@pytest.mark.parametrize("spelled", ["new york", "NEW YORK", "  New \t York\n", "Ｎｅｗ　Ｙｏｒｋ"])
async def test_case_and_white_space_make_no_difference(spelled: str) -> None:
    async with on("2026-03-29") as session:
        expected = await session.call(get_weather, city="New York")
        weather = await session.call(get_weather, city=spelled)
        coming = await session.call(get_forecast, city=spelled, days=7)
        assert coming["days"] == (await session.call(get_forecast, city="New York", days=7))["days"]
    assert {**weather, "city": ""} == {**expected, "city": ""}
    assert weather["city"] == " ".join(spelled.split())


@pytest.mark.spec("P21")
async def test_a_forecast_has_the_days_that_follow_by_the_kernel_s_clock() -> None:
    async with on("2028-02-27") as session:
        dates = [day["date"] for day in (await session.call(get_forecast, city="Oslo", days=4))["days"]]
        assert dates == ["2028-02-27", "2028-02-28", "2028-02-29", "2028-03-01"]
        assert (await session.call(get_weather, city="Oslo"))["date"] == "2028-02-27"
        assert len((await session.call(get_forecast, city="Oslo"))["days"]) == 3


@pytest.mark.spec("P21")
@pytest.mark.parametrize("seconds", [0, 1])
async def test_the_day_is_that_of_utc_wherever_the_process_runs(elsewhere: str, seconds: int) -> None:
    local_days = {time.localtime(at).tm_mday for at in (1_774_828_799, 1_774_828_800)}
    assert local_days == ({30} if elsewhere == "EAST-14" else {29}), "it is another day here at one of the two"
    async with on("2026-03-29", later=seconds) as session:
        weather = await session.call(get_weather, city="Oslo")
        forecast = await session.call(get_forecast, city="Oslo", days=1)
    assert weather["date"] == forecast["days"][0]["date"] == ("2026-03-29", "2026-03-30")[seconds]


@pytest.mark.spec("P21")
async def test_a_day_s_forecast_is_the_same_whenever_it_is_asked_for() -> None:
    async with on("2026-03-29") as session:
        before = (await session.call(get_forecast, city="Oslo", days=7))["days"]
    async with on("2026-03-31") as session:
        assert (await session.call(get_forecast, city="Oslo", days=5))["days"] == before[2:]


@pytest.mark.spec("P21")
@pytest.mark.parametrize("city", ["Paris", "Oslo", "東京", "x"])
async def test_what_is_told_now_fits_today_s_forecast_in_both_units(city: str) -> None:
    async with on("2026-03-29") as session:
        for unit in ("celsius", "fahrenheit"):
            now = await session.call(get_weather, city=city, unit=unit)
            (today,) = (await session.call(get_forecast, city=city, days=1, unit=unit))["days"]
            assert today["low"] <= now["temperature"] <= today["high"]
            assert {key: now[key] for key in today if key in now} == {k: v for k, v in today.items() if k in now}
            assert now["unit"] == unit
        celsius = await session.call(get_weather, city=city)
        fahrenheit = await session.call(get_weather, city=city, unit="fahrenheit")
    assert fahrenheit["temperature"] == pytest.approx(celsius["temperature"] * 9 / 5 + 32, abs=0.05 + 1e-9)


@pytest.mark.spec("P21")
@given(city=cities, day=days)
def test_whatever_the_city_and_the_day_the_weather_is_plausible(city: str, day: date) -> None:
    weather = weather_of(city, day)
    assert weather == weather_of(f"  {city} ", day)
    assert -300 < weather.low < weather.high < 450
    assert weather.low <= weather.now <= weather.high
    assert (weather.precipitation > 0) == (weather.condition in {"rain", "thunderstorm", "snow"})
    assert weather.condition != "snow" or weather.high <= 20, "in tenths of a degree"
    assert weather.condition not in {"rain", "thunderstorm"} or weather.high > 20
    assert 0 <= weather.humidity <= 100
    assert 0 <= weather.wind <= 75


@given(day=st.dates(max_value=date(9999, 1, 1)))
def test_days_and_cities_differ(day: date) -> None:
    assert len({weather_of("Paris", day + timedelta(days=number)).now for number in range(30)}) > 5
    assert len({weather_of(f"city {number}", day).now for number in range(30)}) > 5


@pytest.mark.spec("P21", "G12")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_weather", {"city": ""}),
        ("get_weather", {"city": " \n"}),
        ("get_weather", {}),
        ("get_weather", {"city": "Paris", "unit": "kelvin"}),
        ("get_weather", {"city": "x" * 101}),
        ("get_forecast", {"city": "Paris", "days": 0}),
        ("get_forecast", {"city": "Paris", "days": 8}),
        ("get_forecast", {"city": "Paris", "days": True}),
        ("get_forecast", {"city": "", "days": 1}),
    ],
)
async def test_what_cannot_be_told_is_refused(tool: str, arguments: dict[str, Any]) -> None:
    async with on("2026-03-29") as session:
        message = await send(session, tool, arguments)
    assert message.kind == "error"
    assert message.data["code"] == "invalid_arguments"


@pytest.mark.spec("P21")
async def test_a_name_without_a_letter_is_no_city() -> None:
    async with on("2026-03-29") as session:
        with pytest.raises(ToolError, match=r"'\?!' names no city") as refused:
            await session.call(get_weather, city="?!")
    assert refused.value.code == "city_missing"

"""``test_weather``: invented weather, always the same for a city and a day, to try out tool calls (spec 5, P21)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from capset import Capability, Context, ToolError, tool

City = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Unit = Literal["celsius", "fahrenheit"]
Condition = Literal["sunny", "partly cloudy", "cloudy", "fog", "rain", "thunderstorm", "snow"]

_WARM: Final[tuple[Condition, ...]] = ("sunny", "sunny", "partly cloudy", "cloudy", "rain", "thunderstorm")
_MILD: Final[tuple[Condition, ...]] = ("sunny", "partly cloudy", "partly cloudy", "cloudy", "fog", "rain", "rain")
_COLD: Final[tuple[Condition, ...]] = ("sunny", "partly cloudy", "cloudy", "fog", "snow", "snow")
_WET: Final = frozenset[Condition]({"rain", "thunderstorm", "snow"})
_HUMIDITY: Final[dict[Condition, tuple[int, int]]] = {
    "sunny": (25, 55),
    "partly cloudy": (35, 65),
    "cloudy": (50, 80),
    "fog": (93, 100),
    "rain": (75, 98),
    "thunderstorm": (70, 95),
    "snow": (75, 98),
}
_WIND: Final[dict[Condition, tuple[int, int]]] = {"fog": (0, 8), "thunderstorm": (30, 75)}


class _Day(TypedDict):
    date: Annotated[str, Field(description="The day, ISO 8601, UTC.")]
    condition: Annotated[Condition, Field(description="What the sky does for the most part of the day.")]
    humidity_percent: Annotated[int, Field(description="Relative humidity of the air.")]
    wind_kmh: Annotated[int, Field(description="Kilometres an hour, on the average of the day.")]
    precipitation_mm: Annotated[float, Field(description="Rain, or snow as water; 0 where it stays dry.")]


class Weather(_Day):
    city: Annotated[str, Field(description="The city as it was named.")]
    temperature: Annotated[float, Field(description="The temperature now, in `unit`.")]
    unit: Annotated[Unit, Field(description="What `temperature` is in.")]


class ForecastDay(_Day):
    low: Annotated[float, Field(description="The lowest temperature of the day, in the forecast's unit.")]
    high: Annotated[float, Field(description="The highest one.")]


class Forecast(TypedDict):
    city: Annotated[str, Field(description="The city as it was named.")]
    unit: Annotated[Unit, Field(description="What `low` and `high` are in.")]
    days: Annotated[list[ForecastDay], Field(description="As many days as were asked for; the first is today.")]


@tool(effect="read", permissions=())
async def get_weather(ctx: Context, city: City, unit: Unit = "celsius") -> Weather:
    """Get the weather in a city as it is now. Use it for tests only: the weather is invented.

    A city has one weather a day, however its name is cased or spaced, and it fits today's forecast.

    Args:
        city: Name of a city, such as Paris or New York.
        unit: What the temperature is given in.
    """
    day = weather_of(city, ctx.now.date())
    return Weather(city=_spaced(city), temperature=_in(unit, day.now), unit=unit, **_day_fields(day))


@tool(effect="read", permissions=())
async def get_forecast(
    ctx: Context, city: City, days: Annotated[int, Field(ge=1, le=7)] = 3, unit: Unit = "celsius"
) -> Forecast:
    """Get the weather in a city day by day, from today on. Use it for tests only: the weather is invented.

    Args:
        city: Name of a city, such as Paris or New York.
        days: How many days, 1 to 7; the first is today, in UTC.
        unit: What temperatures are given in.
    """
    today = ctx.now.date()
    coming = [weather_of(city, today + timedelta(days=number)) for number in range(days)]
    return Forecast(
        city=_spaced(city),
        unit=unit,
        days=[ForecastDay(low=_in(unit, day.low), high=_in(unit, day.high), **_day_fields(day)) for day in coming],
    )


@dataclass(frozen=True, slots=True)
class DayOfWeather:
    """One day in one city. Temperatures are whole tenths of a degree Celsius, ``now`` between the other two."""

    date: date
    condition: Condition
    low: int
    high: int
    now: int
    humidity: int
    wind: int
    precipitation: int
    """Tenths of a millimetre; 0 unless it rains or snows."""


def weather_of(city: str, day: date) -> DayOfWeather:
    """Return the weather of a city on a day. It is the same on every machine and in every Python version.

    Raises ``ToolError`` for a name without a letter or a digit.
    """
    name = unicodedata.normalize("NFKC", _spaced(city)).casefold()
    if not any(letter.isalnum() for letter in name):
        raise ToolError(f"{city!r} names no city; pass a name such as Paris", code="city_missing")
    climate, dice = _Dice(name), _Dice(f"{name}\n{day.isoformat()}")
    middle = climate.roll(-40, 280) + dice.roll(-50, 50)
    low, high = middle - dice.roll(10, 50), middle + dice.roll(10, 50)
    kinds = _COLD if high <= 20 else _MILD if middle < 180 else _WARM
    condition = kinds[dice.roll(0, len(kinds) - 1)]
    return DayOfWeather(
        date=day,
        condition=condition,
        low=low,
        high=high,
        now=dice.roll(low, high),
        humidity=dice.roll(*_HUMIDITY[condition]),
        wind=dice.roll(*_WIND.get(condition, (0, 40))),
        precipitation=dice.roll(2, 250) if condition in _WET else 0,
    )


class _Dice:
    """Numbers that depend on a text alone. Python's ``hash`` and ``random`` may differ between versions."""

    def __init__(self, seed: str) -> None:
        self._left = int.from_bytes(sha256(seed.encode(errors="surrogatepass")).digest())

    def roll(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, inclusive."""
        self._left, number = divmod(self._left, high - low + 1)
        return low + number


def _day_fields(day: DayOfWeather) -> _Day:
    return _Day(
        date=day.date.isoformat(),
        condition=day.condition,
        humidity_percent=day.humidity,
        wind_kmh=day.wind,
        precipitation_mm=day.precipitation / 10,
    )


def _in(unit: Unit, tenths: int) -> float:
    """Convert tenths of a degree Celsius to ``unit``. Fahrenheit is rounded to one decimal, half a tenth up."""
    return (tenths if unit == "celsius" else 320 + (tenths * 18 + 5) // 10) / 10


def _spaced(city: str) -> str:
    return " ".join(city.split())


test_weather = Capability(
    "test_weather",
    title="Test Weather",
    description="Invents the weather of a city, always the same one, for trying out tool calls.",
    icon="cloud-sun",
    category="Testing",
    instructions="Ask `get_weather` for a city's weather now and `get_forecast` for up to seven days, today included. "
    "The weather is made up for tests; say so if somebody might rely on it.",
    tools=[get_weather, get_forecast],
)

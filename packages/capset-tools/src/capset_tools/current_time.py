"""``current_time``: the current time, in any IANA time zone and three formats (spec 5, P19)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import Field
from typing_extensions import TypedDict

from capset import Capability, Context, ToolError, tool

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Format = Literal["iso8601", "unix", "human"]

# strftime's names follow the locale of the process; these do not.
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SUGGESTIONS: Final = 5
_LONGEST: Final = 100
"""Maximum characters of a name to make suggestions for: longer than any zone name, and quick to compare."""


class CurrentTime(TypedDict):
    time: Annotated[str | int, Field(description="The time: an integer for unix, text for the other formats.")]
    timezone: Annotated[str, Field(description="The IANA time zone that was asked for.")]
    format: Annotated[Format, Field(description="The format of `time`.")]


@tool(effect="read", permissions=())
async def get_current_time(ctx: Context, timezone: str = "UTC", format: Format = "iso8601") -> CurrentTime:
    """Get the current date and time.

    Use it whenever an answer depends on today's date or the time of day: you cannot know either by yourself.

    Args:
        timezone: IANA time zone, such as UTC, Europe/Paris or America/New_York.
        format: iso8601 with the zone's offset, unix for whole seconds since 1970 as an integer, or human
            for text to show to a person.
    """
    return CurrentTime(time=formatted(ctx.now.astimezone(zone(timezone)), format), timezone=timezone, format=format)


def zone(name: str) -> ZoneInfo:
    """Return the time zone with exactly this IANA name. Raises ``ToolError``, with suggestions, if there is none."""
    # ZoneInfo itself would accept any file in the machine's zone folder, such as localtime.
    if name not in zones():
        meant = suggestions(name)
        hint = f"did you mean {', '.join(meant)}?" if meant else "use an IANA name, such as Europe/Paris"
        raise ToolError(f"unknown time zone {name!r:.80}; {hint}", code="unknown_timezone")
    return ZoneInfo(name)


@cache
def zones() -> tuple[str, ...]:
    """Return the names of all time zones. They come from the tzdata package, so all machines have the same ones."""
    return tuple(files("tzdata").joinpath("zones").read_text("utf-8").split())


def suggestions(name: str) -> list[str]:
    """Return zones that ``name`` may mean, most likely first: it may be another spelling, a city or a typo."""
    if len(name) > _LONGEST:
        return []
    folded = "_".join(name.casefold().split())
    spelled = {zone_name.casefold(): zone_name for zone_name in zones()}
    cities = {zone_name.rpartition("/")[2]: zone_name for zone_name in spelled}
    near = get_close_matches(folded, [*spelled, *cities], n=_SUGGESTIONS, cutoff=0.75)
    likely = [folded, cities.get(folded, folded), *(cities.get(match, match) for match in near)]
    return list(dict.fromkeys(spelled[match] for match in likely if match in spelled))[:_SUGGESTIONS]


def formatted(moment: datetime, format: Format) -> str | int:
    """Format an aware datetime as text, or as whole Unix seconds for ``unix``."""
    match format:
        case "iso8601":
            return moment.isoformat(timespec="seconds")
        case "unix":
            return (moment - _EPOCH) // timedelta(seconds=1)  # a float would round distant times
        case "human":
            day = f"{_DAYS[moment.weekday()]}, {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
            name, offset = moment.tzname(), moment.isoformat(timespec="seconds")[19:]
            return f"{day}, {moment:%H:%M:%S} {name}" + ("" if name == "UTC" else f" (UTC{offset})")


current_time = Capability(
    "current_time",
    title="Current Time",
    description="Tells the date and time in any time zone, for people and for programs.",
    icon="clock",
    category="Utilities",
    tools=[get_current_time],
)

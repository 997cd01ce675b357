"""The usage of models over time, by agent and by principal (spec 6, R28)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from capset.definitions.governance.usage import AgentUsage
from capset.stores.base import UsageQuery, UsageTotals
from capset.wire.shapes import Shape

_MOST_HOURS: Final = timedelta(hours=100)
"""The longest time that is shown by hour."""


class UsedAmountsShape(Shape):
    """The usage of models: steps, tool calls, tokens, US dollars, and seconds of running time."""

    steps: int
    calls: int
    tokens: int
    cost: float
    seconds: float


class UsageBucketShape(UsedAmountsShape):
    """The usage of one interval, which begins at ``start``."""

    start: str


class UserUsageShape(UsedAmountsShape):
    """The usage of one agent, by its name, or of one principal, as ``user:ada``."""

    name: str


class ModelUsageShape(UsedAmountsShape):
    """The usage of models between two times: in total, by time, and of the agents and principals with the most.

    ``since`` is the beginning of an hour. ``buckets`` are hours, or days in UTC if there are many; those without usage
    are left out.
    """

    since: str
    until: str
    bucket_seconds: int
    buckets: list[UsageBucketShape]
    agents: list[UserUsageShape]
    principals: list[UserUsageShape]


def model_usage_shape(totals: UsageTotals, query: UsageQuery) -> ModelUsageShape:
    """Return the wire shape of usage, by hour, or by day if there are more than 100 hours."""
    length = datetime.fromisoformat(f"{query.until}:00") - datetime.fromisoformat(f"{query.since}:00")
    is_daily = length > _MOST_HOURS
    buckets: dict[str, AgentUsage] = {}
    for hour, used in totals.hours:
        start = f"{hour[:10]}T00:00:00Z" if is_daily else f"{hour}:00:00Z"
        buckets[start] = buckets.get(start, AgentUsage()) + used
    members = {
        "since": f"{query.since}:00:00Z",
        "until": f"{query.until}:00:00Z",
        "bucket_seconds": 86_400 if is_daily else 3_600,
        "buckets": [{"start": start, **used.plain()} for start, used in buckets.items()],
        "agents": [{"name": name, **used.plain()} for name, used in totals.agents],
        "principals": [{"name": name, **used.plain()} for name, used in totals.principals],
    }
    return ModelUsageShape.model_validate({**members, **sum(buckets.values(), AgentUsage()).plain()})

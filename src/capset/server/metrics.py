"""What is counted of calls and requests: plain numbers, which are written out only when somebody asks (spec 5, P13).

Labels come from what this server knows by itself: its registry, its routes, HTTP's methods, the kernel's outcomes.
Nobody can make another by what he sends, and none says who acts, for which organisation or in which session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import Final

from capset.errors import CapsetError
from capset.kernel.call.invocation import Invocation
from capset.kernel.registry import Registry
from capset.server.service import Service

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of durations, in seconds."""
OTHER_TOOL: Final = "other"
"""The label of a tool that is not there, or that only a dynamic toolkit makes."""
NO_ROUTE: Final = "none"


class Durations:
    """How many took how long, by ``BUCKETS``, and all of them together in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Metrics:
    """An observer of a kernel's calls, told of requests too."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.calls: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """By tool, effect and outcome."""
        self.call_durations: defaultdict[str, Durations] = defaultdict(Durations)
        """By tool."""
        self.calls_running = 0
        self.requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        """By method, route and status."""
        self.request_durations: defaultdict[tuple[str, str], Durations] = defaultdict(Durations)
        """By method and route."""
        self.requests_running = 0
        self._registry: Registry | None = None
        self._known: frozenset[str] = frozenset()
        self._names()  # now, and not on the way of the first call

    def begun(self, call: Invocation) -> None:
        """Count a call that runs."""
        self.calls_running += 1

    def joined(self, kept: None) -> None:
        """Do nothing: a call is counted once, wherever it runs."""

    def ended(self, call: Invocation, kept: None) -> None:
        """Count a call that has ended."""
        self.calls_running -= 1
        tool = call.compiled.tool
        name = tool.name if tool is not None and tool.name in self._names() else OTHER_TOOL
        self.calls[name, tool.effect if tool is not None else "none", str(call.outcome)] += 1
        self.call_durations[name].add(call.duration_us / 1e6)

    def left(self, kept: None) -> None:
        """Do nothing: no context was changed."""

    def asked(self) -> None:
        """Count a request that runs."""
        self.requests_running += 1

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request that was answered, or left; ``route`` is its path's template."""
        self.requests_running -= 1
        named = route or NO_ROUTE
        self.requests[method, named, status] += 1
        self.request_durations[method, named].add(seconds)

    def _names(self) -> frozenset[str]:
        """Return the tools' own names that the registry knows; a reload may bring another."""
        if self.service.registry is not self._registry:
            self._registry = self.service.registry
            self._known = frozenset(self._names_in(self._registry))
        return self._known

    def _names_in(self, registry: Registry) -> set[str]:
        kernel = self.service.kernel
        names = {tool.name for one in registry.capabilities.values() for tool in one.every_tool}
        for agent in registry.agents.values():
            try:
                names |= {tool.name for tool in kernel.bind(kernel.compose(agent)).by_tool}
            except CapsetError:
                continue  # whoever opens a session of it is told why
        return names

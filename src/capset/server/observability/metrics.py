"""Counters of calls and requests: plain numbers, rendered only on request (spec 5, P13).

Label values come from the server itself: its registry, its routes, HTTP's methods, the kernel's outcomes. No client can
add one by its input, and none identifies a caller, an organisation or a session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from capset.errors import CapsetError
from capset.kernel.call.invocation import Invocation
from capset.kernel.registry import Registry
from capset.server.service import Service

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of durations, in seconds."""
OTHER_TOOL: Final = "other"
"""The label of a tool that does not exist, or that only a dynamic toolkit makes."""
NO_ROUTE: Final = "none"


class Durations:
    """A histogram of durations by ``BUCKETS``, and their sum in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Metrics:
    """An observer of a kernel's calls that also counts requests."""

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
        self._names()  # now, not during the first call

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
        """Count a request that was answered or abandoned; ``route`` is its path's template."""
        self.requests_running -= 1
        named = route or NO_ROUTE
        self.requests[method, named, status] += 1
        self.request_durations[method, named].add(seconds)

    def _names(self) -> frozenset[str]:
        """Return the tool names of the registry; a reload may replace it."""
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
                continue  # opening a session of it reports the error
        return names


class Exposition:
    """Exporter of one server's metrics, and of the process metrics of the operating system."""

    def __init__(self, metrics: Metrics) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Collected(metrics))
        ProcessCollector(registry=self._registry)

    def written(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that a client accepts, and its media type."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type


class _Collected(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._version = version("capset")

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family with its current values."""
        found, service = self._metrics, self._metrics.service
        labels = ("tool", "effect", "outcome")
        calls = CounterMetricFamily("capset_calls", "Calls that have ended, refused ones too.", labels=labels)
        for key, count in sorted(found.calls.items()):
            calls.add_metric(key, count)
        yield calls
        took = HistogramMetricFamily(
            "capset_call_duration_seconds", "From a call's begin to its outcome.", labels=["tool"]
        )
        for tool, durations in sorted(found.call_durations.items()):
            took.add_metric([tool], _buckets(durations), durations.total)
        yield took
        yield GaugeMetricFamily("capset_calls_running", "Calls that have no outcome yet.", found.calls_running)
        yield CounterMetricFamily(
            "capset_abandoned", "Tasks and threads that did not end when they were cancelled.", service.kernel.abandoned
        )
        yield from self._requests()
        yield GaugeMetricFamily(
            "capset_followers", "Open streams of events of sessions.", service.turns.followers.count
        )
        yield GaugeMetricFamily(
            "capset_registry_problems", "What is installed and could not be loaded.", len(service.registry.problems)
        )
        built = GaugeMetricFamily("capset_build_info", "Which capset this is.", labels=["version"])
        built.add_metric([self._version], 1)
        yield built

    def _requests(self) -> Iterator[Metric]:
        found = self._metrics
        labels = ("method", "route", "status")
        requests = CounterMetricFamily("capset_http_requests", "Requests; 499 is a client that left.", labels=labels)
        for (method, route, status), count in sorted(found.requests.items()):
            requests.add_metric((method, route, str(status)), count)
        yield requests
        took = HistogramMetricFamily(
            "capset_http_request_duration_seconds", "From a request's head to its answer's end.", labels=labels[:2]
        )
        for key, durations in sorted(found.request_durations.items()):
            took.add_metric(key, _buckets(durations), durations.total)
        yield took
        yield GaugeMetricFamily("capset_http_requests_running", "Requests without an end.", found.requests_running)


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*map(str, BUCKETS), "+Inf"]
    return list(zip(bounds, accumulate(durations.counts), strict=True))

"""Counters of calls and requests: plain numbers, rendered only on request (spec 5, P13).

Label values come from the server itself: its registry, its routes, HTTP's methods, the kernel's outcomes. Input from
clients never adds one, and none identifies a caller, an organisation or a session: an organisation reads its own
counts.
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
from capset_server.http.request_context import CLIENT_LEFT, RequestContext
from capset_server.observability.log_writer import LogWriter
from capset_server.service import Service

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of durations, in seconds."""
OTHER_TOOL: Final = "other"
"""The label for a tool that does not exist, or that only a dynamic toolkit creates."""
NO_ROUTE: Final = "none"
MAX_ORGS: Final = 1_000
"""How many organisations are counted separately; further ones appear only in the totals for operators."""


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

    def merge(self, other: Durations) -> None:
        """Add the durations of another histogram."""
        self.counts = [mine + others for mine, others in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class Tally:
    """The counts of one organisation's callers."""

    __slots__ = ("call_durations", "calls", "calls_running", "refusals", "request_durations", "requests")

    def __init__(self) -> None:
        self.calls: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """By tool, effect and outcome."""
        self.call_durations: defaultdict[str, Durations] = defaultdict(Durations)
        """By tool."""
        self.calls_running = 0
        self.requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        """By method, route and status."""
        self.request_durations: defaultdict[tuple[str, str], Durations] = defaultdict(Durations)
        """By method and route."""
        self.refusals: defaultdict[str, int] = defaultdict(int)
        """By the code of the refusal."""

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.calls_running += other.calls_running
        for call, count in other.calls.items():
            self.calls[call] += count
        for request, count in other.requests.items():
            self.requests[request] += count
        for code, count in other.refusals.items():
            self.refusals[code] += count
        for tool, durations in other.call_durations.items():
            self.call_durations[tool].merge(durations)
        for route, durations in other.request_durations.items():
            self.request_durations[route].merge(durations)


class Metrics:
    """An observer of a kernel's calls that also counts requests."""

    def __init__(self, service: Service, log: LogWriter) -> None:
        self.service = service
        self.log = log
        self.requests_running = 0
        self._by_org: dict[str | None, Tally] = {None: Tally()}
        """``None`` is for callers of no organisation, and for those of organisations beyond ``MAX_ORGS``."""
        self._registry: Registry | None = None
        self._known: frozenset[str] = frozenset()
        self._names()  # now, not during the first call

    def on_start(self, call: Invocation) -> Tally:
        """Count a running call, and return the tally that counts it."""
        tally = self._of(call.context.snapshot.principal.org)
        tally.calls_running += 1
        return tally

    def on_attach(self, state: Tally) -> None:
        """Do nothing: a call is counted once, wherever it runs."""

    def on_end(self, call: Invocation, state: Tally) -> None:
        """Count a call that has ended."""
        state.calls_running -= 1
        tool, ended = call.compiled.tool, call.outcome_entry
        if ended is None:
            return
        name = tool.name if tool is not None and tool.name in self._names() else OTHER_TOOL
        state.calls[name, tool.effect if tool is not None else "none", str(ended.outcome)] += 1
        state.call_durations[name].add(ended.duration_us / 1e6)

    def on_detach(self, state: Tally) -> None:
        """Do nothing: no context was changed."""

    def asked(self) -> None:
        """Count a running request."""
        self.requests_running += 1

    def answered(self, request_info: RequestContext, method: str, seconds: float) -> None:
        """Count a request that was answered or abandoned, under the template of its path."""
        self.requests_running -= 1
        caller, route = request_info.caller, request_info.route or NO_ROUTE
        tally = self._of(None if caller is None else caller.principal.org)
        tally.requests[method, route, request_info.status or CLIENT_LEFT] += 1
        tally.request_durations[method, route].add(seconds)
        if request_info.refusal is not None:
            tally.refusals[request_info.refusal] += 1

    def of(self, org: str | None) -> Tally:
        """Return the counts of one organisation, or of all callers together for ``None``."""
        if org is not None:
            return self._by_org.get(org) or Tally()
        total = Tally()
        for tally in self._by_org.values():
            total.add(tally)
        return total

    def _of(self, org: str | None) -> Tally:
        tally = self._by_org.get(org)
        if tally is None:
            if len(self._by_org) > MAX_ORGS:
                return self._by_org[None]
            tally = self._by_org[org] = Tally()
        return tally

    def _names(self) -> frozenset[str]:
        """Return the tool names of the registry; a reload may replace it."""
        if self.service.registry is not self._registry:
            self._registry = self.service.registry
            self._known = frozenset(self._names_in(self._registry))
        return self._known

    def _names_in(self, registry: Registry) -> set[str]:
        kernel = self.service.kernel
        names = {tool.name for capability in registry.capabilities.values() for tool in capability.every_tool}
        for agent in registry.agents.values():
            try:
                names |= {tool.name for tool in kernel.compile_tools(kernel.compose(agent)).by_tool}
            except CapsetError:
                continue  # opening a session with the agent reports the error
        return names


class Exposition:
    """Exporter of one server's metrics, and of the process metrics of the operating system."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._process = ProcessCollector(registry=None)

    def written(self, accept: str, org: str | None) -> tuple[bytes, str]:
        """Return metrics in the format that a client accepts, and its media type.

        They cover one organisation's callers, or everything for ``None``.
        """
        registry = CollectorRegistry()
        registry.register(_OfCallers(self._metrics.of(org)))
        if org is None:
            registry.register(_WholeServer(self._metrics))
            registry.register(self._process)
        try:
            encode, media_type = choose_encoder(accept)
        except (TypeError, ValueError):  # the header names an invalid version
            encode, media_type = choose_encoder("")
        return encode(registry), media_type


class _OfCallers(Collector):
    """Metric families of calls and requests."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family with its current values."""
        tally, labels = self._tally, ("tool", "effect", "outcome")
        calls = CounterMetricFamily("capset_calls", "Calls that have ended, including refused ones.", labels=labels)
        for key, count in sorted(tally.calls.items()):
            calls.add_metric(key, count)
        yield calls
        took = HistogramMetricFamily(
            "capset_call_duration_seconds", "Time from the start of a call to its outcome.", labels=["tool"]
        )
        for tool, durations in sorted(tally.call_durations.items()):
            took.add_metric([tool], _buckets(durations), durations.total)
        yield took
        yield GaugeMetricFamily("capset_calls_running", "Calls that have no outcome yet.", tally.calls_running)
        yield from self._requests()

    def _requests(self) -> Iterator[Metric]:
        labels = ("method", "route", "status")
        requests = CounterMetricFamily(
            "capset_http_requests", "Requests; 499 means that the client disconnected.", labels=labels
        )
        for (method, route, status), count in sorted(self._tally.requests.items()):
            requests.add_metric((method, route, str(status)), count)
        yield requests
        refusals = CounterMetricFamily(
            "capset_http_refusals", "Requests refused by a rule of HTTP or a limit of the server.", labels=["code"]
        )
        for code, count in sorted(self._tally.refusals.items()):
            refusals.add_metric([code], count)
        yield refusals
        took = HistogramMetricFamily(
            "capset_http_request_duration_seconds",
            "Time from the head of a request to the end of its response.",
            labels=labels[:2],
        )
        for key, durations in sorted(self._tally.request_durations.items()):
            took.add_metric(key, _buckets(durations), durations.total)
        yield took


class _WholeServer(Collector):
    """Metric families of the server as a whole."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family with its current values."""
        metrics, service = self._metrics, self._metrics.service
        yield CounterMetricFamily(
            "capset_abandoned", "Tasks and threads that did not end when they were cancelled.", service.kernel.abandoned
        )
        yield from self._threads()
        yield GaugeMetricFamily("capset_http_requests_running", "Requests under way.", metrics.requests_running)
        yield CounterMetricFamily(
            "capset_log_lines_lost", "Lines of the log that were dropped, unread.", metrics.log.lost
        )
        yield GaugeMetricFamily(
            "capset_followers", "Open streams of events of sessions.", service.turns.followers.count
        )
        yield GaugeMetricFamily(
            "capset_registry_problems", "Installed entries that could not be loaded.", len(service.registry.problems)
        )
        built = GaugeMetricFamily("capset_build_info", "The version of capset.", labels=["version"])
        built.add_metric([version("capset")], 1)
        yield built

    def _threads(self) -> Iterator[Metric]:
        threads = self._metrics.service.kernel.threads
        yield GaugeMetricFamily("capset_threads_running", "Threads of sync handlers.", threads.running)
        yield GaugeMetricFamily("capset_threads_waiting", "Sync handlers that wait for a thread.", threads.waiting)
        yield GaugeMetricFamily(
            "capset_threads_abandoned",
            "Threads that outlive their calls, and keep their slots.",
            threads.abandoned_running,
        )


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    bounds = [*map(str, BUCKETS), "+Inf"]
    return list(zip(bounds, accumulate(durations.counts), strict=True))

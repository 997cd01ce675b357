"""Metrics as Prometheus reads them, from a registry of their own (spec 5, P13)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from capset.server.metrics import BUCKETS, Durations, Metrics


class Exposition:
    """Writes one server's metrics, and what the machine says of its process."""

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
        """Give every family, with the numbers of this moment."""
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

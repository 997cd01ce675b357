"""OpenTelemetry traces of ``capset serve`` and ``capset worker``, by the variables of its SDK."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from capset.errors import DefinitionError
from capset_cli.common.exits import require_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"


@contextmanager
def exported_traces() -> Generator[None]:
    """Set up the OpenTelemetry SDK if requested, and flush the remaining spans at the end.

    The SDK reads its own variables: service name, resource, sampler, batches, endpoint, headers. Raises
    ``DefinitionError`` for an unknown exporter or protocol, and if the extra ``otel`` is missing.
    """
    names = requested_exporters(os.environ)
    if not names:
        yield
        return
    require_extra("otel", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    attributes = {} if is_named else {"service.name": "capset", "service.version": version("capset")}
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_make_exporter(name)))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()


def requested_exporters(environ: Mapping[str, str]) -> list[str]:
    """Return the requested exporters, ``otlp`` and ``console``; an endpoint alone implies ``otlp``.

    Raises ``DefinitionError`` for others, and for a protocol other than ``http/protobuf``.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    has_endpoint = any(environ.get(name) for name in _ENDPOINTS)
    exporters = environ.get(_EXPORTER, "").strip() or ("otlp" if has_endpoint else "none")
    names = [name for name in dict.fromkeys(part.strip().lower() for part in exporters.split(",")) if name != "none"]
    for name in names:
        if name not in ("otlp", "console"):
            raise DefinitionError(f"{_EXPORTER} must be otlp, console or none; got {name!r:.80}")
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if "otlp" in names and protocol != _PROTOCOL:
        raise DefinitionError(
            f"traces are sent as {_PROTOCOL}; got {protocol!r:.80}",
            hint=f"set {_PROTOCOLS[0]}={_PROTOCOL}, and the collector's HTTP endpoint, usually on port 4318",
        )
    return names


def _make_exporter(name: str) -> SpanExporter:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()

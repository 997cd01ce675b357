"""The old path of ``capset.kernel.telemetry.tracing``."""

from capset.kernel.telemetry.tracing import Tracing, traceparent_of

__all__ = ["Tracing", "traceparent_of"]

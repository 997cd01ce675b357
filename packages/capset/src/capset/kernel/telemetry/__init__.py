"""Observers of calls, and spans of OpenTelemetry."""

"""Observers of calls, and OpenTelemetry spans."""

"""Adapters to agent frameworks: a session's tools for their agents. Each module needs its framework installed."""

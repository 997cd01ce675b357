"""Adapters that give a session's tools to agents of other frameworks. Each module needs its framework installed."""
